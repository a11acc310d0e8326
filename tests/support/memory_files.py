"""Temporary files in memory: thousands of stores are opened, and each would wait for the disk."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

_SHARED_MEMORY = Path("/dev/shm")
_NEEDED_BYTES = 1 << 30


def find_memory_directory(
    path: Path = _SHARED_MEMORY, needed_bytes: int = _NEEDED_BYTES
) -> Path | None:
    """Return the file system in memory; None if there is none, it is small, or programs in it
    cannot be executed, as in many containers."""
    if not (path.is_dir() and os.access(path, os.W_OK | os.X_OK)):
        return None
    can_execute = not os.statvfs(path).f_flag & os.ST_NOEXEC
    return path if can_execute and shutil.disk_usage(path).free >= needed_bytes else None


def use_memory_for_temporary_files() -> None:
    """Let this process and its subprocesses make temporary files in memory, if possible.

    A TMPDIR that the user has set stays.
    """
    if "TMPDIR" not in os.environ and (directory := find_memory_directory()):
        os.environ["TMPDIR"] = str(directory)
        tempfile.tempdir = None  # it is found again, by the variable
