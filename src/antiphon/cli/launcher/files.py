"""Atomic writes of the files that agents read, so that they never read half of one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from antiphon.errors import ConfigError


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file atomically. It keeps its mode (0600 if new), and a symbolic link stays one."""
    path = path.resolve()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with open(handle, "wb") as file:
                os.fchmod(file.fileno(), mode)
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error


def read_file(path: Path) -> bytes | None:
    """Read a file; None if it does not exist."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
