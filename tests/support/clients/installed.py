"""Paths and pinned versions of the installed clients (see `install.py`)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PINS = Path(__file__).parents[2] / "clients"
CLIENTS = PINS.parents[1] / ".clients"
NODE = CLIENTS / "node"
NODE22 = CLIENTS / "node22"
MCP = CLIENTS / "mcp"
PYTHON = CLIENTS / "python"
AIDER = CLIENTS / "aider"
"""The environment of aider alone: it pins every package that it uses."""


@dataclass(frozen=True)
class Release:
    """One set of npm packages: those of `tests/clients/package.json`, or of a folder beside it."""

    name: str
    directory: Path

    @property
    def modules(self) -> Path:
        return self.directory / "node_modules"

    @property
    def node(self) -> str:
        """The Node that runs them: the one that npm installed for this machine, if there is one."""
        return next(map(str, self.modules.glob("node-*/bin/node")), "node")

    def command(self, name: str) -> str:
        """Path of a command that npm installed."""
        return str(self.modules / ".bin" / name)


PINNED = Release("npm", NODE)
NEWEST = Release("node22", NODE22)


def node_command(name: str) -> str:
    """Path of a command installed by npm."""
    return PINNED.command(name)


def python_command(name: str = "python") -> str:
    """Path of a command installed by pip, or of the Python that has the clients."""
    return str(PYTHON / "bin" / name)


@cache
def versions() -> dict[str, str]:
    """Every pinned package and its version: `npm:openai`, `node22:openai`, `pypi:openai` …"""
    found = {}
    for release, path in (("npm", PINS), ("node22", PINS / "node22")):
        package = json.loads((path / "package.json").read_text(encoding="utf-8"))
        for name, version in package["dependencies"].items():
            found[f"{release}:{name}"] = version
    for path in (PINS, PINS / "aider"):
        for line in (path / "requirements.txt").read_text(encoding="utf-8").splitlines():
            pin = re.fullmatch(r"([\w-]+)(?:\[[\w,]+\])?==(\S+)", line)
            if pin:
                found[f"pypi:{pin[1]}"] = pin[2]
    return found
