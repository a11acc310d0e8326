"""`antiphon check` on the gateway's own files: a weak capsule key, a damaged store, and owners."""

from __future__ import annotations

import json
import time
from pathlib import Path

import msgspec
import pytest

from antiphon.cli.main import main
from antiphon.store.sqlite.file import DatabaseSchema, connect, create_directory
from antiphon.store.sqlite.schema import SCHEMA
from tests.support.turns import turn

KEYS = '[server]\napi_keys = { alice = "sk-alice-0123456789", bob = "sk-bob-9876543210" }\n'
BEFORE_OWNERS = DatabaseSchema(SCHEMA.application_id, SCHEMA.migrations[:3])
TOMORROW = 24 * 3600


@pytest.fixture
def data(home: Path) -> Path:
    return home / ".local" / "share" / "antiphon"


def owners(capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["check"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    [value] = [document["value"] for document in found if document["check"] == "stored_responses"]
    assert isinstance(value, str)
    return value


@pytest.mark.usefixtures("home")
def test_without_keys_there_is_one_owner(capsys: pytest.CaptureFixture[str]) -> None:
    assert owners(capsys) == "shared, because there are no client keys"


def test_with_keys_each_is_an_owner_and_nothing_is_created(
    home: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "antiphon.toml").write_text(KEYS)
    assert owners(capsys) == "separate for each client key"
    assert not data.exists()


def store_turns(data: Path, schema: DatabaseSchema, *expiries: int | None) -> None:
    create_directory(data / "turns.db")
    connection = connect(data / "turns.db", schema, synchronous="FULL")
    for number, expires_at in enumerate(expiries):
        body = msgspec.json.encode(turn(f"r{number}"))
        row = (f"r{number}", expires_at, body)
        connection.execute("INSERT INTO turn (id, expires_at, body) VALUES (?, ?, ?)", row)
    connection.close()


@pytest.mark.parametrize("schema", [BEFORE_OWNERS, SCHEMA], ids=["not migrated", "migrated"])
def test_responses_without_an_owner_are_counted_until_they_expire(
    home: Path, data: Path, capsys: pytest.CaptureFixture[str], schema: DatabaseSchema
) -> None:
    (home / "antiphon.toml").write_text(KEYS)
    now = int(time.time())
    store_turns(data, schema, now - 10, now + 10 * TOMORROW, now + TOMORROW)
    day = time.strftime("%Y-%m-%d", time.gmtime(now + 10 * TOMORROW))
    assert (
        "; 2 responses have no owner (stored by an earlier version) and can be continued by every"
        f" key until {day}; reasoning state of that version can be used by every key for 90 days"
    ) in owners(capsys)


def test_a_response_that_never_expires_has_no_date(
    home: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "antiphon.toml").write_text(KEYS)
    store_turns(data, SCHEMA, None)
    assert "1 response has no owner (stored by an earlier version) and" in owners(capsys)
    assert "until" not in owners(capsys)


def test_a_weak_capsule_key_fails_the_check(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data.mkdir(parents=True)
    (data / "capsule.key").touch(0o600)
    assert main(["check"]) == 1
    assert f"{data / 'capsule.key'}: the capsule key is empty" in capsys.readouterr().err


def test_a_directory_in_which_the_capsule_key_cannot_be_created_fails_the_check(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data.parent.mkdir(parents=True)
    data.touch()
    assert main(["check"]) == 1
    assert "the capsule key cannot be saved (Not a directory)" in capsys.readouterr().err


def test_a_data_directory_that_the_system_refuses_to_look_at_fails_the_check(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As one below a directory of another user is, when it is not entered by root."""
    monkeypatch.setenv("XDG_DATA_HOME", str(home / ("x" * 300)))
    assert main(["check"]) == 1
    assert "the capsule key cannot be saved (File name too long)" in capsys.readouterr().err


def test_a_damaged_store_fails_the_check(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data.mkdir(parents=True)
    (data / "turns.db").write_bytes(b"no database at all, " * 100)
    assert main(["check"]) == 1
    assert f"{data / 'turns.db'}: the file is damaged" in capsys.readouterr().err
