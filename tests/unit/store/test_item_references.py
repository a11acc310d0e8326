"""References that ask for too much, or a store that cannot be asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import InvalidRequest, StoreError
from antiphon.store import item_references as reference
from antiphon.store.item_references import resolve_references
from antiphon.store.memory import MemoryStore
from antiphon.store.sqlite import SQLiteStore
from antiphon.wire.request import Request
from tests.support.turns import Clock, turn

pytestmark = pytest.mark.anyio

THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": []}


@pytest.fixture
def broken(tmp_path: Path) -> SQLiteStore:
    """A store that was never opened."""
    return SQLiteStore(tmp_path / "turns.sqlite", now=Clock())


def request(*items: dict[str, Any]) -> Request:
    return Request.parse(json.dumps({"model": "m", "input": items}).encode())


async def test_without_references_no_store_is_asked(broken: SQLiteStore) -> None:
    asked = request({"role": "user", "content": "Hi"}, {**THOUGHT, "encrypted_content": "seal"})
    assert await resolve_references(asked, broken) is asked


async def test_a_thread_goes_on_without_the_seals_that_cannot_be_looked_up(
    broken: SQLiteStore,
) -> None:
    asked = request(THOUGHT, {"role": "user", "content": "Hi"})
    assert await resolve_references(asked, broken) is asked


@pytest.mark.parametrize("reference", [{"type": "item_reference", "id": "x"}, {"id": "x"}])
async def test_what_only_the_store_knows_is_not_given_up_in_silence(
    broken: SQLiteStore, reference: dict[str, Any]
) -> None:
    with pytest.raises(StoreError) as caught:
        await resolve_references(request(THOUGHT, reference), broken)
    assert "is not open" in caught.value.message


async def test_an_item_that_is_named_again_and_again_weighs_as_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reference, "MAX_BYTES", 10_000)
    store = MemoryStore(now=Clock())
    said = {"type": "message", "id": "msg_1", "role": "assistant", "content": "x" * 1000}
    await store.save(turn("a", output=(said,)))
    few = await resolve_references(request(*[{"id": "msg_1"}] * 9, {"id": "unknown"}), store)
    assert few.input == (*[said] * 9, {"id": "unknown"})
    with pytest.raises(InvalidRequest) as caught:
        await resolve_references(request(*[{"id": "msg_1"}] * 10), store)
    assert (caught.value.status, caught.value.param) == (413, "input")
