"""Selection of a store by URL: SQLite file, PostgreSQL database or memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from antiphon.errors import StoreError
from antiphon.store.sqlite.store import SQLiteStore
from antiphon.store.store import Clock, Store, StoreLimits
from antiphon.store.turn import ExactClock

_SQLITE = "sqlite:///"
_POSTGRES = ("postgresql://", "postgres://")


def open_store(
    url: str,
    *,
    now: Clock,
    lease_now: ExactClock | None = None,
    limits: StoreLimits | None = None,
    **options: float,
) -> Store:
    """Return the store for a URL. It accesses no file and no database before its `open()`.

    `lease_now` is the clock of leases in a SQLite file: a database has its own. `options` are those
    of a `PostgresStore`; the other stores have none.
    """
    if url == "memory://":
        return SQLiteStore(None, now=now, lease_now=lease_now, limits=limits)
    if (path := sqlite_path(url)) is not None:
        return SQLiteStore(path, now=now, lease_now=lease_now, limits=limits)
    if is_shared(url):
        return _open_postgres(url, now=now, limits=limits, **options)
    raise StoreError(
        f"{hide_password(url)!r} is not a supported store URL: use `sqlite:///FILE` (relative),"
        " `sqlite:////PATH/FILE` (absolute), `postgresql://USER:PASSWORD@HOST/DATABASE` or"
        " `memory://`."
    )


def sqlite_path(url: str) -> Path | None:
    """Return the file that a URL names; None if it is not the URL of a SQLite store."""
    path = url.removeprefix(_SQLITE)
    return Path(path) if path and path != url and path != ":memory:" else None


def is_shared(url: str) -> bool:
    """Whether gateways on several machines may share the store of a URL."""
    return url.startswith(_POSTGRES)


def hide_password(url: str) -> str:
    """Return a URL without user name and password, for messages."""
    scheme, found, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    path = path.partition("?")[0] if "password=" in path else path
    return f"{scheme}{found}{authority.rpartition('@')[2]}{slash}{path}"


def password_of(url: str) -> list[str]:
    """Return the password of a URL as it is written there and as it is used, if it has one."""
    written = urlsplit(url).password
    return [] if not written else [written, unquote(written)]


def _open_postgres(url: str, **options: Any) -> Store:
    """Import the modules only if they are used: they need an optional package."""
    from antiphon.store.postgres.driver import import_asyncpg
    from antiphon.store.postgres.store import PostgresStore

    import_asyncpg()
    return PostgresStore(url, **options)
