"""The responder: turns, errors in envelopes, what the connection remembers and what it evicts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, NoReturn
from unittest.mock import ANY

import pytest
from msgspec import structs

from antiphon.config import ClientLimitConfig, LimitConfig
from antiphon.core.faults.fault import FaultType, connection_fault
from antiphon.dialects.chat.dialect import ChatDialect
from antiphon.errors import StoreError, UpstreamError
from antiphon.stages.builtin import PersistStage
from antiphon.store.store import Store, Turn
from tests.support.applications import (
    GatedUpstream,
    document_of,
    echo_config,
    open_application,
    use_upstream,
)
from tests.support.waiting import until
from tests.support.web_sockets import connected, create_frame, output_text, response_id

BUSY = structs.replace(
    connection_fault("busy"), type=FaultType.rate_limit, http_status=429, retry_after_s=2.0
)


async def test_a_turn_is_the_events_of_the_stream() -> None:
    async with open_application() as opened, connected(opened) as socket:
        frames = await socket.turn(create_frame("one two"))
    assert frames[0]["type"] == "response.created"
    assert [frame["sequence_number"] for frame in frames] == [*range(len(frames))]
    assert output_text(frames) == "one two"


async def test_a_response_that_is_not_stored_can_be_continued() -> None:
    async with open_application() as opened, connected(opened) as socket:
        first = await socket.turn(create_frame("one"))
        second = await socket.turn(create_frame("two", previous_response_id=response_id(first)))
        third = await socket.turn(create_frame("three", previous_response_id=response_id(second)))
    assert third[-1]["response"]["previous_response_id"] == response_id(second)
    assert output_text(third) == "three"


async def test_its_items_can_be_referred_to() -> None:
    async with open_application() as opened, connected(opened) as socket:
        first = await socket.turn(create_frame("one"))
        item = first[-1]["response"]["output"][0]["id"]
        question = {"role": "user", "content": "two"}
        references = [{"type": "item_reference", "id": item}, question]
        second = await socket.turn({**create_frame(), "input": references})
    assert second[-1]["type"] == "response.completed"


async def test_a_warm_up_has_no_output_and_can_be_continued() -> None:
    async with open_application() as opened, connected(opened) as socket:
        warm = await socket.turn(create_frame("base", generate=False, stream_id="a"))
        turn = await socket.turn(create_frame("go", previous_response_id=response_id(warm)))
    assert [frame["type"] for frame in warm] == [
        "response.created",
        "response.in_progress",
        "response.completed",
    ]
    assert {frame["stream_id"] for frame in warm} == {"a"}
    assert warm[-1]["response"]["output"] == []
    assert output_text(turn) == "go"


async def test_an_unknown_response_is_an_error_and_the_connection_goes_on() -> None:
    async with open_application() as opened, connected(opened) as socket:
        (error,) = await socket.turn(create_frame(previous_response_id="resp_0", stream_id="a"))
        again = await socket.turn(create_frame())
    assert (error["status"], error["error"]["code"]) == (400, "previous_response_not_found")
    assert error["stream_id"] == "a"
    assert error["headers"]["x-request-id"].startswith("req_")
    assert again[-1]["type"] == "response.completed"


async def test_another_connection_does_not_know_what_was_not_stored() -> None:
    async with open_application() as opened:
        async with connected(opened) as first:
            unstored = response_id(await first.turn(create_frame()))
            stored = response_id(await first.turn(create_frame(store=True)))
        async with connected(opened) as second:
            (error,) = await second.turn(create_frame(previous_response_id=unstored))
            found = await second.turn(create_frame(previous_response_id=stored))
    assert error["error"]["code"] == "previous_response_not_found"
    assert found[-1]["type"] == "response.completed"


async def test_a_failed_continuation_evicts_its_parent() -> None:
    async with open_application() as opened, connected(opened) as socket:
        parent = response_id(await socket.turn(create_frame()))
        (failed,) = await socket.turn(create_frame(previous_response_id=parent, temperature=9))
        (missing,) = await socket.turn(create_frame(previous_response_id=parent))
    assert failed["error"]["param"] == "temperature"
    assert missing["error"]["code"] == "previous_response_not_found"


async def test_a_failed_fork_on_another_lane_does_not() -> None:
    async with open_application() as opened, connected(opened) as socket:
        parent = response_id(await socket.turn(create_frame()))
        fork = create_frame(previous_response_id=parent, temperature=9, stream_id="fork")
        (failed,) = await socket.turn(fork)
        found = await socket.turn(create_frame(previous_response_id=parent))
    assert failed["stream_id"] == "fork"
    assert found[-1]["type"] == "response.completed"


async def test_a_response_that_fails_after_its_beginning_evicts_its_parent() -> None:
    config = echo_config(commit_after_s=0.01)
    async with open_application(config) as opened, connected(opened) as socket:
        parent = response_id(await socket.turn(create_frame()))
        upstream = GatedUpstream(error=UpstreamError(connection_fault("lost")))
        use_upstream(opened.engine, upstream)
        socket.put(create_frame(previous_response_id=parent))
        begin = len(socket.sent)
        await until(lambda: len(socket.sent) > begin, "the beginning of the response")
        upstream.gate.set()
        await until(lambda: socket.ends(begin), "its end")
        (missing,) = await socket.turn(create_frame(previous_response_id=parent))
    assert socket.sent[-2]["type"] == "response.failed"
    assert missing["error"]["code"] == "previous_response_not_found"


async def test_a_fault_before_the_first_event_is_an_envelope_with_its_headers() -> None:
    async with open_application() as opened:
        upstream = GatedUpstream(error=UpstreamError(BUSY))
        upstream.gate.set()
        use_upstream(opened.engine, upstream)
        async with connected(opened) as socket:
            (error,) = await socket.turn(create_frame())
    assert (error["status"], error["error"]["code"]) == (429, "rate_limit_exceeded")
    assert error["headers"]["retry-after"] == error["error"]["headers"]["retry-after"] == "2"


@pytest.mark.parametrize("client", ["codex_cli_rs", "another"])
@pytest.mark.parametrize(
    "limits",
    [ClientLimitConfig(requests_per_minute=1), ClientLimitConfig(cost_per_day=0.0)],
    ids=["for a minute", "for the rest of the day"],
)
async def test_an_exhausted_limit_is_the_error_that_http_would_have(
    limits: ClientLimitConfig, client: str
) -> None:
    config = structs.replace(echo_config(), limits=LimitConfig(clients={"*": limits}))
    async with open_application(config) as opened:
        async with connected(opened, originator=client) as socket:
            await socket.turn(create_frame())
            (error,) = await socket.turn(create_frame())
        response = await opened.create({"originator": client})
    assert error["status"] == response.status
    own = ("content-type", "date", "x-request-id")
    expected = {name: text for name, text in response.headers.items() if name not in own}
    assert expected.keys() & {"retry-after", "x-should-retry"}
    assert {name: text for name, text in error["headers"].items() if name not in own} == {
        **expected,
        **{name: ANY for name in expected if "reset" in name or "retry-after" in name},
    }
    assert error["error"]["headers"] == error["headers"]


async def test_a_limit_that_lasts_is_final_for_a_client_that_would_retry() -> None:
    limits = LimitConfig(clients={"*": ClientLimitConfig(cost_per_month=0.0)})
    config = structs.replace(echo_config(), limits=limits)
    async with (
        open_application(config) as opened,
        connected(opened, originator="codex_cli_rs") as socket,
    ):
        (error,) = await socket.turn(create_frame())
    assert (error["status"], error["error"]["code"]) == (400, "insufficient_quota")


async def test_a_bug_is_a_server_error_and_is_logged_once() -> None:
    async with open_application() as opened:
        upstream = GatedUpstream()
        async with connected(opened) as socket:
            opened.engine.preparer = None  # type: ignore[assignment]
            (error,) = await socket.turn(create_frame("secret prompt"))
        upstream.gate.set()
    assert (error["status"], error["error"]["code"]) == (500, "server_error")
    assert [entry.event for entry in opened.log] == ["gateway.bug"]
    assert "secret prompt" not in str(opened.log)


async def test_diagnostics_are_in_the_first_event() -> None:
    async with open_application() as opened, connected(opened) as socket:
        frames = await socket.turn(create_frame(unknown_field=1))
    assert "unknown_field" in frames[0]["headers"]["antiphon-diagnostics"]
    assert not any("headers" in frame for frame in frames[1:])


async def test_a_large_request_is_read_in_the_worker_thread() -> None:
    items = [{"role": "user", "content": "x"} for _ in range(3000)]
    async with open_application() as opened, connected(opened) as socket:
        frames = await socket.turn({**create_frame(), "input": items})
    assert frames[-1]["type"] == "response.completed"


@pytest.mark.parametrize("field", ["generate", "background"])
async def test_a_bad_field_of_the_connection_is_named(field: str) -> None:
    async with open_application() as opened, connected(opened) as socket:
        (error,) = await socket.turn(create_frame(**{field: "yes"}))
    assert error["error"]["param"] == field


async def test_no_new_response_begins_during_a_shutdown() -> None:
    async with open_application() as opened, connected(opened) as socket:
        upstream = GatedUpstream()
        use_upstream(opened.engine, upstream)
        socket.put(create_frame(stream_id="a"))
        await until(lambda: upstream.waiting, "the call of the provider")
        opened.application.process.stop_accepting()
        (error,) = await socket.turn(create_frame(stream_id="b"))
        assert (error["status"], error["stream_id"]) == (503, "b")
        assert socket.closed is None
        upstream.gate.set()
        await until(lambda: socket.closed, "the end of the connection")
    assert socket.sent[-1]["type"] == "response.completed"
    assert socket.closed == (1001, "The gateway is shutting down.")


async def test_a_client_that_is_gone_is_not_an_error() -> None:
    async with open_application() as opened, connected(opened) as socket:
        await socket.turn(create_frame())
        socket.is_lost = True
        socket.put(create_frame("lost"))
        await until(lambda: len(opened.log) == 2, "the end of the second response")
    assert {entry.event for entry in opened.log} == {"response.finished", "response.cancelled"}


async def test_a_stored_response_keeps_the_history_that_was_not_stored() -> None:
    async with open_application() as opened:
        async with connected(opened) as first:
            unstored = response_id(await first.turn(create_frame("one")))
            continued = create_frame("two", previous_response_id=unstored, store=True)
            ended = await first.turn(continued)
            stored = response_id(ended)
        assert ended[-1]["response"]["previous_response_id"] == unstored
        chain = await opened.engine.services.store.chain(stored, client="local")
        async with connected(opened) as second:
            found = await second.turn(create_frame("three", previous_response_id=stored))
    (turn,) = chain
    texts = [part["text"] for item in turn.input for part in item["content"]]
    assert texts == ["one", "one", "two"], "input and output of the first turn, then the input"
    assert found[-1]["type"] == "response.completed"


@pytest.mark.parametrize("is_stored", [False, True])
async def test_a_response_of_a_conversation_is_continued_with_its_history(is_stored: bool) -> None:
    async with open_application() as opened, connected(opened) as socket:
        items = json.dumps({"items": [{"role": "user", "content": "zero"}]}).encode()
        made = document_of(await opened.request("POST", "/v1/conversations", items))
        first = await socket.turn(create_frame("one", conversation=made["id"], store=is_stored))
        continued = create_frame("two", previous_response_id=response_id(first), store=False)
        second = await socket.turn(continued)
        last = create_frame("three", previous_response_id=response_id(second), store=True)
        third = response_id(await socket.turn(last))
        listed = await opened.request("GET", f"/v1/responses/{third}/input_items?order=asc")
    texts = [item["content"][0]["text"] for item in document_of(listed)["data"]]
    assert texts == ["zero", "one", "one", "two", "two", "three"]


class _FullStore:
    """A store that cannot save turns."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def save(self, turn: Turn, **options: Any) -> None:
        raise StoreError("The disk is full.")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def test_history_is_not_repeated_after_a_response_that_could_not_be_stored() -> None:
    async with open_application() as opened:
        services = opened.engine.services
        full: Any = _FullStore(services.store)
        opened.engine.services = replace(services, store=full)
        async with connected(opened) as socket:
            first = response_id(await socket.turn(create_frame("one")))
            ended = await socket.turn(create_frame("two", previous_response_id=first, store=True))
            assert ended[-1]["response"]["store"] is False
            opened.engine.services = services
            second = response_id(ended)
            last = create_frame("three", previous_response_id=second, store=True)
            third = response_id(await socket.turn(last))
        listed = await opened.request("GET", f"/v1/responses/{third}/input_items?order=asc")
    texts = [item["content"][0]["text"] for item in document_of(listed)["data"]]
    assert texts == ["one", "one", "two", "two", "three"]


async def test_a_stored_response_that_is_deleted_cannot_be_continued() -> None:
    async with open_application() as opened, connected(opened) as socket:
        stored = response_id(await socket.turn(create_frame(store=True)))
        await opened.engine.services.store.delete(stored, client="local")
        (error,) = await socket.turn(create_frame(previous_response_id=stored))
    assert error["error"]["code"] == "previous_response_not_found"


async def test_a_conversation_is_continued_by_one_response_at_a_time() -> None:
    async with open_application() as opened, connected(opened) as socket:
        made = await opened.request("POST", "/v1/conversations", b"{}")
        conversation = document_of(made)["id"]
        upstream = GatedUpstream()
        use_upstream(opened.engine, upstream)
        first = create_frame("one", conversation=conversation, store=True, stream_id="a")
        socket.put(first)
        await until(lambda: upstream.waiting, "the call of the provider")
        (refused,) = await socket.turn({**first, "stream_id": "b"})
        (warm,) = await socket.turn({**first, "stream_id": "b", "generate": False})
        upstream.gate.set()
        await until(lambda: socket.ends() == 3, "the end of the first response")
        await until(lambda: not len(opened.engine.active), "the end of its run")
        items = await opened.request("GET", f"/v1/conversations/{conversation}/items")
    assert refused["status"] in (400, 409)
    assert refused["stream_id"] == "b"
    assert warm["error"]["param"] == "generate"
    assert socket.sent[-1]["type"] == "response.completed"
    assert len(document_of(items)["data"]) == 2


class BrokenDialect(ChatDialect):
    """The dialect of a package that has a bug."""

    def for_client(self, client_format: str) -> NoReturn:
        raise RuntimeError("a bug")


async def test_a_bug_before_a_response_begins_leaves_its_conversation_free() -> None:
    async with open_application() as opened, connected(opened) as socket:
        made = await opened.request("POST", "/v1/conversations", b"{}")
        frame = create_frame("one", conversation=document_of(made)["id"], store=True)
        provider = opened.engine.router.providers["echo"]
        working = provider.dialect
        structs.force_setattr(provider, "dialect", BrokenDialect())
        (failed,) = await socket.turn(frame)
        structs.force_setattr(provider, "dialect", working)
        frames = await socket.turn(frame)
    assert failed["status"] == 500
    assert output_text(frames) == "one"


class UnreachableStage(PersistStage):
    """A stage of a package, whose own server is away."""

    def __init__(self) -> None:
        raise ConnectionRefusedError("the server of the stage")


async def test_a_stage_without_its_server_is_an_error_and_not_a_client_that_is_gone() -> None:
    async with open_application() as opened:
        setup = opened.application.process.setup
        setup.engine.services = replace(setup.engine.services, stages=[UnreachableStage])
        async with connected(opened) as socket:
            (failed,) = await socket.turn(create_frame())
        answers = [await opened.create(), await opened.create(stream=True)]
    assert failed["status"] == 500
    assert [answer.status for answer in answers] == [500, 500]
    assert [entry.event for entry in opened.log] == ["gateway.bug"] * 3
