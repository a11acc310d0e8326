"""Chains of turns: every store follows any set of parents in the same way."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.errors import ChainCycle, ChainNotFound, ChainTooDeep, InvalidRequest
from antiphon.store.chain import build_history, follow_chain
from antiphon.store.sqlite.store import SQLiteStore
from antiphon.store.store import Store, StoreLimits, Turn
from tests.support.turns import turn

names = st.sampled_from("abcdefgh")
parent_maps = st.dictionaries(names, st.none() | names, max_size=8)
limits = st.none() | st.integers(1, 9)

Ending = list[str] | tuple[type[InvalidRequest], str]


def expected(start: str, parents: Mapping[str, str | None], limit: int | None) -> Ending:
    """The same by plain recursion."""

    def step(id: str, behind: list[str]) -> Ending:
        if id in behind:
            return ChainCycle, id
        if limit is not None and len(behind) == limit:
            return ChainTooDeep, start
        if id not in parents:
            return ChainNotFound, id
        parent = parents[id]
        return [id, *reversed(behind)] if parent is None else step(parent, [*behind, id])

    return step(start, [])


def follow(start: str, turns: Mapping[str, Turn], limit: int | None) -> Ending:
    try:
        return list(follow_chain(start, turns.get, limit))
    except (ChainCycle, ChainNotFound, ChainTooDeep) as error:
        return type(error), error.response_id


@given(names, parent_maps, limits)
def test_following_a_chain_returns_it_or_the_right_error(
    start: str, parents: dict[str, str | None], limit: int | None
) -> None:
    turns = {id: turn(id, parent) for id, parent in parents.items()}
    assert follow(start, turns, limit) == expected(start, parents, limit)


async def chains(store: Store, parents: Mapping[str, str | None]) -> dict[str, Ending]:
    """Return the chain, or the error, of every name."""
    await store.open()
    endings: dict[str, Ending] = {}
    try:
        for id, parent in parents.items():
            await store.save(turn(id, parent))
        for start in "abcdefgh":
            try:
                endings[start] = [one.id for one in await store.chain(start)]
            except (ChainCycle, ChainNotFound, ChainTooDeep) as error:
                endings[start] = type(error), error.response_id
    finally:
        await store.close()
    return endings


@settings(max_examples=30)  # each makes a file
@given(parent_maps, limits)
def test_every_store_follows_chains_alike(
    parents: dict[str, str | None], limit: int | None
) -> None:
    endings = {start: expected(start, parents, limit) for start in "abcdefgh"}
    bounds = StoreLimits(max_chain=limit)
    memory = SQLiteStore(None, now=lambda: 0, limits=bounds)
    assert asyncio.run(chains(memory, parents)) == endings
    with tempfile.TemporaryDirectory() as directory:
        sqlite = SQLiteStore(Path(directory, "turns.sqlite"), now=lambda: 0, limits=bounds)
        assert asyncio.run(chains(sqlite, parents)) == endings


items = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "reasoning", "function_call", "custom_tool_call"])},
    optional={"status": st.sampled_from(["completed", "incomplete", "in_progress"])},
)
item_lists = st.lists(items, max_size=4).map(tuple)


@given(st.lists(st.tuples(item_lists, item_lists), max_size=5))
def test_history_grows_only_at_its_end(
    turns: list[tuple[tuple[dict[str, str], ...], tuple[dict[str, str], ...]]],
) -> None:
    chain = [turn(str(n), input=given, output=made) for n, (given, made) in enumerate(turns)]
    whole = build_history(chain)
    for length in range(len(chain)):
        part = build_history(chain[:length])
        assert whole[: len(part)] == part
