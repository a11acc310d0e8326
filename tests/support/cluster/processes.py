"""Processes of this machine that belong to a directory (Linux)."""

from __future__ import annotations

from pathlib import Path


def find_processes(directory: Path) -> dict[int, str]:
    """Return the processes whose working directory or command line is below a directory, and
    their descendants: process ids and commands. Those that have ended are left out."""
    found: dict[int, str] = {}
    parents: dict[int, tuple[int, str]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            state, parent = (path / "stat").read_text().rpartition(")")[2].split()[:2]
            cwd = str((path / "cwd").readlink()) if state != "Z" else ""
        except OSError:  # it has ended since
            continue
        if state == "Z":
            continue
        parents[int(path.name)] = int(parent), command
        if str(directory) in command or cwd.startswith(str(directory)):
            found[int(path.name)] = command
    while more := {
        number: command
        for number, (parent, command) in parents.items()
        if parent in found and number not in found
    }:
        found |= more
    return found
