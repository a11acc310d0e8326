"""Stores that were written by an earlier version, read by this one.

`stores/turns_10.sql` is the dump of a file of version 10, in which turns had their output three
times. A gateway of that version wrote it: whole, streamed, chained and background responses, a
call of a tool, a conversation, and a turn that is compressed.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from antiphon.store.admin.copy import copy_store, open_admin
from antiphon.store.chain import build_history
from antiphon.store.postgres.address import parse_address
from antiphon.store.postgres.migrate import connecting
from antiphon.store.postgres.schema import MIGRATIONS
from antiphon.store.sqlite.access import decompress
from antiphon.store.sqlite.schema import SCHEMA
from antiphon.store.store import Store
from antiphon.store.url import open_store
from tests.support.turns import Clock

pytestmark = pytest.mark.anyio

DUMP = Path(__file__).parent / "stores" / "turns_10.sql"
CLIENT = "local"
SAVE_TURN = "SELECT save_turn($1, $2, $3, $4, $5, $6, $7, $8, false)"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of version 10."""
    path = tmp_path / "turns.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(DUMP.read_text())
    return path


def read_bodies(path: Path) -> list[dict[str, Any]]:
    """Return the turns as the earlier version wrote them."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT body FROM turn ORDER BY seq").fetchall()
    return [json.loads(decompress(body)) for (body,) in rows]


async def check_turns(store: Store, bodies: list[dict[str, Any]]) -> None:
    """Check that a store has the turns of the earlier version."""
    assert len(bodies) == 7
    for body in bodies:
        turn = await store.load(body["id"], client=CLIENT)
        assert turn is not None
        assert json.dumps(turn.response) == json.dumps(body["response"])
        assert turn.response["output_text"] or body["output"][0]["type"] == "function_call"
        assert [*turn.output] == body["output"]
        [item] = body["output"]
        assert await store.load_items([item["id"]], client=CLIENT) == {item["id"]: item}
        chain = await store.chain(body["id"], client=CLIENT)
        assert build_history(chain)[-1] == item
        assert len(chain) == (1 if body["previous_response_id"] is None else 2)


async def check_conversation(store: Store, bodies: list[dict[str, Any]]) -> None:
    """Check that a store has the conversation of the earlier version."""
    [body] = [each for each in bodies if each["response"]["conversation"]]
    turn = await store.load(body["id"], client=CLIENT)
    assert turn is not None
    assert turn.conversation_id == body["response"]["conversation"]["id"]
    page = await store.conversations.list_items(turn.conversation_id or "", client=CLIENT)
    assert page is not None
    texts = [item["content"][0]["text"] for item in page.items[:2]]
    assert texts == ["first", "in a conversation"]
    assert page.items[2] == body["output"][0]


async def check_store(url: str, bodies: list[dict[str, Any]]) -> None:
    store = open_store(url, now=Clock())
    await store.open()
    try:
        await check_turns(store, bodies)
        await check_conversation(store, bodies)
    finally:
        await store.close()


async def test_a_file_of_version_10_is_migrated_and_read(path: Path) -> None:
    bodies = read_bodies(path)
    url = f"sqlite:///{path}"
    assert await open_admin(url).migrate() == (10, len(SCHEMA.migrations))
    await check_store(url, bodies)


async def test_a_file_of_version_10_is_copied_to_a_new_one(path: Path, tmp_path: Path) -> None:
    bodies = read_bodies(path)
    copied = f"sqlite:///{tmp_path}/copied.db"
    await copy_store(open_admin(f"sqlite:///{path}"), open_admin(copied))
    await check_store(copied, bodies)


async def test_a_turn_of_version_10_that_is_saved_again_has_its_output_once(path: Path) -> None:
    store = open_store(f"sqlite:///{path}", now=Clock())
    await store.open()
    try:
        [first, *_] = read_bodies(path)
        turn = await store.load(first["id"], client=CLIENT)
        assert turn is not None
        await store.save(turn.with_response(turn.response))
        again = await store.load(first["id"], client=CLIENT)
        assert again is not None
        assert json.dumps(again.response) == json.dumps(first["response"])
    finally:
        await store.close()
    [body, *_] = read_bodies(path)
    assert body["response"]["output"] == []
    assert body["response"]["output_text"] == ""
    assert body["output"] == first["output"]


async def test_a_file_of_version_10_is_copied_to_a_database(path: Path, postgres_url: str) -> None:
    bodies = read_bodies(path)
    await copy_store(open_admin(f"sqlite:///{path}"), open_admin(postgres_url))
    await check_store(postgres_url, bodies)


async def test_a_database_of_version_6_is_migrated_and_read(path: Path, postgres_url: str) -> None:
    bodies = read_bodies(path)
    address = parse_address(postgres_url)
    async with connecting(address) as connection:
        await connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{address.schema}"')
        await connection.execute("CREATE TABLE schema_version (version integer NOT NULL)")
        await connection.execute("INSERT INTO schema_version VALUES (6)")
        for statements in MIGRATIONS[:6]:
            for statement in statements:
                await connection.execute(statement)
        for body in bodies:
            [item] = body["output"]
            row = (
                body["id"],
                body["previous_response_id"],
                None,
                CLIENT,
                json.dumps(body).encode(),
            )
            await connection.execute(SAVE_TURN, *row, [item["id"]], [False], [0])
    assert await open_admin(postgres_url).migrate() == (6, len(MIGRATIONS))
    store = open_store(postgres_url, now=Clock())
    await store.open()
    try:
        await check_turns(store, bodies)
    finally:
        await store.close()
