"""Faults of the disk: the library that makes the k-th file operation of this process fail.

`build` compiles it; a process started with `LD_PRELOAD` set to its path can use `Injector`.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
COMPILER = shutil.which("cc")


def build(directory: Path) -> Path:
    """Compile the library."""
    library = directory / "shim.so"
    assert COMPILER is not None
    command = [COMPILER, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    return library


class Injector:
    """The preloaded library of this process."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(os.environ["LD_PRELOAD"])
        self._library.fault_last.restype = ctypes.c_char_p

    @contextmanager
    def fault_at(self, directory: Path, k: int, persistent: bool) -> Iterator[None]:
        """Let the k-th operation on files of the directory fail, and if `persistent` all after."""
        self._library.fault_arm(os.fsencode(directory), ctypes.c_long(k), int(persistent))
        try:
            yield
        finally:
            self._library.fault_disarm()

    @property
    def counted(self) -> int:
        """Operations since the last `fault_at`."""
        return int(self._library.fault_counted())

    @property
    def failed(self) -> int:
        """How many of them failed."""
        return int(self._library.fault_failed())

    @property
    def operation(self) -> str:
        """The first operation that failed and its file."""
        return bytes(self._library.fault_last()).decode()
