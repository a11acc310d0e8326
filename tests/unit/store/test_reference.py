"""References in front of a store that cannot be asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import StoreError
from antiphon.store.reference import resolved
from antiphon.store.sqlite import SQLiteStore
from antiphon.wire.request import Request
from tests.turns import Clock

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
    assert await resolved(asked, broken) is asked


async def test_a_thread_goes_on_without_the_seals_that_cannot_be_looked_up(
    broken: SQLiteStore,
) -> None:
    asked = request(THOUGHT, {"role": "user", "content": "Hi"})
    assert await resolved(asked, broken) is asked


@pytest.mark.parametrize("reference", [{"type": "item_reference", "id": "x"}, {"id": "x"}])
async def test_what_only_the_store_knows_is_not_given_up_in_silence(
    broken: SQLiteStore, reference: dict[str, Any]
) -> None:
    with pytest.raises(StoreError) as caught:
        await resolved(request(THOUGHT, reference), broken)
    assert "is not open" in caught.value.message
