"""The page token: a secret in a file that only the user who runs the gateway can read. It shows
that somebody who opens the page on this machine is this user."""

from __future__ import annotations

import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from antiphon.server.capsule_key import write_new_key

FILE_NAME = "page.token"
_TOKEN_BYTES = 16


def read_or_create_token(directory: Path, new_bytes: Callable[[int], bytes]) -> str:
    """Return the token in a data directory, made on first use; empty if it cannot be saved. One
    that other users could read is replaced."""
    path = directory / FILE_NAME
    with suppress(OSError, UnicodeDecodeError):
        if path.exists() and stat.S_IMODE(path.stat().st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
            path.unlink()
        if not path.exists():
            directory.mkdir(parents=True, exist_ok=True)
            write_new_key(path, new_bytes(_TOKEN_BYTES).hex())
        return path.read_text("ascii").strip()
    return ""
