"""Known defects of streams: terminal events, lost content and timeouts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from antiphon.config import LimitConfig, TimeoutConfig
from tests.support.checked_gateway import (
    Document,
    check_events,
    checked_gateway,
    deltas,
    done_items,
    event_types,
    final_response,
    items_of_type,
    text,
)
from tests.support.gateways import events_of
from tests.support.known_defects import row
from tests.support.upstream import (
    DONE,
    HELLO,
    HELLO_WORLD,
    Connection,
    ReceivedRequest,
    Script,
    chunk,
    frame,
    send_frames,
    usage,
)
from tests.support.waiting import LIMIT_S

NAMELESS = {"tool_calls": [{"index": 0, "id": "", "function": {"name": "", "arguments": "{}"}}]}
ERROR = {"error": {"message": "The key sk-secret is over its limit", "code": "rate_limit_exceeded"}}
NOTHING_USABLE = {
    "an empty body": (),
    "only the end marker": (DONE,),
    "only a comment": (b": hold on\n\n",),
    "only usage": (usage(), DONE),
    "only an error": (frame(ERROR),),
    "an error of the MiniMax kind": (
        frame({"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}),
    ),
}


@row(1)
async def test_a_nameless_call_ends_the_stream_with_a_terminal_event(tmp_path: Path) -> None:
    frames = (chunk({"content": "Hi"}), chunk(NAMELESS), chunk({}, "tool_calls"), usage(), DONE)
    async with checked_gateway(tmp_path, send_frames(frames)) as setup:
        events = await setup.stream()
        assert event_types(events)[-1] == "response.failed"
        assert [item["content"][0]["text"] for item in done_items(events)] == ["Hi"]


@row(2)
@pytest.mark.parametrize("frames", NOTHING_USABLE.values(), ids=NOTHING_USABLE.keys())
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
async def test_an_upstream_without_output_is_an_error_and_not_an_empty_200(
    tmp_path: Path, frames: tuple[bytes, ...], streamed: bool
) -> None:
    async with checked_gateway(tmp_path, send_frames(frames)) as setup:
        body = {"model": "m", "input": "Hello?", "stream": streamed}
        url = f"{setup.gateway.base_url}/responses"
        async with setup.gateway.client.post(url, json=body) as response:
            if response.status != 200:
                assert set((await response.json())["error"]) == {"message", "type", "param", "code"}
            elif streamed:
                assert (
                    event_types(check_events(events_of(await response.read())))[-1]
                    == "response.failed"
                )
            else:
                assert (await response.json())["status"] == "failed"


@row(3)
async def test_an_error_inside_a_stream_is_classified(tmp_path: Path) -> None:
    async with checked_gateway(tmp_path, send_frames((*HELLO, frame(ERROR)))) as setup:
        events = await setup.stream()
        assert final_response(events)["error"]["code"] == "rate_limit_exceeded"
        assert "rate limit" in final_response(events)["error"]["message"]
        assert "sk-secret" not in str(events)
        assert text(final_response(events)) == "Hello"


@row(3)
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
async def test_an_error_before_the_first_output_is_an_http_error(
    tmp_path: Path, streamed: bool
) -> None:
    async with checked_gateway(tmp_path, send_frames((frame(ERROR),))) as setup:
        status, _, document = await setup.post(stream=streamed)
        assert (status, document["error"]["code"]) == (429, "rate_limit_exceeded")


@row(4)
async def test_a_client_disconnect_closes_the_upstream(tmp_path: Path) -> None:
    gone = asyncio.Event()

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        for each in HELLO:
            await connection.send(each)
        await connection.wait_disconnected()
        gone.set()

    async with checked_gateway(tmp_path, script) as setup:
        body = {"model": "m", "input": "Hello?", "stream": True}
        url = f"{setup.gateway.base_url}/responses"
        response = await setup.gateway.client.post(url, json=body)
        assert b"response.created" in await response.content.readline()
        response.close()
        async with asyncio.timeout(LIMIT_S):
            await gone.wait()
            await setup.gateway.engine.active.wait_idle()
        assert not setup.gateway.engine.active


class FloodingProvider:
    """An upstream that sends more than any buffer holds, and blocks when nothing is read."""

    def __init__(self) -> None:
        self.stuck = asyncio.Event()
        self.last_body = 0

    async def run(self, request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        if request.body["messages"][-1]["content"] == "quick":
            self.finish = [*HELLO, chunk({}, "stop"), DONE]
        else:
            self.finish = [chunk({}, "stop"), DONE]
            await self._pour(connection)
        for each in self.finish:
            await connection.send(each)
        await connection.end()

    async def _pour(self, connection: Connection) -> None:
        piece = chunk({"content": "x" * 65536})
        for _ in range(2000):
            self.last_body += 1
            try:
                async with asyncio.timeout(0.3):
                    await connection.send(piece)
            except TimeoutError:
                self.stuck.set()
                return


@row(5)
async def test_a_slow_client_slows_only_its_own_upstream(tmp_path: Path) -> None:
    flood = FloodingProvider()
    limits = LimitConfig(text_chars=2**28)
    async with checked_gateway(tmp_path, flood.run, limits=limits) as setup:
        url = f"{setup.gateway.base_url}/responses"
        slow = {"model": "m", "input": "slow", "stream": True, "store": False}
        async with setup.gateway.client.post(url, json=slow) as response:
            first = await response.content.readany()
            async with asyncio.timeout(LIMIT_S):
                await flood.stuck.wait()
            assert text(await setup.whole(input="quick", stream=False)) == "Hello"
            events = events_of(first + await response.read())
        assert len(text(final_response(events))) == 65536 * flood.last_body
        assert event_types(events)[-1] == "response.completed"


def pause_until(client_received: asyncio.Event, *before: bytes) -> Script:
    """Send these frames, pause until the client has received something, then finish."""

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        for each in before:
            await connection.send(each)
        await client_received.wait()
        for each in HELLO_WORLD[2:]:
            await connection.send(each)
        await connection.end()

    return script


@row(6)
@pytest.mark.parametrize("before", [(), HELLO], ids=["before the first word", "between words"])
async def test_silence_is_filled_with_keep_alive_events(
    tmp_path: Path, before: tuple[bytes, ...]
) -> None:
    client_received = asyncio.Event()
    short = {"keepalive_s": 0.05, "commit_after_s": 0.05}
    async with checked_gateway(tmp_path, pause_until(client_received, *before), **short) as setup:
        url = f"{setup.gateway.base_url}/responses"
        body = {"model": "m", "input": "Hello?", "stream": True}
        received = b""
        async with asyncio.timeout(LIMIT_S), setup.gateway.client.post(url, json=body) as response:
            async for data in response.content.iter_any():
                received += data
                if b"event: keepalive" in received:
                    client_received.set()
        events = check_events(events_of(received))
        assert "keepalive" in event_types(events)
        assert event_types(events)[-1] == "response.completed"


@row(6)
async def test_an_upstream_that_stops_sending_times_out(tmp_path: Path) -> None:
    never = asyncio.Event()
    timeouts = TimeoutConfig(idle_s=0.3)
    async with checked_gateway(tmp_path, pause_until(never, *HELLO), timeouts=timeouts) as setup:
        events = await setup.stream()
        assert event_types(events)[-1] == "response.failed"
        assert "stopped sending output" in final_response(events)["error"]["message"]
        assert items_of_type(events, "message")[0]["status"] == "incomplete"


@row(6)
async def test_an_upstream_that_never_starts_times_out(tmp_path: Path) -> None:
    never = asyncio.Event()
    timeouts = TimeoutConfig(first_token_s=0.1)
    async with checked_gateway(tmp_path, pause_until(never), timeouts=timeouts) as setup:
        status, _, document = await setup.post(stream=True)
        assert (status, document["error"]["type"]) == (504, "server_error")


@row(9)
@pytest.mark.parametrize(
    ("finish", "reason"), [("length", "max_output_tokens"), ("content_filter", "content_filter")]
)
async def test_a_message_that_was_cut_off_is_incomplete_streamed_and_whole(
    tmp_path: Path, finish: str, reason: str
) -> None:
    frames = (*HELLO, chunk({}, finish), usage(), DONE)
    async with checked_gateway(tmp_path, send_frames(frames)) as setup:
        events = await setup.stream()
        for response in (final_response(events), await setup.whole()):
            assert response["incomplete_details"] == {"reason": reason}
            assert [item["status"] for item in response["output"]] == ["incomplete"]
        assert done_items(events) == final_response(events)["output"]


@row(9)
async def test_a_message_of_a_failed_response_is_not_completed(tmp_path: Path) -> None:
    async with checked_gateway(tmp_path, send_frames((*HELLO, frame(ERROR)))) as setup:
        events = await setup.stream()
        assert [item["status"] for item in final_response(events)["output"]] == ["incomplete"]


CALL = {"index": 0, "id": "c1", "function": {"name": "f", "arguments": "{}"}}


@row(10)
async def test_every_block_closes_before_the_next_one_opens(tmp_path: Path) -> None:
    frames = (
        chunk({"reasoning_content": "Hm."}),
        chunk({"content": "One."}),
        chunk({"tool_calls": [CALL]}),
        chunk({"content": "Two."}),
        chunk({}, "tool_calls"),
        DONE,
    )
    async with checked_gateway(tmp_path, send_frames(frames)) as setup:
        events = await setup.stream()
        order = [kind for kind in event_types(events) if "output_item" in kind]
        assert order == ["response.output_item.added", "response.output_item.done"] * 4
        output: list[Document] = final_response(events)["output"]
        assert [item["type"] for item in output] == [
            "reasoning",
            "message",
            "function_call",
            "message",
        ]
        assert deltas(events, "output_text") == ["One.", "Two."]


@row(25)
@pytest.mark.parametrize(
    ("finish", "status"),
    [
        ("repetition_truncation", "incomplete"),
        ("model_context_window_exceeded", "incomplete"),
        ("sensitive", "incomplete"),
        ("insufficient_system_resource", "failed"),
        ("eos", "completed"),
        ("function_call", "completed"),
    ],
)
async def test_a_documented_finish_reason_has_its_meaning(
    tmp_path: Path, finish: str, status: str
) -> None:
    async with checked_gateway(
        tmp_path, send_frames((*HELLO, chunk({}, finish), usage(), DONE))
    ) as setup:
        assert final_response(await setup.stream())["status"] == status


@row(25)
async def test_an_unknown_finish_reason_keeps_the_whole_answer(tmp_path: Path) -> None:
    """The response fails by the design document; output before the finish reason stays complete."""
    frames = (chunk({"tool_calls": [CALL]}), *HELLO, chunk({}, "moon_phase"), usage(), DONE)
    async with checked_gateway(tmp_path, send_frames(frames)) as setup:
        response = final_response(await setup.stream())
        assert response["status"] == "failed"
        assert "moon_phase" in response["error"]["message"]
        assert [item["status"] for item in response["output"]] == ["completed", "completed"]
        assert response["usage"]["total_tokens"] == 10


@row(26)
@pytest.mark.parametrize(
    "odd",
    [
        None,
        {},
        {"prompt_tokens": None, "completion_tokens": None, "total_tokens": None},
        {"prompt_tokens": "7", "completion_tokens": 3.0, "total_tokens": -1},
        {"prompt_tokens": 7, "prompt_tokens_details": None, "completion_tokens_details": []},
        {"prompt_tokens": 1e400},
    ],
    ids=["null", "empty", "null counts", "odd types", "odd details", "infinite"],
)
async def test_malformed_usage_does_not_fail_an_answer(
    tmp_path: Path, odd: Document | None
) -> None:
    frames = (*HELLO, chunk({}, "stop"), frame({"choices": [], "usage": odd}), DONE)
    async with checked_gateway(tmp_path, send_frames(frames)) as setup:
        for response in (final_response(await setup.stream()), await setup.whole()):
            assert response["status"] == "completed"
            assert response["usage"]["total_tokens"] >= 0
