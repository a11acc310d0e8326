"""The ways to install it that README.md lists, each in a checkout of its own: pip and uv. `make
serve` is the first command of CI; a container needs more than a test has."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import antiphon
from tests.support.commands import environment

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PATIENCE_S = 600.0


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What a clone has of the package."""
    directory = tmp_path / "checkout"
    directory.mkdir()
    for name in ("README.md", "LICENSE", "pyproject.toml"):
        shutil.copy(ROOT / name, directory)
    shutil.copytree(
        ROOT / "src", directory / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
    )
    return directory


def find_command(way: str) -> str:
    """The command of a row of the table, which shows the version in place of serving."""
    found = re.search(rf"^\| {way} \| `([^`]+)`", README, re.MULTILINE)
    assert found
    return found[1].replace("antiphon serve", "antiphon --version")


def run(command: str, checkout: Path, **more: str) -> str:
    """Run a command as a user who has the network settings of this one, and an own home."""
    variables = environment(checkout.parent, **more)
    variables = {k: v for k, v in variables.items() if k not in ("PYTHONPATH", "SSL_CERT_FILE")}
    network = {k: v for k, v in os.environ.items() if re.match("PIP_|UV_|SSL_|.*_proxy", k, re.I)}
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=checkout,
        env={**variables, **network},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_pip_installs_the_command_without_make(checkout: Path) -> None:
    assert run(find_command("pip"), checkout).endswith(f"antiphon {antiphon.__version__}\n")


def test_uv_installs_the_command(checkout: Path) -> None:
    programs = checkout.parent / "uv"
    run(f"{sys.executable} -m venv {programs} && {programs}/bin/pip install uv", checkout)
    path = f"{programs}/bin:{checkout.parent}/.local/bin:{os.environ['PATH']}"
    run(find_command("uv or pipx"), checkout, PATH=path)
    assert run("antiphon --version", checkout, PATH=path) == f"antiphon {antiphon.__version__}\n"
