"""References to stored items: limits, and stores that fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import InvalidRequest, StoreError
from antiphon.store import item_references
from antiphon.store.item_references import resolve_references
from antiphon.store.memory import MemoryStore
from antiphon.store.sqlite.store import SQLiteStore
from antiphon.wire.request import Request
from tests.support.turns import Clock, turn

pytestmark = pytest.mark.anyio

REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}


@pytest.fixture
def broken(tmp_path: Path) -> SQLiteStore:
    """A store that was never opened."""
    return SQLiteStore(tmp_path / "turns.sqlite", now=Clock())


def request(*items: dict[str, Any]) -> Request:
    return Request.parse(json.dumps({"model": "m", "input": items}).encode())


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
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(item_references, "MAX_BYTES", 10_000)
    store = MemoryStore(now=Clock())
    message = {"type": "message", "id": "msg_1", "role": "assistant", "content": "x" * 1000}
    await store.save(turn("a", output=(message,)))
    few = await resolve_references(request(*[{"id": "msg_1"}] * 9), store)
    assert few.input == (*[message] * 9,)
    with pytest.raises(InvalidRequest) as caught:
        await resolve_references(request(*[{"id": "msg_1"}] * 10), store)
    assert (caught.value.status, caught.value.param) == (413, "input")


async def test_a_reference_to_an_unknown_item_is_rejected_with_its_position() -> None:
    store = MemoryStore(now=Clock())
    with pytest.raises(InvalidRequest) as caught:
        await resolve_references(request({"role": "user", "content": "Hi"}, {"id": "x"}), store)
    assert (caught.value.status, caught.value.param) == (400, "input[1].id")
    assert "'x'" in caught.value.message


async def test_reasoning_that_is_not_stored_stays_as_it_is() -> None:
    resolved = await resolve_references(request(REASONING), MemoryStore(now=Clock()))
    assert resolved.input == (REASONING,)
