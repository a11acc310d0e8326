"""Write requirements.lock: the packages of the image with their versions and hashes.

    python deploy/lock.py

It asks the package index for what the image installs, on both architectures; nothing is installed.
Run it to take newer releases, and review the difference.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "deploy" / "requirements.lock"
PYTHON = "3.13"
EXTRAS = ("postgres", "redis", "otel", "pdf", "mcp")
ARCHITECTURES = ("x86_64", "aarch64")
PLATFORMS = (*(f"manylinux_2_{minor}" for minor in range(36, 16, -1)), "manylinux2014")
"""Releases of glibc up to that of the image."""
HEADER = f"# Packages of the image, written by deploy/lock.py for Python {PYTHON} on Linux.\n"


def main() -> None:
    hashes: defaultdict[str, set[str]] = defaultdict(set)
    for architecture in ARCHITECTURES:
        for package in resolve(list_requirements(), architecture):
            found = package["metadata"]
            name = f"{found['name'].lower().replace('_', '-')}=={found['version']}"
            hashes[name].add(package["download_info"]["archive_info"]["hashes"]["sha256"])
    LOCK.write_text(HEADER + "".join(format_package(name, hashes[name]) for name in sorted(hashes)))


def list_requirements() -> list[str]:
    """Return what the image installs besides Antiphon itself, and what builds it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    optional = project["project"]["optional-dependencies"]
    return [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *(requirement for extra in EXTRAS for requirement in optional[extra]),
    ]


def resolve(requirements: list[str], architecture: str) -> list[dict[str, Any]]:
    """Have pip choose the packages for an architecture."""
    platforms = [f"--platform={platform}_{architecture}" for platform in PLATFORMS]
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory, "report.json")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run"]
        command += ["--ignore-installed", "--only-binary=:all:", f"--python-version={PYTHON}"]
        command += [f"--target={directory}", f"--report={report}", *platforms, *requirements]
        subprocess.run(command, check=True)
        installed: list[dict[str, Any]] = json.loads(report.read_text(encoding="utf-8"))["install"]
        return installed


def format_package(name: str, hashes: set[str]) -> str:
    lines = [name, *(f"    --hash=sha256:{each}" for each in sorted(hashes))]
    return " \\\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
