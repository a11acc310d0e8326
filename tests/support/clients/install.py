"""Installs the clients that tests/clients drives into `.clients`, once per set of pins.

Run as `python -m tests.support.clients.install`, or with the name of one directory, such as
`node`. An install made from the same pins is kept.
Nothing that a package would run while it is installed is run, but for the one script that has to.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.support.clients.installed import AIDER, CLIENTS, MCP, NODE, NODE22, PINS, PYTHON

NPM = "npm install --ignore-scripts --no-audit --no-fund --loglevel=error".split()
NODE_PINS = ("package.json", "package-lock.json")
NODE22_PINS = tuple(f"node22/{name}" for name in NODE_PINS)
MCP_PINS = tuple(f"mcp/{name}" for name in NODE_PINS)
PYTHON_PINS = ("requirements.txt", "constraints.txt")
AIDER_PINS = ("aider/requirements.txt",)
OLDEST_TOO_NEW_FOR_AIDER = (3, 13)


def install_node(directory: Path) -> None:
    for name in NODE_PINS:
        shutil.copy(PINS / name, directory / name)
    subprocess.run(NPM, cwd=directory, check=True)
    # Links the program for this machine to where the command looks for it.
    opencode = directory / "node_modules" / "opencode-ai"
    subprocess.run(["node", "postinstall.mjs"], cwd=opencode, check=True)


def install_node22(directory: Path) -> None:
    """Other versions, with the Node that they need: a package of npm, for this folder alone."""
    for name in NODE22_PINS:
        shutil.copy(PINS / name, directory)
    subprocess.run(NPM, cwd=directory, check=True)


def install_mcp(directory: Path) -> None:
    """The MCP server of the protocol's own makers."""
    for name in MCP_PINS:
        shutil.copy(PINS / name, directory)
    subprocess.run(NPM, cwd=directory, check=True)


def install_python(directory: Path) -> None:
    asked, known = (str(PINS / name) for name in PYTHON_PINS)
    _install_environment(directory, "--requirement", asked, "--constraint", known)


def install_aider(directory: Path) -> None:
    """Its package pins all others, so it has an environment of its own."""
    if sys.version_info >= OLDEST_TOO_NEW_FOR_AIDER:
        sys.stderr.write("aider needs Python 3.10 to 3.12; its tests are skipped\n")
        return
    _install_environment(directory, "--requirement", str(PINS / AIDER_PINS[0]))


def _install_environment(directory: Path, *options: str) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(directory / "bin" / "python")]
    quiet = ["-qq", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", *quiet, *options], check=True)


def ensure(directory: Path, pins: tuple[str, ...], install: Callable[[Path], None]) -> None:
    """Install once per set of pins. The stamp is written last: an interrupted one is repeated."""
    stamp = directory / "stamp"
    digest = hashlib.sha256(f"{sys.version_info[:2]}".encode())
    for name in pins:
        digest.update((PINS / name).read_bytes())
    if stamp.is_file() and stamp.read_text(encoding="ascii") == digest.hexdigest():
        return
    sys.stderr.write(f"installing the clients in {CLIENTS.name}/{directory.name}\n")
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    install(directory)
    stamp.write_text(digest.hexdigest(), encoding="ascii")


INSTALLS = (
    (NODE, NODE_PINS, install_node),
    (NODE22, NODE22_PINS, install_node22),
    (MCP, MCP_PINS, install_mcp),
    (PYTHON, PYTHON_PINS, install_python),
    (AIDER, AIDER_PINS, install_aider),
)

if __name__ == "__main__":
    for directory, pins, install in INSTALLS:
        if directory.name in (sys.argv[1:] or [directory.name]):
            ensure(directory, pins, install)
