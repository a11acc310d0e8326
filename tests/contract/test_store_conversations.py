"""The contract of `ConversationStore`, checked for every backend."""

from __future__ import annotations

import asyncio
import random
import tracemalloc
from typing import Any

import pytest

from antiphon.errors import HistoryTooLarge, InvalidRequest, StoreRefused
from antiphon.store.conversation import Conversation, load_conversation
from antiphon.store.run_log import FIRST_TOKEN, RunStart
from antiphon.store.store import Store
from tests.support.store_backends import Backend
from tests.support.turns import Clock, turn

pytestmark = pytest.mark.anyio


def conversation(id: str = "conv_1", client: str = "", **metadata: str) -> Conversation:
    return Conversation(id=id, created_at=7, metadata=metadata, client=client)


def item(id: str, text: str = "") -> dict[str, Any]:
    part = {"type": "input_text", "text": text or f"I am {id}"}
    return {"type": "message", "id": id, "role": "user", "status": "completed", "content": [part]}


async def ids(store: Store, conversation_id: str = "conv_1", **options: Any) -> list[str]:
    page = await store.conversations.list_items(conversation_id, **options)
    assert page is not None
    return [item["id"] for item in page.items]


async def open_with_items(backend: Backend, count: int, **limits: Any) -> Store:
    store = await backend.open(**limits)
    await store.conversations.create(conversation(), [item(f"i{n}") for n in range(count)])
    return store


async def test_a_conversation_is_created_changed_and_deleted(backend: Backend) -> None:
    store = await backend.open()
    conversations = store.conversations
    await conversations.create(conversation(topic="tea"), [item("i1")])
    assert await conversations.load("conv_1") == conversation(topic="tea")
    changed = await conversations.update("conv_1", {"topic": "ключ"})
    assert changed == conversation(topic="ключ") == await conversations.load("conv_1")
    assert await conversations.delete("conv_1") is True
    assert await conversations.delete("conv_1") is False
    assert await conversations.load("conv_1") is None
    assert await conversations.update("conv_1", {}) is None
    assert await conversations.list_items("conv_1") is None
    await conversations.create(conversation(), [])
    assert await ids(store) == []


@pytest.mark.parametrize("client", ["", "them", "ME"])
async def test_a_conversation_is_found_only_by_its_owner(backend: Backend, client: str) -> None:
    store = await backend.open()
    conversations = store.conversations
    await conversations.create(conversation(client="me"), [item("i1")])
    assert await conversations.load("conv_1", client=client) is None
    assert await conversations.update("conv_1", {"a": "b"}, client=client) is None
    assert await conversations.append_items("conv_1", [item("i2")], client=client) is None
    assert await conversations.list_items("conv_1", client=client) is None
    assert await conversations.load_item("conv_1", "i1", client=client) is None
    assert await conversations.delete_item("conv_1", "i1", client=client) is None
    assert await conversations.lock("conv_1", "r1", "p1", client=client) is None
    assert await conversations.delete("conv_1", client=client) is False
    assert await conversations.load("conv_1", client="me") == conversation(client="me")
    assert await ids(store, client="me") == ["i1"]


async def test_items_are_listed_in_both_orders_page_by_page(backend: Backend) -> None:
    store = await open_with_items(backend, 5)
    for is_descending, expected in ((False, "i0 i1 i2 i3 i4"), (True, "i4 i3 i2 i1 i0")):
        listed: list[str] = []
        has_more = True
        while has_more:
            after = listed[-1] if listed else None
            page = await store.conversations.list_items(
                "conv_1", after=after, is_descending=is_descending, limit=2
            )
            assert page is not None
            listed += [item["id"] for item in page.items]
            has_more = page.has_more
        assert listed == expected.split()
    assert await ids(store, limit=5) == expected.split()[::-1]
    with pytest.raises(InvalidRequest) as caught:
        await store.conversations.list_items("conv_1", after="unknown")
    assert caught.value.param == "after"


LARGE = [f"i{n}" for n in range(5)]


async def open_with_large_items(backend: Backend, **limits: Any) -> Store:
    """Each item has 20,000 bytes and a few, but compresses well."""
    store = await backend.open(**limits)
    await store.conversations.create(conversation(), [item(id, "x" * 20_000) for id in LARGE])
    return store


@pytest.mark.parametrize(
    ("limit", "named"),
    [
        ({"max_history_bytes": 90_000}, "90,000 bytes (`max_history_bytes` in [store])"),
        ({"max_history_items": 4}, "4 items (`max_history_items` in [store])"),
    ],
)
async def test_a_conversation_beyond_the_limits_of_a_history_is_refused(
    backend: Backend, limit: dict[str, int], named: str
) -> None:
    store = await open_with_large_items(backend, **limit)
    with pytest.raises(HistoryTooLarge) as caught:
        await store.conversations.list_items("conv_1")
    assert (caught.value.status, caught.value.param) == (400, "conversation")
    assert named in caught.value.message
    newest = await load_conversation(store.conversations, "conv_1", truncate=True)
    assert newest is not None
    assert ([item["id"] for item in newest.items], newest.is_cut) == (LARGE[1:], True)
    assert await store.conversations.delete_item("conv_1", "i0") is not None
    whole = await load_conversation(store.conversations, "conv_1", truncate=False)
    assert whole is not None
    assert ([item["id"] for item in whole.items], whole.is_cut) == (LARGE[1:], False)
    assert await load_conversation(store.conversations, "conv_2", truncate=True) is None


async def test_a_conversation_that_is_refused_is_not_read(backend: Backend) -> None:
    size = 400_000
    store = await backend.open(max_history_bytes=4 * size)
    texts = random.Random(1)  # they do not compress
    items = [item(f"i{n}", texts.randbytes(size // 2).hex()) for n in range(6)]
    await store.conversations.create(conversation(), items)
    tracemalloc.start()
    try:
        with pytest.raises(HistoryTooLarge):
            await store.conversations.list_items("conv_1")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < size


async def test_a_page_of_large_items_ends_at_the_limit_of_a_history(backend: Backend) -> None:
    store = await open_with_large_items(backend, max_history_bytes=50_000)
    for is_descending, expected in ((False, ["i0", "i1"]), (True, ["i4", "i3"])):
        page = await store.conversations.list_items("conv_1", limit=3, is_descending=is_descending)
        assert page is not None
        assert ([item["id"] for item in page.items], page.has_more) == (expected, True)
    page = await store.conversations.list_items("conv_1", limit=100, after="i2")
    assert page is not None
    assert ([item["id"] for item in page.items], page.has_more) == (["i3", "i4"], False)


async def test_a_page_has_one_item_however_large_it_is(backend: Backend) -> None:
    store = await open_with_large_items(backend, max_history_bytes=10)
    page = await store.conversations.list_items("conv_1", limit=3)
    assert page is not None
    assert ([item["id"] for item in page.items], page.has_more) == (["i0"], True)


async def test_items_are_appended_loaded_and_deleted(backend: Backend) -> None:
    store = await open_with_items(backend, 2)
    conversations = store.conversations
    large = item("i2", "x" * 50_000)
    assert await conversations.append_items("conv_1", [large, item("i3")]) == conversation()
    assert await conversations.load_item("conv_1", "i2") == large
    assert await conversations.delete_item("conv_1", "i1") == conversation()
    assert await conversations.delete_item("conv_1", "i1") is None
    assert await conversations.load_item("conv_1", "i1") is None
    assert await conversations.load_item("conv_1", "\ud800") is None
    assert await ids(store) == ["i0", "i2", "i3"]
    assert await conversations.append_items("conv_2", [item("i9")]) is None


async def test_an_item_that_is_there_already_is_refused_with_all_others(backend: Backend) -> None:
    store = await open_with_items(backend, 1)
    for items in ([item("new"), item("i0")], [item("same"), item("same")]):
        with pytest.raises(InvalidRequest, match=r"has an item with the id '(i0|same)' already"):
            await store.conversations.append_items("conv_1", items)
    assert await ids(store) == ["i0"]


async def test_an_item_that_is_too_large_is_refused(backend: Backend) -> None:
    store = await open_with_items(backend, 1, max_turn_bytes=1000)
    with pytest.raises(StoreRefused, match=r"Item 'big' cannot be stored: .* limit of 1,000"):
        await store.conversations.append_items("conv_1", [item("big", "x" * 1000)])


async def test_a_conversation_expires_when_it_is_not_used(backend: Backend, clock: Clock) -> None:
    store = await open_with_items(backend, 1, ttl_s=100)
    for number in range(5):
        clock.now += 60
        await store.conversations.append_items("conv_1", [item(f"n{number}")])
    assert len(await ids(store)) == 6
    clock.now += 100
    assert await store.conversations.load("conv_1") is None
    assert await store.conversations.list_items("conv_1") is None


# --- responses ------------------------------------------------------------------------------------


async def finish(store: Store, id: str, conversation_id: str = "conv_1", **changes: Any) -> None:
    store.runs.begin_later(turn(id, status="in_progress"), RunStart(holder="p1"))
    end = turn(id, **changes)
    await store.runs.finish(end, FIRST_TOKEN, conversation_id=conversation_id)


async def test_a_response_appends_its_input_and_output_at_its_end(backend: Backend) -> None:
    store = await open_with_items(backend, 1)
    said = {"type": "message", "role": "assistant", "id": "msg_9", "content": "Hi"}
    await finish(store, "resp_a", output=(said,))
    page = await store.conversations.list_items("conv_1")
    assert page is not None
    assert page.items[1:] == [
        {
            "type": "message",
            "id": "msg_a0000",
            "role": "user",
            "status": "completed",
            "content": [{"type": "input_text", "text": "to resp_a"}],
        },
        {
            "type": "message",
            "id": "msg_9",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []}],
        },
    ]
    assert await store.load("resp_a") is not None


async def test_items_that_the_conversation_has_already_are_not_repeated(backend: Backend) -> None:
    store = await open_with_items(backend, 2)
    await finish(store, "r1", input=(item("i1"), item("new"), item("new")), output=())
    assert await ids(store) == ["i0", "i1", "new"]


@pytest.mark.parametrize("status", ["failed", "cancelled"])
async def test_a_response_without_an_answer_adds_nothing(backend: Backend, status: str) -> None:
    store = await open_with_items(backend, 1)
    await store.runs.renew("p1", 10)
    assert await store.conversations.lock("conv_1", "r1", "p1") is True
    await finish(store, "r1", status=status)
    assert await ids(store) == ["i0"]
    assert await store.conversations.lock("conv_1", "r2", "p1") is True


async def test_a_saved_turn_and_one_that_is_not_stored_are_added(backend: Backend) -> None:
    store = await open_with_items(backend, 0)
    await store.save(turn("resp_a"), conversation_id="conv_1")
    await store.conversations.add_turn("conv_1", turn("resp_b"))
    expected = ["msg_a0000", "msg_a0001", "msg_b0000", "msg_b0001"]
    assert await ids(store) == expected
    assert await store.load("resp_a") is not None
    assert await store.load("resp_b") is None


async def test_a_response_ends_although_its_conversation_is_gone(backend: Backend) -> None:
    store = await backend.open()
    await finish(store, "r1")
    assert await store.load("r1") is not None
    assert await store.conversations.list_items("conv_1") is None


async def test_a_refused_end_leaves_the_conversation_as_it_was(backend: Backend) -> None:
    store = await open_with_items(backend, 1, max_turn_bytes=1000)
    with pytest.raises(StoreRefused):
        await finish(store, "r1", text="x" * 1000)
    assert await ids(store) == ["i0"]


async def test_one_response_at_a_time_has_a_conversation(backend: Backend, clock: Clock) -> None:
    store = await open_with_items(backend, 0)
    conversations = store.conversations
    for holder in ("p1", "p2"):
        await store.runs.renew(holder, 10)
    locks = [conversations.lock("conv_1", f"r{n}", "p1") for n in range(5)]
    assert sorted(map(str, await asyncio.gather(*locks))) == ["False"] * 4 + ["True"]
    for n in range(5):
        await conversations.unlock("conv_1", f"r{n}")
    assert await conversations.lock("conv_1", "r1", "p1") is True
    assert await conversations.lock("conv_1", "r1", "p1") is True
    await conversations.unlock("conv_1", "r2")
    assert await conversations.lock("conv_1", "r2", "p2") is False
    await finish(store, "r1")
    assert await conversations.lock("conv_1", "r2", "p2") is True
    clock.now += 10  # the holder is gone
    assert await conversations.lock("conv_1", "r3", "p1") is True


@pytest.mark.parametrize("holder", ["p1", None])
async def test_a_response_that_is_deleted_has_no_lock(backend: Backend, holder: str | None) -> None:
    store = await open_with_items(backend, 0)
    await store.runs.renew("p1", 10)
    assert await store.conversations.lock("conv_1", "r1", "p1") is True
    status = "queued" if holder is None else "in_progress"
    await store.runs.begin(turn("r1", status=status), RunStart(holder=holder, is_background=True))
    assert await store.delete("r2") is False
    assert await store.conversations.lock("conv_1", "r2", "p1") is False
    assert await store.delete("r1") is True
    assert await store.conversations.lock("conv_1", "r2", "p1") is True


async def test_the_lock_of_a_queued_response_goes_to_whoever_claims_it(
    backend: Backend, clock: Clock
) -> None:
    store = await open_with_items(backend, 0)
    await store.runs.renew("p1", 10)
    assert await store.conversations.lock("conv_1", "r1", "p1") is True
    await store.runs.begin(turn("r1", status="queued"), RunStart(holder=None, is_background=True))
    clock.now += 50  # nobody needs a lease while it is queued
    assert await store.conversations.lock("conv_1", "r2", "p1") is False
    await store.runs.renew("p2", 100)
    (claimed,) = await store.runs.claim("p2", 1)
    clock.now += 50
    assert await store.conversations.lock("conv_1", "r2", "p1") is False
    await store.runs.finish(turn("r1"), claimed.token, conversation_id="conv_1")
    assert await store.conversations.lock("conv_1", "r2", "p1") is True
    assert len(await ids(store)) == 2


async def test_the_lock_of_a_response_goes_to_whoever_runs_it(
    backend: Backend, clock: Clock
) -> None:
    store = await open_with_items(backend, 0)
    await store.runs.renew("accepts", 10)
    await store.runs.renew("runs", 100)
    assert await store.conversations.lock("conv_1", "r1", "accepts") is True
    token = await store.runs.begin(turn("r1", status="in_progress"), RunStart(holder="runs"))
    clock.now += 50
    assert await store.conversations.lock("conv_1", "r2", "accepts") is False
    await store.delete("r1")
    clock.now += 50
    assert await store.conversations.lock("conv_1", "r2", "accepts") is True
    assert token == FIRST_TOKEN


async def test_items_of_conversations_are_loaded_by_their_ids_for_references(
    backend: Backend, clock: Clock
) -> None:
    store = await backend.open(ttl_s=10)
    await store.conversations.create(conversation(client="me"), [item("i1"), item("both", "mine")])
    await store.conversations.append_items("conv_1", [item("i2")], client="me")
    await store.conversations.create(conversation("conv_2"), [item("i3")])
    said = [{"type": "message", "id": "both", "role": "assistant", "content": []}]
    await store.save(turn("r1", output=said, client="me"))
    wanted = {"i1", "i2", "i3", "both", "no", "\ud800"}
    found = await store.load_items(wanted, client="me")
    assert found == {"i1": item("i1"), "i2": item("i2"), "i3": item("i3"), "both": said[0]}
    assert await store.load_items(wanted, client="them") == {"i3": item("i3")}
    await store.conversations.delete_item("conv_1", "i1", client="me")
    assert (await store.load_items({"i1", "i2"}, client="me")).keys() == {"i2"}
    clock.now += 11
    assert await store.load_items(wanted, client="me") == {}
