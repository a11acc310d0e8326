"""The file `capsule.key`: the key of capsules, created on first use and checked at every start.

An empty or weak key would let any client forge provider state, so the gateway refuses to start with
one (docs/adr/0036-keys-divide-the-store.md).
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from antiphon.config import Config
from antiphon.errors import ConfigError
from antiphon.store.url import is_shared

FILE_NAME = "capsule.key"
_KEY_BYTES = 32
_MIN_CHARACTERS = 32
_MIN_DISTINCT = 8  # a file of zero bytes, as a crash of the machine may leave it, has one
_REPLACE = (
    "Restore it from a backup, or delete it: the next start creates a new key, and reasoning state"
    " that was sealed with the old one is not used any more."
)


def require_shared_key(config: Config) -> None:
    """Raise `ConfigError` if gateways share a store, and each would create a key of its own."""
    if is_shared(config.store.url) and not config.capsule.keys:
        raise config.error_at(
            ["store", "url"],
            "gateways that share a store need the same capsule key, and [capsule] keys is not set."
            " Make a key with `openssl rand -hex 32`, and give it to every gateway:"
            ' [capsule] keys = ["${CAPSULE_KEY}"]',
        )


def read_or_create_key(path: Path, new_bytes: Callable[[int], bytes]) -> str:
    """Return the key in a file; a missing file is created with a new key, so that capsules survive
    a restart. Raises `ConfigError` if the key cannot be saved or should not be used."""
    try:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_new_key(path, new_bytes(_KEY_BYTES).hex())
    except OSError as error:
        raise _refuse_place(path, error.strerror) from error
    return read_key(path)


def check_key(path: Path) -> None:
    """Raise the `ConfigError` of `read_or_create_key`, without creating anything."""
    try:
        there = next(each for each in (path, *path.parents) if each.exists())
        if there != path and not there.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if there != path and not os.access(there, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise _refuse_place(path, error.strerror) from error
    if there == path:
        read_key(path)


def _refuse_place(path: Path, reason: str | None) -> ConfigError:
    return ConfigError(
        f"{path}: the capsule key cannot be saved ({reason}). The gateway must be able to write to"
        " this directory; $XDG_DATA_HOME selects another one."
    )


def read_key(path: Path) -> str:
    """Return the key in an existing file; raises `ConfigError` if it should not be used."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        key = path.read_bytes().decode()
    except OSError as error:
        raise ConfigError(
            f"{path}: the capsule key cannot be read ({error.strerror}); set [capsule] keys."
        ) from error
    except UnicodeDecodeError:
        key = ""
    if mode & stat.S_IRWXO:
        raise ConfigError(
            f"{path}: every user of this machine may access the capsule key (mode {mode:03o})."
            f" Run `chmod 600 {path}`."
        )
    if len(key.strip()) < _MIN_CHARACTERS or len(set(key)) < _MIN_DISTINCT:
        raise ConfigError(f"{path}: the capsule key is empty, damaged or too short. {_REPLACE}")
    return key


def write_new_key(path: Path, key: str) -> None:
    """Create the file in one step: it has all of the key or does not exist, also after a crash.
    If another process creates it at the same time, the file of that process stays."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 600
    try:
        with open(handle, "w") as file:
            file.write(key)
            file.flush()
            os.fsync(handle)
        with suppress(FileExistsError):
            os.link(name, path)
    finally:
        os.unlink(name)
    _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
