"""Paths and pinned versions of the installed clients (see `install.py`)."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

PINS = Path(__file__).parents[2] / "clients"
CLIENTS = PINS.parents[1] / ".clients"
NODE = CLIENTS / "node"
PYTHON = CLIENTS / "python"


def node_command(name: str) -> str:
    """Path of a command installed by npm."""
    return str(NODE / "node_modules" / ".bin" / name)


def python_command(name: str = "python") -> str:
    """Path of a command installed by pip, or of the Python that has the clients."""
    return str(PYTHON / "bin" / name)


@cache
def versions() -> dict[str, str]:
    """Every pinned package and its version: `npm:openai`, `pypi:openai` …"""
    package = json.loads((PINS / "package.json").read_text(encoding="utf-8"))
    found = {f"npm:{name}": version for name, version in package["dependencies"].items()}
    lines = (PINS / "requirements.txt").read_text(encoding="utf-8").splitlines()
    for line in lines:
        pin = re.fullmatch(r"([\w-]+)(?:\[\w+\])?==(\S+)", line)
        if pin:
            found[f"pypi:{pin[1]}"] = pin[2]
    return found
