"""References to stored items: limits, and stores that fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.core.request import Request
from antiphon.errors import InvalidRequest, StoreError
from antiphon.store import item_references
from antiphon.store.item_references import resolve_references
from antiphon.store.sqlite.store import SQLiteStore
from antiphon.store.turn import Turn
from tests.support.request_body import parse_body
from tests.support.stores import OpenMemory
from tests.support.tables import table
from tests.support.turns import Clock, turn

pytestmark = pytest.mark.anyio

REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}


@pytest.fixture
def broken(tmp_path: Path) -> SQLiteStore:
    """A store that was never opened."""
    return SQLiteStore(tmp_path / "turns.sqlite", now=Clock())


def request(*items: dict[str, Any]) -> Request:
    return parse_body(json.dumps({"model": "m", "input": items}).encode())


async def test_without_references_the_store_is_not_read(broken: SQLiteStore) -> None:
    parsed = request({"role": "user", "content": "Hi"}, {**REASONING, "encrypted_content": "seal"})
    assert await resolve_references(parsed, broken) is parsed


async def test_reasoning_without_encrypted_content_passes_when_the_store_fails(
    broken: SQLiteStore,
) -> None:
    parsed = request(REASONING, {"role": "user", "content": "Hi"})
    assert await resolve_references(parsed, broken) is parsed


@pytest.mark.parametrize("reference", [{"type": "item_reference", "id": "x"}, {"id": "x"}])
async def test_a_reference_that_cannot_be_resolved_because_the_store_fails_is_an_error(
    broken: SQLiteStore, reference: dict[str, Any]
) -> None:
    with pytest.raises(StoreError) as caught:
        await resolve_references(request(REASONING, reference), broken)
    assert "is not open" in caught.value.message


async def test_an_item_counts_as_often_as_it_is_referenced(
    open_memory: OpenMemory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(item_references, "MAX_BYTES", 10_000)
    store = await open_memory(now=Clock())
    message = {"type": "message", "id": "msg_1", "role": "assistant", "content": "x" * 1000}
    await store.save(turn("a", output=(message,)))
    few = await resolve_references(request(*[{"id": "msg_1"}] * 9), store)
    assert few.input == (*[message] * 9,)
    with pytest.raises(InvalidRequest) as caught:
        await resolve_references(request(*[{"id": "msg_1"}] * 10), store)
    assert (caught.value.status, caught.value.param) == (413, "input")


async def test_a_reference_to_an_unknown_item_is_rejected_with_its_position(
    open_memory: OpenMemory,
) -> None:
    store = await open_memory(now=Clock())
    with pytest.raises(InvalidRequest) as caught:
        await resolve_references(request({"role": "user", "content": "Hi"}, {"id": "x"}), store)
    assert (caught.value.status, caught.value.param) == (400, "input[1].id")
    assert "'x'" in caught.value.message


async def test_reasoning_that_is_not_stored_stays_as_it_is(open_memory: OpenMemory) -> None:
    resolved = await resolve_references(request(REASONING), await open_memory(now=Clock()))
    assert resolved.input == (REASONING,)


async def test_an_item_without_an_id_is_found_by_its_id_in_lists_and_by_its_owner_alone(
    open_memory: OpenMemory,
) -> None:
    store = await open_memory(now=Clock())
    items = ({"role": "user", "content": "Hi"}, {"type": "compaction_trigger"}, {"role": "user"})
    await store.save(turn("resp_1a", input=items, client="me"))
    wanted = request({"id": "msg_1a0002"}, {"id": "msg_1a0000"})
    resolved = await resolve_references(wanted, store, "me")
    assert [item["content"][0]["text"] for item in resolved.input] == ["", "Hi"]
    with pytest.raises(InvalidRequest):
        await resolve_references(wanted, store, "them")


@table("id", ["fc_1a0000", "msg_1a0001", "msg_1a00", "msg_0000", "x", "msg_1a000g"])
async def test_an_id_that_no_list_has_is_rejected(open_memory: OpenMemory, id: str) -> None:
    store = await open_memory(now=Clock())
    await store.save(turn("resp_1a", input=({"role": "user", "content": "Hi"},)))
    with pytest.raises(InvalidRequest):
        await resolve_references(request({"id": id}), store)


async def test_items_by_their_ids_in_lists_are_limited(
    open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(item_references, "MAX_BYTES", 1000)
    store = await open_memory(now=Clock())
    await store.save(turn("resp_1a", input=({"role": "user", "content": "x" * 1000},)))
    with pytest.raises(InvalidRequest) as caught:
        await resolve_references(request({"id": "msg_1a0000"}), store)
    assert (caught.value.status, caught.value.param) == (413, "input")


async def test_a_request_has_a_limited_number_of_responses_searched_for_items(
    open_memory: OpenMemory,
) -> None:
    class Counted(SQLiteStore):
        loads = 0

        async def load(self, response_id: str, *, client: str = "") -> Turn | None:
            self.loads += 1
            return await super().load(response_id, client=client)

    store = await open_memory.open(Counted(None, now=Clock()))
    with pytest.raises(InvalidRequest):
        await resolve_references(request(*({"id": f"msg_{n}0000"} for n in range(1000))), store)
    assert store.loads == 64
