"""The contract of `Store`, checked for every backend."""

from __future__ import annotations

import asyncio
import json
import random
import tracemalloc
from typing import Any

import pytest
from msgspec.structs import replace

from antiphon.errors import (
    ChainCycle,
    ChainNotFound,
    ChainTooDeep,
    ChainUnfinished,
    HistoryTooLarge,
    InvalidRequest,
    StoreRefused,
)
from antiphon.store import item_references as reference
from antiphon.store.chain import build_history
from antiphon.store.store import Turn
from tests.support.store_backends import Backend
from tests.support.turns import Clock, build_chain, chain_ids, turn

pytestmark = pytest.mark.anyio

# --- saving and loading ---------------------------------------------------------------------------


async def test_a_saved_turn_is_loaded_unchanged(backend: Backend) -> None:
    store = await backend.open(ttl_s=None)
    saved = turn("r1", "r0", status="incomplete")
    await store.save(saved)
    assert await store.load("r1") == saved


async def test_an_unknown_id_is_not_found(backend: Backend) -> None:
    store = await backend.open()
    await store.save(turn("r1"))
    for unknown in ("r2", "", "R1", "'; DROP TABLE turn", "r1\x00", "\ud800", "?"):
        assert await store.load(unknown) is None
        assert await store.delete(unknown) is False
        with pytest.raises(ChainNotFound):
            await store.chain(unknown)
    assert await store.load("r1") is not None


async def test_unknown_fields_and_unusual_values_are_preserved(backend: Backend) -> None:
    store = await backend.open()
    odd: dict[str, Any] = {
        "type": "vendor:thing",
        "nested": {"list": [1, 1.0, -0.0, 1e22, 10**30, None, True, {"": []}]},
        "text": '\x00 \u2028 é 😀 \\ " </script> \U0010ffff',
        "ключ": "значение",
    }
    await store.save(turn("r1", input=(odd,), output=(odd, odd), response=odd))
    loaded = await store.load("r1")
    assert loaded is not None
    for back in (*loaded.input, *loaded.output, loaded.response):
        assert json.dumps(back) == json.dumps(odd)


async def test_a_stored_turn_cannot_be_modified_from_outside(backend: Backend) -> None:
    store = await backend.open()
    saved = turn("r1")
    await store.save(saved)
    saved.output[0]["content"] = "changed after saving"
    loaded = await store.load("r1")
    assert loaded is not None
    loaded.output[0]["content"] = "changed after loading"
    again = await store.load("r1")
    assert again is not None
    assert again.output[0]["content"] == "from r1"


async def test_saving_an_id_again_replaces_the_turn(backend: Backend) -> None:
    store = await backend.open()
    await store.save(turn("r1", status="queued", text="x" * 50_000))
    await store.save(turn("r1", status="completed"))
    loaded = await store.load("r1")
    assert loaded is not None
    assert loaded.status == "completed"


async def test_a_deleted_turn_breaks_the_chains_through_it(backend: Backend) -> None:
    store = await backend.open()
    for one in build_chain(3):
        await store.save(one)
    assert await store.delete("r1") is True
    assert await store.delete("r1") is False
    assert await store.load("r1") is None
    with pytest.raises(ChainNotFound) as caught:
        await store.chain("r2")
    assert caught.value.response_id == "r1"


async def test_concurrent_saves_and_loads_work(backend: Backend) -> None:
    store = await backend.open()

    async def round_trip(number: int) -> Turn | None:
        await store.save(turn(f"r{number}", text="x" * number * 100))
        return await store.load(f"r{number}")

    loaded = await asyncio.gather(*(round_trip(number) for number in range(300)))
    assert [one.id for one in loaded if one is not None] == [f"r{number}" for number in range(300)]


# --- chains ---------------------------------------------------------------------------------------


async def test_a_chain_is_oldest_first_and_forks_are_separate(backend: Backend) -> None:
    store = await backend.open()
    for one in (turn("a"), turn("b", "a"), turn("c", "b"), turn("fork", "a")):
        await store.save(one)
    assert await chain_ids(store, "c") == ["a", "b", "c"]
    assert await chain_ids(store, "fork") == ["a", "fork"]
    assert await chain_ids(store, "a") == ["a"]


@pytest.mark.parametrize("status", ["incomplete", "failed", "cancelled"])
async def test_an_unfinished_turn_can_be_a_parent(backend: Backend, status: str) -> None:
    store = await backend.open()
    await store.save(turn("a", status=status))
    await store.save(turn("b", "a"))
    texts = [item["content"] for item in build_history(await store.chain("b"))]
    assert texts == ["to a", "from a", "to b", "from b"]


@pytest.mark.parametrize("status", ["queued", "in_progress"])
async def test_a_turn_that_has_not_ended_cannot_be_continued(backend: Backend, status: str) -> None:
    store = await backend.open()
    await store.save(turn("a", status=status))
    await store.save(turn("b", "a"))
    for id in ("a", "b"):
        with pytest.raises(ChainUnfinished) as caught:
            await store.chain(id)
        assert (caught.value.status, caught.value.response_id) == (400, "a")


async def test_a_missing_parent_is_reported_as_by_the_api(backend: Backend) -> None:
    store = await backend.open()
    await store.save(turn("b", "a"))
    with pytest.raises(ChainNotFound) as caught:
        await store.chain("b")
    error = caught.value
    assert (error.status, error.kind) == (400, "invalid_request_error")
    assert (error.wire_code, error.param) == ("previous_response_not_found", "previous_response_id")
    assert error.message == "Previous response with id 'a' not found."


@pytest.mark.parametrize("length", [1, 2, 5])
async def test_a_cycle_is_an_error_and_does_not_hang(backend: Backend, length: int) -> None:
    store = await backend.open()
    for number in range(length):
        await store.save(turn(f"r{number}", f"r{(number + 1) % length}"))
    await store.save(turn("tail", "r0"))
    for start in ("r0", "tail"):
        with pytest.raises(ChainCycle) as caught:
            await store.chain(start)
        assert (caught.value.status, caught.value.response_id) == (400, "r0")


async def test_a_chain_longer_than_the_limit_is_refused(backend: Backend) -> None:
    store = await backend.open(max_chain=3)
    for one in build_chain(4):
        await store.save(one)
    assert await chain_ids(store, "r2") == ["r0", "r1", "r2"]
    with pytest.raises(ChainTooDeep) as caught:
        await store.chain("r3")
    assert caught.value.status == 400
    assert "3" in caught.value.message


async def test_a_history_of_too_many_bytes_is_refused_however_well_it_compresses(
    backend: Backend,
) -> None:
    store = await backend.open(max_history_bytes=250_000)
    for number in range(3):
        await store.save(
            turn(f"r{number}", f"r{number - 1}" if number else None, text="x" * 100_000)
        )
    assert await chain_ids(store, "r1") == ["r0", "r1"]
    with pytest.raises(HistoryTooLarge) as caught:
        await store.chain("r2")
    assert (caught.value.status, caught.value.code) == (400, "history_too_large")
    assert caught.value.param == "previous_response_id"
    for part in ("250,000 bytes", "max_history_bytes", "truncation", "/v1/responses/compact"):
        assert part in caught.value.message


async def test_a_history_that_is_refused_is_not_read(backend: Backend) -> None:
    size = 400_000
    store = await backend.open(max_history_bytes=4 * size)
    texts = random.Random(1)  # they do not compress
    for number in range(6):
        previous = f"r{number - 1}" if number else None
        await store.save(turn(f"r{number}", previous, text=texts.randbytes(size // 2).hex()))
    tracemalloc.start()
    try:
        with pytest.raises(HistoryTooLarge):
            await store.chain("r5")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < size


async def test_a_history_of_too_many_items_is_refused(backend: Backend) -> None:
    store = await backend.open(max_history_items=10)
    items = tuple({"type": "message", "role": "user", "content": str(n)} for n in range(4))
    for number in range(3):
        previous = f"r{number - 1}" if number else None
        await store.save(turn(f"r{number}", previous, input=items, output=()))
    assert await chain_ids(store, "r1") == ["r0", "r1"]
    with pytest.raises(HistoryTooLarge) as caught:
        await store.chain("r2")
    assert "10 items" in caught.value.message
    assert "max_history_items" in caught.value.message


async def test_a_history_of_too_many_turns_is_refused(backend: Backend) -> None:
    store = await backend.open(max_history_items=5)
    for one in build_chain(7):
        await store.save(replace(one, input=(), output=()))
    assert await chain_ids(store, "r4") == ["r0", "r1", "r2", "r3", "r4"]
    with pytest.raises(HistoryTooLarge):
        await store.chain("r5")
    assert [each.id for each in await store.chain("r6", truncate=True)] == [
        *("r2", "r3", "r4", "r5", "r6")
    ]


@pytest.mark.parametrize("limit", [{"max_history_bytes": 250_000}, {"max_history_items": 4}])
async def test_a_truncated_history_has_the_newest_turns_that_the_limits_allow(
    backend: Backend, limit: dict[str, int]
) -> None:
    store = await backend.open(**limit)
    for number in range(4):
        await store.save(
            turn(f"r{number}", f"r{number - 1}" if number else None, text="x" * 100_000)
        )
    assert [each.id for each in await store.chain("r3", truncate=True)] == ["r2", "r3"]
    assert [each.id for each in await store.chain("r1", truncate=True)] == ["r0", "r1"]


async def test_the_newest_turn_alone_may_be_too_large(backend: Backend) -> None:
    store = await backend.open(max_history_bytes=50_000)
    await store.save(turn("r0", text="x" * 100_000))
    with pytest.raises(HistoryTooLarge):
        await store.chain("r0", truncate=True)


async def test_a_chain_of_three_thousand_turns_is_read(backend: Backend) -> None:
    store = await backend.open()
    await asyncio.gather(*(store.save(one) for one in build_chain(3000)))
    assert await chain_ids(store, "r2999") == [f"r{number}" for number in range(3000)]


# --- items by their ids -----------------------------------------------------------------------


def item(id: str, text: str = "") -> dict[str, Any]:
    return {"type": "message", "id": id, "role": "assistant", "content": text or f"I am {id}"}


async def test_items_are_found_by_their_ids_in_input_and_output(backend: Backend) -> None:
    store = await backend.open()
    unnamed = {"type": "message", "role": "user", "content": "Hello?"}
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "x": {"kept": [1.0, None, "é"]}}
    await store.save(turn("a", input=(unnamed, item("in_1")), output=(thought, item("out_1"))))
    await store.save(turn("b", input=(item("in_2"),), output=()))
    wanted = {"in_1", "rs_1", "out_1", "in_2"}
    found = await store.load_items(wanted | {"a", "", "unknown", "\ud800", "?", "in_1\x00"})
    assert found == {"rs_1": thought} | {id: item(id) for id in wanted - {"rs_1"}}
    assert await store.load_items([]) == {}


async def test_output_items_are_preferred_to_input_items(backend: Backend) -> None:
    store = await backend.open()
    await store.save(turn("a", output=(item("x", "said"),)))
    await store.save(turn("b", "a", input=(item("x", "repeated"),), output=(item("y"),)))
    await store.save(turn("c", "b", input=(item("x", "repeated again"),), output=()))
    assert await store.load_items(["x"]) == {"x": item("x", "said")}
    await store.delete("a")
    assert await store.load_items(["x", "y"]) == {"x": item("x", "repeated again"), "y": item("y")}


async def test_items_are_found_only_by_the_owner_of_their_turn(backend: Backend) -> None:
    store = await backend.open()
    mine, theirs = item("msg_1", "mine"), item("msg_1", "theirs")
    await store.save(turn("a", client="me", input=(mine,), output=(item("said"),)))
    await store.save(turn("b", client="them", input=(theirs,)))
    wanted = ["msg_1", "said"]
    assert await store.load_items(wanted, client="me") == {"msg_1": mine, "said": item("said")}
    assert await store.load_items(wanted, client="them") == {"msg_1": theirs}
    assert await store.load_items(wanted) == {}


async def test_an_output_item_of_another_owner_does_not_hide_an_input_item(
    backend: Backend,
) -> None:
    store = await backend.open()
    await store.save(turn("a", client="me", input=(item("x", "mine"),)))
    await store.save(turn("b", client="them", output=(item("x", "theirs"),)))
    assert await store.load_items(["x"], client="me") == {"x": item("x", "mine")}


# --- responses by their calls ---------------------------------------------------------------------


def thought(state: str) -> dict[str, Any]:
    return {"type": "reasoning", "id": f"rs_{state}", "summary": [], "encrypted_content": state}


def call(call_id: str, name: str = "f") -> dict[str, Any]:
    fields = {"id": f"fc_{call_id}", "call_id": call_id, "name": name, "arguments": "{}"}
    return {"type": "function_call", **fields}


async def test_the_output_of_the_newest_turn_is_found_by_its_calls(backend: Backend) -> None:
    store = await backend.open()
    first = [thought("a"), call("one"), call("two")]
    second = [thought("b"), item("said"), call("two", "g"), call("ü \x00")]
    await store.save(turn("a", client="me", output=tuple(first)))
    await store.save(turn("b", "a", client="me", input=(call("one"),), output=tuple(second)))
    wanted = ["one", "two", "ü \x00", "unknown", "\ud800"]
    found = await store.load_outputs(wanted, client="me")
    assert found == {"one": first, "two": second, "ü \x00": second}
    assert await store.load_outputs(wanted, client="them") == {}
    assert await store.load_outputs([], client="me") == {}
    await store.delete("a", client="me")
    assert await store.load_outputs(["one"], client="me") == {}


async def test_a_call_is_found_in_output_with_state_only(backend: Backend) -> None:
    store = await backend.open()
    named = {**item("call:in"), "id": "call:in"}
    await store.save(turn("a", input=(thought("a"), call("in"), named), output=(call("out"),)))
    assert await store.load_outputs(["in", "out"]) == {}
    assert await store.load_items(["in", "out", "fc_out"]) == {"fc_out": call("out")}


# --- owners ---------------------------------------------------------------------------------------


async def test_a_turn_is_found_only_by_its_owner(backend: Backend) -> None:
    store = await backend.open()
    await store.save(turn("a", client="me"))
    for other in ("them", "", "ME", "me ", "m"):
        assert await store.load("a", client=other) is None
        assert await store.delete("a", client=other) is False
        with pytest.raises(ChainNotFound):
            await store.chain("a", client=other)
    assert await store.load("a") is None
    assert await store.load("a", client="me") is not None
    assert [one.id for one in await store.chain("a", client="me")] == ["a"]
    assert await store.delete("a", client="me") is True


async def test_a_chain_ends_where_a_turn_has_another_owner(backend: Backend) -> None:
    store = await backend.open()
    await store.save(turn("a", client="them"))
    await store.save(turn("b", "a", client="me"))
    with pytest.raises(ChainNotFound) as caught:
        await store.chain("b", client="me")
    assert caught.value.response_id == "a"


async def test_a_turn_without_an_owner_is_found_by_every_client(backend: Backend) -> None:
    store = await backend.open()
    await store.save(turn("a", output=(item("said"),)))
    await store.save(turn("b", "a", client="me"))
    for client in ("me", "them", ""):
        assert await store.load("a", client=client) is not None
        assert await store.load_items(["said"], client=client) == {"said": item("said")}
    assert [one.id for one in await store.chain("b", client="me")] == ["a", "b"]


async def test_an_owner_may_have_any_name(backend: Backend) -> None:
    store = await backend.open()
    names = ["me", "Me", "'; DROP TABLE turn", "ключ", "%", "_", "me\x00"]
    for name in names:
        await store.save(turn(f"of {name}", client=name))
    for name in names:
        found = [other for other in names if await store.load(f"of {other}", client=name)]
        assert found == [name]


async def test_items_that_exceed_the_limit_in_total_are_refused(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "MAX_BYTES", 1000)
    store = await backend.open()
    for id in ("a", "b", "c"):
        await store.save(turn(id, output=(item(f"out {id}", "x" * 300),)))
    assert set(await store.load_items(["out a", "out b"])) == {"out a", "out b"}
    with pytest.raises(InvalidRequest) as caught:
        await store.load_items(["out a", "out b", "out c"])
    assert caught.value.status == 413


async def test_outputs_that_exceed_the_limit_in_total_are_left_out(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "MAX_BYTES", 3000)
    store = await backend.open()
    for id in ("a", "b"):
        await store.save(turn(id, output=(thought("x" * 1200), call(id))))
    assert len(await store.load_outputs(["a", "b"])) == 1


async def test_within_one_turn_output_is_preferred_to_input(backend: Backend) -> None:
    store = await backend.open()
    await store.save(turn("a", input=(item("x", "in"),), output=(item("z"), item("x", "out"))))
    assert await store.load_items(["x"]) == {"x": item("x", "out")}


async def test_references_and_items_without_an_id_are_not_found(backend: Backend) -> None:
    store = await backend.open()
    odd = ({"type": "item_reference", "id": "x"}, {"id": "y"}, {"type": "z", "id": 7}, {"id": None})
    await store.save(turn("a", input=odd, output=odd))
    assert await store.load_items(["x", "y", "7", ""]) == {}
    untyped = {"id": "w", "role": "user", "content": "A message needs no type."}
    await store.save(turn("b", input=(*odd, untyped)))
    assert await store.load_items(["x", "w"]) == {"w": untyped}


async def test_items_are_removed_with_their_turn(backend: Backend, clock: Clock) -> None:
    store = await backend.open(ttl_s=100, max_turns=2)
    for id in ("evicted", "deleted", "expired"):
        await store.save(turn(id, input=(item(f"in {id}"),), output=(item(f"out {id}"),)))
    assert set(await store.load_items(["out evicted", "in deleted", "out expired"])) == {
        "in deleted",
        "out expired",
    }
    await store.delete("deleted")
    assert await store.load_items(["in deleted", "out deleted"]) == {}
    clock.now += 100
    assert await store.load_items(["in expired", "out expired"]) == {}


async def test_the_items_of_a_replaced_turn_are_replaced(backend: Backend) -> None:
    store = await backend.open()
    await store.save(turn("a", output=(item("x", "old"), item("gone"))))
    await store.save(turn("a", output=(item("more"), item("x", "new"))))
    found = await store.load_items(["x", "gone", "more"])
    assert found == {"x": item("x", "new"), "more": item("more")}


async def test_a_stored_item_cannot_be_modified_from_outside(backend: Backend) -> None:
    store = await backend.open()
    await store.save(turn("a", output=(item("x"),)))
    (await store.load_items(["x"]))["x"]["content"] = "changed after loading"
    assert await store.load_items(["x"]) == {"x": item("x")}


async def test_many_items_of_many_large_turns_are_loaded_together(backend: Backend) -> None:
    store = await backend.open()
    texts = {f"i{n}": f"{n} " * 5_000 for n in range(200)}
    for id, text in texts.items():
        await store.save(turn(f"r-{id}", output=(item(id, text),)))
    found = await store.load_items(texts)
    assert {id: one["content"] for id, one in found.items()} == texts


# --- limits ---------------------------------------------------------------------------------------


async def test_an_expired_turn_is_not_found(backend: Backend, clock: Clock) -> None:
    store = await backend.open(ttl_s=100)
    await store.save(turn("a"))
    clock.now += 99
    assert await store.load("a") is not None
    clock.now += 1
    assert await store.load("a") is None
    assert await store.delete("a") is False
    with pytest.raises(ChainNotFound):
        await store.chain("a")


async def test_without_a_time_to_live_a_turn_never_expires(backend: Backend, clock: Clock) -> None:
    store = await backend.open(ttl_s=None)
    await store.save(turn("a"))
    clock.now += 10**9
    loaded = await store.load("a")
    assert loaded is not None
    assert loaded.expires_at is None


async def test_a_turn_may_have_its_own_expiry(backend: Backend, clock: Clock) -> None:
    store = await backend.open(ttl_s=1000)
    await store.save(turn("a", expires_at=clock.now + 10))
    await store.save(turn("b"))
    loaded = await store.load("b")
    assert loaded is not None
    assert loaded.expires_at == clock.now + 1000
    clock.now += 10
    assert await store.load("a") is None


async def test_a_chain_in_use_does_not_expire(backend: Backend, clock: Clock) -> None:
    store = await backend.open(ttl_s=100)
    await store.save(turn("r0"))
    for number in range(1, 20):  # far beyond the life of the first turn
        clock.now += 40
        assert (await chain_ids(store, f"r{number - 1}"))[0] == "r0"
        await store.save(turn(f"r{number}", f"r{number - 1}"))
    assert len(await chain_ids(store, "r19")) == 20
    clock.now += 100
    assert await store.load("r0") is None


async def test_a_turn_that_is_too_large_is_refused_and_others_are_saved(backend: Backend) -> None:
    store = await backend.open(max_turn_bytes=1000)
    with pytest.raises(StoreRefused, match=r"'big' cannot be stored: .* exceed the limit of 1,000"):
        await store.save(turn("big", text="x" * 1000))
    await store.save(turn("small"))
    assert await store.load("big") is None
    assert await store.load("small") is not None


async def test_a_turn_that_cannot_be_encoded_is_refused(backend: Backend) -> None:
    store = await backend.open()
    named: dict[str, Any] = {"response": {"id": "r"}}
    for bad in (
        turn("r", text="\ud800"),
        turn("\ud800", **named),
        turn("r", input=({"x": object()},)),
    ):
        with pytest.raises(StoreRefused):
            await store.save(bad)
    assert await store.load("r") is None


async def test_beyond_the_maximum_count_the_oldest_turns_are_evicted(backend: Backend) -> None:
    store = await backend.open(max_turns=3)
    for number in range(6):
        await store.save(turn(f"r{number}"))
    stored = [await store.load(f"r{number}") is not None for number in range(6)]
    assert stored == [False, False, False, True, True, True]


async def test_beyond_the_maximum_bytes_the_oldest_turns_are_evicted(backend: Backend) -> None:
    store = await backend.open(max_bytes=10_000)
    for number in range(6):
        await store.save(turn(f"r{number}", text="x" * 3000))
    stored = [await store.load(f"r{number}") is not None for number in range(6)]
    assert stored == [False, False, False, True, True, True]
    with pytest.raises(StoreRefused):
        await store.save(turn("all", text="x" * 10_000))


async def test_a_replaced_turn_counts_once(backend: Backend) -> None:
    store = await backend.open(max_turns=2, max_bytes=10_000)
    await store.save(turn("a"))
    for _ in range(20):
        await store.save(turn("b", text="x" * 3000))
    assert await store.load("a") is not None
