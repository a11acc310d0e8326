"""Installs the clients that tests/clients drives into `.clients`, once per set of pins.

Run as `python -m tests.support.clients.install`. An install made from the same pins is kept.
Nothing that a package would run while it is installed is run, but for the one script that has to.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.support.clients.installed import CLIENTS, NODE, PINS, PYTHON

NPM = "npm install --ignore-scripts --no-audit --no-fund --loglevel=error".split()
NODE_PINS = ("package.json", "package-lock.json")
PYTHON_PINS = ("requirements.txt", "constraints.txt")


def install_node(place: Path) -> None:
    for name in NODE_PINS:
        shutil.copy(PINS / name, place / name)
    subprocess.run(NPM, cwd=place, check=True)
    # Links the program for this machine to where the command looks for it.
    opencode = place / "node_modules" / "opencode-ai"
    subprocess.run(["node", "postinstall.mjs"], cwd=opencode, check=True)


def install_python(place: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(place / "bin" / "python")]
    asked, known = (str(PINS / name) for name in PYTHON_PINS)
    options = ["-qq", "--disable-pip-version-check", "--requirement", asked, "--constraint", known]
    subprocess.run([*pip, "install", *options], check=True)


def ensure(place: Path, pins: tuple[str, ...], install: Callable[[Path], None]) -> None:
    """The stamp is written last: an install that broke off is made again."""
    stamp = place / "stamp"
    digest = hashlib.sha256(f"{sys.version_info[:2]}".encode())
    for name in pins:
        digest.update((PINS / name).read_bytes())
    if stamp.is_file() and stamp.read_text(encoding="ascii") == digest.hexdigest():
        return
    sys.stderr.write(f"installing the clients in {CLIENTS.name}/{place.name}\n")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    install(place)
    stamp.write_text(digest.hexdigest(), encoding="ascii")


if __name__ == "__main__":
    ensure(NODE, NODE_PINS, install_node)
    ensure(PYTHON, PYTHON_PINS, install_python)
