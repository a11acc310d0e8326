"""Selection of a store by URL: `sqlite:///relative`, `sqlite:////absolute` or `memory://`."""

from __future__ import annotations

from pathlib import Path

from antiphon.errors import StoreError
from antiphon.store.memory import MemoryStore
from antiphon.store.sqlite import SQLiteStore
from antiphon.store.store import Clock, Store, StoreLimits

_SQLITE = "sqlite:///"


def open_store(url: str, *, now: Clock, limits: StoreLimits | None = None) -> Store:
    """Return the store for a URL. It accesses no file before its `open()`."""
    if url == "memory://":
        return MemoryStore(now=now, limits=limits)
    if (path := sqlite_path(url)) is not None:
        return SQLiteStore(path, now=now, limits=limits)
    raise StoreError(
        f"{url!r} is not a supported store URL: use `sqlite:///FILE` (relative),"
        " `sqlite:////PATH/FILE` (absolute) or `memory://`."
    )


def sqlite_path(url: str) -> Path | None:
    """Return the file that a URL names; None if it is not the URL of a SQLite store."""
    path = url.removeprefix(_SQLITE)
    return Path(path) if path and path != url and path != ":memory:" else None
