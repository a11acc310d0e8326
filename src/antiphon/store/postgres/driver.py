"""The driver asyncpg, which is an optional dependency, and its errors as errors of the store."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from antiphon.errors import StoreError, StoreUnavailable

READ_ONLY_STATE = "25006"
"""SQLSTATE of a server that became a standby: the next connection finds the one that is written."""
_TRANSIENT_STATES = ("08", "53", "57P", "58", "57014", "55P03", READ_ONLY_STATE)
"""SQLSTATE classes of a database that is away, starting, stopping or out of resources, and of a
statement that took longer than the server allows."""
_LOGIN_STATES = ("28", "3D")
"""A login that is refused, or a database that does not exist. It is an error at the start; later it
passes, as when a password is changed or a database is restored."""
_CONFLICT_STATES = ("40",)
"""Deadlocks: the transaction was undone and can be repeated."""


def import_asyncpg() -> Any:
    """Import the driver; raises `StoreError` that says how to install it."""
    try:
        import asyncpg
    except ImportError:
        raise StoreError(
            "A PostgreSQL store needs the package asyncpg. Install it into Antiphon's environment:"
            f" pip --python {sys.executable} install asyncpg"
        ) from None
    return asyncpg


def is_transient(error: BaseException) -> bool:
    """Whether the same call may succeed later, with a new connection if need be."""
    state: str | None = getattr(error, "sqlstate", None)
    if state is not None:
        return state.startswith((*_TRANSIENT_STATES, *_LOGIN_STATES, *_CONFLICT_STATES))
    name = type(error).__name__  # the driver's own errors: a connection that is closed or in use
    return isinstance(error, OSError | TimeoutError | asyncio.TimeoutError) or name in (
        "InterfaceError",
        "InternalClientError",
        "ConnectionDoesNotExistError",
        "TargetServerAttributeNotMatched",
    )


def is_conflict(error: BaseException) -> bool:
    """Whether a transaction was undone because of another one; the database is not away."""
    return str(getattr(error, "sqlstate", None)).startswith(_CONFLICT_STATES)


def is_driver_error(error: BaseException) -> bool:
    """Whether an error comes from the database or the connection to it."""
    module = type(error).__module__
    return isinstance(error, OSError | TimeoutError) or module.startswith("asyncpg")


def to_store_error(name: str, error: BaseException) -> StoreError:
    """Return an error of the driver as one that names the database. Messages of the server may
    quote values, so only those about the connection are repeated."""
    state = getattr(error, "sqlstate", None)
    if (state or "").startswith(_LOGIN_STATES):
        return StoreUnavailable(f"{name}: {error}")
    if is_transient(error):
        reason = str(error) or type(error).__name__
        return StoreUnavailable(f"{name}: the database cannot be used now ({reason}).")
    is_configuration = type(error).__name__ == "ClientConfigurationError"
    if is_configuration or (state or "").startswith(("3F", "42")):
        return StoreError(f"{name}: {error}")
    kind = type(error).__name__
    return StoreError(f"{name}: the database refused a statement ({kind}, SQLSTATE {state}).")
