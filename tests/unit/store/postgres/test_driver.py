"""Errors of the PostgreSQL driver."""

from __future__ import annotations

import sys

import pytest

from antiphon.errors import StoreError, StoreUnavailable
from antiphon.store.postgres.driver import (
    import_asyncpg,
    is_conflict,
    is_driver_error,
    is_transient,
    to_store_error,
)
from tests.support.tables import table

asyncpg = import_asyncpg()

AWAY = [
    ConnectionRefusedError("refused"),
    TimeoutError(),
    asyncpg.CannotConnectNowError("the database system is starting up"),
    asyncpg.AdminShutdownError("terminating connection"),
    asyncpg.TooManyConnectionsError("too many clients"),
    asyncpg.ConnectionDoesNotExistError("closed"),
    asyncpg.InterfaceError("the connection is closed"),
    asyncpg.DeadlockDetectedError("deadlock"),
    asyncpg.QueryCanceledError("canceling statement due to statement timeout"),
    asyncpg.LockNotAvailableError("canceling statement due to lock timeout"),
    asyncpg.ReadOnlySQLTransactionError("cannot execute UPDATE in a read-only transaction"),
    asyncpg.InvalidPasswordError("password authentication failed"),
    asyncpg.InvalidAuthorizationSpecificationError('role "antiphon" does not exist'),
    asyncpg.InvalidCatalogNameError('database "antiphon" does not exist'),
]
REFUSED = [
    asyncpg.UniqueViolationError("Key (id)=(secret) already exists."),
    asyncpg.InsufficientPrivilegeError("permission denied for schema antiphon"),
    asyncpg.DataError("invalid input: secret"),
]


@table("error", AWAY, ids=lambda error: type(error).__name__)
def test_a_database_that_is_away_may_come_back(error: Exception) -> None:
    assert is_driver_error(error)
    assert is_transient(error)
    assert isinstance(to_store_error("db", error), StoreUnavailable)


@pytest.mark.parametrize("error", REFUSED, ids=lambda error: type(error).__name__)
def test_a_refused_statement_is_refused_again(error: Exception) -> None:
    assert is_driver_error(error)
    assert not is_transient(error)
    converted = to_store_error("db", error)
    assert type(converted) is StoreError
    assert converted.message.startswith("db: ")
    assert "secret" not in converted.message


def test_a_refused_login_is_explained_in_the_words_of_the_server() -> None:
    error = asyncpg.InvalidPasswordError("password authentication failed")
    assert to_store_error("db", error).message == "db: password authentication failed"


def test_a_deadlock_is_no_sign_of_a_database_that_is_away() -> None:
    assert [is_conflict(error) for error in AWAY].count(True) == 1
    assert is_conflict(asyncpg.DeadlockDetectedError("deadlock"))


def test_a_wrong_option_of_the_url_is_named() -> None:
    error = asyncpg.exceptions.ClientConfigurationError('"sslmode" must be one of: …')
    assert to_store_error("db", error).message == 'db: "sslmode" must be one of: …'


def test_other_errors_are_not_of_the_driver() -> None:
    assert not is_driver_error(ValueError())
    assert not is_transient(ValueError())


def test_a_missing_driver_is_reported_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(StoreError, match=f"pip --python {sys.executable} install asyncpg"):
        import_asyncpg()
