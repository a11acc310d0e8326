"""State of calls, kept for clients that return nothing but call ids, and restored."""

from __future__ import annotations

import os

import msgspec
import pytest

from antiphon.core.deltas import ReasoningState
from antiphon.core.history.capsule import Sealer
from antiphon.core.items import FunctionCall, ReasoningItem
from antiphon.core.request import Request
from antiphon.core.response import Response
from antiphon.dialects.chat.client import CHAT
from antiphon.dialects.chat.client_call_ids import write_call_id
from antiphon.engine.history import restore_call_states
from antiphon.engine.output import keep_call_states
from antiphon.store.call_states import MAX_STATE_BYTES
from antiphon.store.turn import Turn, encode_response
from tests.support.stores import stores_in_memory

pytestmark = pytest.mark.anyio
SEALER = Sealer(["key"], new_nonce=os.urandom, now=lambda: 1000)
CALL = FunctionCall(id="fc_1", call_id="call_0", name="f", arguments="{}", status="completed")


def request(store: bool | None = None) -> Request:
    id = write_call_id("call_0", "fc_1")
    call = {"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": id, "content": "x"},
    ]
    return CHAT.parse({"model": "m", "messages": messages, "store": store})


def response(*, size: int = 100) -> Response:
    state = ReasoningState("s", os.urandom(size).hex())
    sealed = SEALER.seal("me", "gemini", "m", [state], "")
    thought = ReasoningItem(id="rs_1", status="completed", encrypted_content=sealed)
    return Response(id="resp_1", created_at=0, model="m", output=(thought, CALL))


async def test_kept_state_is_restored_for_its_client() -> None:
    made = response()
    async with stores_in_memory() as open_store:
        store = await open_store()
        assert await keep_call_states(request(), made, store, SEALER, "me") is None
        mine = await restore_call_states(request(), store, SEALER, "me")
        yours = await restore_call_states(request(), store, SEALER, "you")
    [thought, call, _] = mine.input
    assert thought["encrypted_content"] == made.output[0].encrypted_content  # type: ignore[union-attr]
    assert call["call_id"] == "call_0"
    assert yours == request()


async def test_state_that_another_key_has_sealed_is_left_out() -> None:
    other = Sealer(["another key"], new_nonce=os.urandom, now=lambda: 1000)
    async with stores_in_memory() as open_store:
        store = await open_store()
        await keep_call_states(request(), response(), store, SEALER, "me")
        assert await restore_call_states(request(), store, other, "me") == request()


async def test_a_client_that_returns_items_has_nothing_kept() -> None:
    items = Request(raw={}, model="m", input=request().input)
    async with stores_in_memory() as open_store:
        store = await open_store()
        assert await keep_call_states(items, response(), store, SEALER, "me") is None
        assert await store.call_states.load(["fc_1"], client="me") == {}
        assert await restore_call_states(items, store, SEALER, "me") is items


@pytest.mark.parametrize(
    ("store", "size", "reason"),
    [(False, 600, "too long for the id of a call"), (None, MAX_STATE_BYTES, "too large")],
)
async def test_state_that_cannot_be_kept_is_reported(
    store: bool | None, size: int, reason: str
) -> None:
    async with stores_in_memory() as open_store:
        opened = await open_store()
        lost = await keep_call_states(request(store), response(size=size), opened, SEALER, "me")
        fits = await keep_call_states(request(store), response(), opened, SEALER, "me")
    assert lost is not None
    assert lost.code == "call.state_lost"
    assert reason in lost.message
    assert fits is None


async def test_large_state_does_not_take_that_of_another_call_with_it() -> None:
    small = response().output[0]
    large = response(size=MAX_STATE_BYTES).output[0]
    second = FunctionCall(id="fc_2", call_id="call_1", name="f", status="completed")
    made = Response(id="resp_1", created_at=0, model="m", output=(small, CALL, large, second))
    async with stores_in_memory() as open_store:
        store = await open_store()
        lost = await keep_call_states(request(), made, store, SEALER, "me")
        kept = await store.call_states.load(["fc_1", "fc_2"], client="me")
    assert lost is not None
    assert "1 call " in lost.message
    assert [*kept] == ["fc_1"]


def continued(arguments: str = "{ }") -> Request:
    """A request with a call of a response in another format."""
    function = {"name": "f", "arguments": arguments}
    call = {"id": "call_0", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return CHAT.parse({"model": "m", "messages": [message]})


async def test_a_call_of_a_stored_response_has_the_state_of_that_response() -> None:
    made = response()
    document = msgspec.to_builtins(made)
    stored = Turn(
        id=made.id,
        created_at=0,
        status="completed",
        model="m",
        provider="gemini",
        client="me",
        output=tuple(document["output"]),
        encoded=encode_response(made),
    )
    async with stores_in_memory() as open_store:
        store = await open_store()
        await store.save(stored)
        mine = await restore_call_states(continued(), store, SEALER, "me")
        yours = await restore_call_states(continued(), store, SEALER, "you")
        other = await restore_call_states(continued('{"x": 1}'), store, SEALER, "me")
    assert mine.input[0]["encrypted_content"] == document["output"][0]["encrypted_content"]
    assert mine.input[1:] == continued().input
    assert yours == continued()
    assert other == continued('{"x": 1}')


async def test_a_store_that_is_closed_costs_the_state_and_not_the_request() -> None:
    async with stores_in_memory() as open_store:
        store = await open_store()
    lost = await keep_call_states(request(), response(), store, SEALER, "me")
    assert lost is not None
    assert "the store cannot be written" in lost.message
    assert await restore_call_states(request(), store, SEALER, "me") == request()
    assert await restore_call_states(continued(), store, SEALER, "me") == continued()
