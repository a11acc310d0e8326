"""Known defects in the formats beside Responses: each row that a client can notice there.

The other rows are about what no format changes, or about what only clients of Responses have.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from antiphon.config import ModelConfig, TimeoutConfig
from tests.e2e.test_known_defects_plan import CALLING, EVERYTHING, SCHEMA, text_script
from tests.e2e.test_known_defects_session import EndlessProvider, process
from tests.e2e.test_known_defects_stream import CALL, ERROR, NAMELESS, NOTHING_USABLE, pause_until
from tests.e2e.test_known_defects_tools import CUT, PARIS, call_script, opened, piece, searching
from tests.e2e.test_messages import messages_client
from tests.support.checked_gateway import CheckedGateway, Document, checked_gateway, configured
from tests.support.format_judges import FORMATS, Seen
from tests.support.known_defects import row
from tests.support.openai_client import openai_client
from tests.support.upstream import (
    DONE,
    HELLO,
    HELLO_WORLD,
    Connection,
    ReceivedRequest,
    chunk,
    frame,
    send_frames,
    send_json,
    upstream,
    usage,
)
from tests.support.waiting import LIMIT_S

WITHOUT_A_FORMAT = {5, 33, 36, 38, 39}
"""Rows about buffers, stores, configuration and trace: the same code for every format."""
OF_RESPONSES = {11, 27, 30, 31, 32, 37}
"""Rows about item types, chains, namespaces and background: only clients of Responses have them."""

FUNCTION: Document = {"type": "object", "properties": {"city": {"type": "string"}}}
both_formats = pytest.mark.parametrize("format", ["chat", "messages"])
streamed_and_whole = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


def tools_of(format: str, *names: str) -> Document:
    """The member that declares functions."""
    if format == "messages":
        return {"tools": [{"name": name, "input_schema": FUNCTION} for name in names]}
    functions = [{"name": name, "parameters": FUNCTION} for name in names]
    return {"tools": [{"type": "function", "function": each} for each in functions]}


def strict_format(format: str) -> Document:
    """The member that requires JSON of a schema."""
    if format == "messages":
        return {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}
    named = {"name": "number", "schema": SCHEMA, "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


async def post(
    setup: CheckedGateway, format: str, **body: Any
) -> tuple[int, Mapping[str, str], bytes]:
    spoken = FORMATS[format]
    asked = {"model": "m", **spoken.body, **body}
    url = setup.gateway.base_url + spoken.path
    async with setup.gateway.client.post(url, json=asked) as answer:
        return answer.status, answer.headers, await answer.read()


async def see(setup: CheckedGateway, format: str, *, stream: bool = True, **body: Any) -> Seen:
    """What the client sees; an error before the first byte is one as well."""
    status, headers, data = await post(setup, format, stream=stream, **body)
    if status != 200:
        assert json.loads(data)["error"]["message"]
        return Seen(0, "error")
    if headers["content-type"].startswith("text/event-stream"):
        return FORMATS[format].see(status, data)
    return FORMATS[format].see_whole(json.loads(data))


# --- streams --------------------------------------------------------------------------------------


@row(1)
@both_formats
async def test_a_nameless_call_ends_the_stream_with_an_error(tmp_path: Path, format: str) -> None:
    frames = (chunk({"content": "Hi"}), chunk(NAMELESS), chunk({}, "tool_calls"), usage(), DONE)
    async with checked_gateway(tmp_path, send_frames(frames)) as setup:
        assert await see(setup, format) == Seen(200, "error", "Hi")


@row(2)
@streamed_and_whole
@both_formats
async def test_an_upstream_without_output_is_an_error(
    tmp_path: Path, format: str, stream: bool
) -> None:
    for frames in NOTHING_USABLE.values():
        async with checked_gateway(tmp_path, send_frames(frames)) as setup:
            assert (await see(setup, format, stream=stream)).end == "error"


CODES = {"chat": '"code":"rate_limit_exceeded"', "messages": '"type":"rate_limit_error"'}


@row(3)
@both_formats
async def test_an_error_inside_a_stream_is_classified(tmp_path: Path, format: str) -> None:
    async with checked_gateway(tmp_path, send_frames((*HELLO, frame(ERROR)))) as setup:
        _, _, data = await post(setup, format, stream=True)
    assert FORMATS[format].see(200, data) == Seen(200, "error", "Hello")
    assert CODES[format] in data.decode()
    assert b"sk-secret" not in data


@row(4)
@both_formats
async def test_a_client_disconnect_closes_the_upstream(tmp_path: Path, format: str) -> None:
    endless = EndlessProvider()
    async with checked_gateway(tmp_path, endless.run, keepalive_s=60) as setup:
        spoken = FORMATS[format]
        body = {"model": "m", "stream": True, **spoken.body}
        answer = await setup.gateway.client.post(setup.gateway.base_url + spoken.path, json=body)
        assert await answer.content.readline()
        answer.close()
        async with asyncio.timeout(LIMIT_S):
            await setup.gateway.engine.active.wait_idle()
        assert not setup.gateway.engine.active


SIGNS = {"chat": b"\n: ", "messages": b"event: ping"}


@row(6)
@both_formats
async def test_silence_is_filled(tmp_path: Path, format: str) -> None:
    """A Messages stream has one `ping` at its start: the second one fills the silence."""
    client_received = asyncio.Event()
    script = pause_until(client_received, *HELLO)
    async with checked_gateway(tmp_path, script, keepalive_s=0.05, commit_after_s=0.05) as setup:
        spoken, received = FORMATS[format], b""
        body = {"model": "m", "stream": True, **spoken.body}
        url = setup.gateway.base_url + spoken.path
        async with asyncio.timeout(LIMIT_S), setup.gateway.client.post(url, json=body) as answer:
            async for data in answer.content.iter_any():
                received += data
                if received.count(SIGNS[format]) >= 2:
                    client_received.set()
    assert spoken.see(200, received) == Seen(200, "stop", "Hello, world")


@row(6)
@both_formats
async def test_an_upstream_that_never_starts_times_out(tmp_path: Path, format: str) -> None:
    timeouts = TimeoutConfig(first_token_s=0.1)
    script = pause_until(asyncio.Event())
    async with checked_gateway(tmp_path, script, timeouts=timeouts) as setup:
        status, _, _ = await post(setup, format, stream=True)
        assert status == 504


@row(9)
@both_formats
@pytest.mark.parametrize(("finish", "end"), [("length", "length"), ("content_filter", "filter")])
async def test_a_message_that_was_cut_off_says_so(
    tmp_path: Path, format: str, finish: str, end: str
) -> None:
    frames = (*HELLO, chunk({}, finish), usage(), DONE)
    async with checked_gateway(tmp_path, send_frames(frames)) as setup:
        for stream in (True, False):
            assert await see(setup, format, stream=stream) == Seen(200, end, "Hello")


@row(10)
@both_formats
async def test_blocks_come_one_after_another(tmp_path: Path, format: str) -> None:
    frames = (
        chunk({"reasoning_content": "Hm."}),
        chunk({"content": "One."}),
        chunk({"tool_calls": [CALL]}),
        chunk({"content": "Two."}),
        chunk({}, "tool_calls"),
        DONE,
    )
    async with checked_gateway(tmp_path, send_frames(frames)) as setup:
        seen = await see(setup, format, **tools_of(format, "f"))
        assert seen == Seen(200, "calls", "One.Two.", "Hm.", (("f", "{}"),))


@row(25)
@both_formats
@pytest.mark.parametrize(
    ("finish", "end"),
    [
        ("repetition_truncation", "length"),
        ("model_context_window_exceeded", "length"),
        ("sensitive", "filter"),
        ("insufficient_system_resource", "error"),
        ("eos", "stop"),
        ("moon_phase", "error"),
    ],
)
async def test_a_finish_reason_has_its_meaning(
    tmp_path: Path, format: str, finish: str, end: str
) -> None:
    frames = (*HELLO, chunk({}, finish), usage(), DONE)
    async with checked_gateway(tmp_path, send_frames(frames)) as setup:
        assert await see(setup, format) == Seen(200, end, "Hello")


@row(26)
@both_formats
@pytest.mark.parametrize("odd", [None, {}, {"prompt_tokens": None}, {"prompt_tokens": 1e400}])
async def test_malformed_usage_does_not_fail_a_response(
    tmp_path: Path, format: str, odd: Document | None
) -> None:
    frames = (*HELLO, chunk({}, "stop"), frame({"choices": [], "usage": odd}), DONE)
    async with checked_gateway(tmp_path, send_frames(frames)) as setup:
        for stream in (True, False):
            assert await see(setup, format, stream=stream) == Seen(200, "stop", "Hello")


# --- calls ----------------------------------------------------------------------------------------

PIECES: dict[str, tuple[Document, ...]] = {
    "no index": (piece(PARIS, id="a", name="get_weather"),),
    "a name in two": (
        piece(index=0, id="a", name="get_"),
        piece(index=0, name="weather"),
        piece(PARIS, index=0),
    ),
    "blank": (
        piece('{"city":', index=0, id="a", name="get_weather"),
        piece('"Paris"}', index=0, id="", name=""),
    ),
    "repeated": (
        piece('{"city":', index=0, id="a", name="get_weather"),
        piece('"Paris"}', index=0, id="a", name="get_weather"),
    ),
}


@row(7)
@both_formats
@pytest.mark.parametrize("name", PIECES)
async def test_pieces_of_a_call_are_one_call(tmp_path: Path, format: str, name: str) -> None:
    async with checked_gateway(tmp_path, send_frames(call_script(*PIECES[name]))) as setup:
        seen = await see(setup, format, **tools_of(format, "get_weather"))
        assert seen.calls == (("get_weather", PARIS),)


@row(8)
@both_formats
async def test_a_call_that_was_cut_off_is_not_run(tmp_path: Path, format: str) -> None:
    failed = (*call_script(CUT)[:1], frame({"error": {"message": "down", "code": 500}}))
    for frames, end in ((call_script(CUT, finish="length"), "length"), (failed, "error")):
        async with checked_gateway(tmp_path, send_frames(frames)) as setup:
            seen = await see(setup, format, **tools_of(format, "get_weather"))
            assert (seen.end, seen.calls) == (end, ())


@row(12)
async def test_the_input_of_a_custom_tool_streams_while_it_is_written(tmp_path: Path) -> None:
    """Messages has no such tools."""
    client_received = asyncio.Event()

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        begun = opened(0, "apply_patch", '{"input":"*** Begin')
        await connection.send(chunk({"tool_calls": [begun]}))
        await client_received.wait()
        for each in call_script(piece(' Patch"}', index=0)):
            await connection.send(each)
        await connection.end()

    async with checked_gateway(tmp_path, script) as setup:
        tools = [{"type": "custom", "custom": {"name": "apply_patch"}}]
        body = {"model": "m", "stream": True, **FORMATS["chat"].body, "tools": tools}
        url, received = f"{setup.gateway.base_url}/chat/completions", b""
        async with asyncio.timeout(LIMIT_S), setup.gateway.client.post(url, json=body) as answer:
            async for data in answer.content.iter_any():
                received += data
                if b"*** Begin" in received:
                    client_received.set()
    assert FORMATS["chat"].see(200, received).calls == (
        ("apply_patch", '{"input":"*** Begin Patch"}'),
    )


@row(17, 18)
@both_formats
async def test_calls_keep_their_arguments_and_each_has_one_result(
    tmp_path: Path, format: str
) -> None:
    frames = call_script(opened(0, "get_weather", PARIS), opened(1, "get_time", "{}"))
    async with checked_gateway(tmp_path, send_frames(frames)) as setup:
        tools = tools_of(format, "get_weather", "get_time")
        _, _, data = await post(setup, format, **tools)
        document = json.loads(data)
        if format == "chat":
            message = document["choices"][0]["message"]
            ids = [call["id"] for call in message["tool_calls"]]
            results = [{"role": "tool", "tool_call_id": each, "content": "fine"} for each in ids]
            said: list[Document] = [message, *results]
        else:
            uses = [block for block in document["content"] if block["type"] == "tool_use"]
            made = [{"type": "tool_result", "tool_use_id": use["id"]} for use in uses]
            results = [{**each, "content": "fine"} for each in made]
            said = [{"role": "assistant", "content": uses}, {"role": "user", "content": results}]
        await post(setup, format, messages=[*FORMATS[format].body["messages"], *said], **tools)
        sent = setup.last_body["messages"]
    calls = [call for message in sent for call in message.get("tool_calls", ())]
    assert [call["function"]["arguments"] for call in calls] == [PARIS, "{}"]
    assert [m["tool_call_id"] for m in sent if m["role"] == "tool"] == [c["id"] for c in calls]


SEARCHES: Mapping[str, Document] = {
    "chat": {"web_search_options": {}},
    "messages": {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
}


@row(16, 19)
@both_formats
async def test_an_ignored_web_search_does_not_disturb_the_response(
    tmp_path: Path, format: str
) -> None:
    frames = (*HELLO, chunk({}, "stop"), usage(70, 30), DONE)
    async with configured(tmp_path, send_frames(frames), web_search="ignore") as setup:
        _, headers, data = await post(setup, format, **{"tools": [], **SEARCHES[format]})
        assert "tool.ignored:web_search" in headers["antiphon-diagnostics"]
        assert "tools" not in setup.last_body
    document = json.loads(data)
    assert FORMATS[format].see_whole(document) == Seen(200, "stop", "Hello")
    counts = document["usage"].values()
    assert {70, 30} <= {count for count in counts if isinstance(count, int)}


@row(20)
@both_formats
async def test_a_client_function_named_web_search_is_left_to_the_client(
    tmp_path: Path, format: str
) -> None:
    script = send_frames(searching("web_search"))
    async with configured(tmp_path, script, web_search="ignore") as setup:
        seen = await see(setup, format, **tools_of(format, "web_search"))
        assert seen.calls == (("web_search", '{"query":"x"}'),)


# --- output formats -------------------------------------------------------------------------------


@row(13)
@both_formats
async def test_a_strict_format_does_not_spoil_calls_or_cut_output(
    tmp_path: Path, format: str
) -> None:
    strict = strict_format(format)
    for stream in (True, False):
        async with checked_gateway(tmp_path, send_frames(CALLING)) as setup:
            seen = await see(setup, format, stream=stream, **strict, **tools_of(format, "f"))
            assert seen == Seen(200, "calls", calls=(("f", "{}"),))
        async with checked_gateway(tmp_path, text_script('{"n"', "length")) as setup:
            seen = await see(setup, format, stream=stream, **strict, tools=[])
            assert seen == Seen(200, "length", '{"n"')


@row(14, 15)
@both_formats
@pytest.mark.parametrize("output", ["not JSON", '{"n": "one"}'])
async def test_output_that_breaks_its_format_is_no_client_error(
    tmp_path: Path, format: str, output: str
) -> None:
    async with checked_gateway(tmp_path, text_script(output)) as setup:
        status, _, _ = await post(setup, format, **strict_format(format), tools=[])
        assert status == 502
        seen = await see(setup, format, **strict_format(format), tools=[])
        assert seen.end == "error"


# --- requests -------------------------------------------------------------------------------------


@row(21)
@both_formats
async def test_with_api_keys_requests_need_one(tmp_path: Path, format: str) -> None:
    keys = {"alice": "sk-alice"}
    async with checked_gateway(tmp_path, send_frames(HELLO_WORLD), api_keys=keys) as setup:
        spoken = FORMATS[format]
        url, body = setup.gateway.base_url + spoken.path, {"model": "m", **spoken.body}
        name = "x-api-key" if format == "messages" else "authorization"
        for headers, status in (
            ({}, 401),
            ({"authorization": "Bearer sk-bob"}, 401),
            ({name: "sk-alice" if format == "messages" else "Bearer sk-alice"}, 200),
        ):
            async with setup.gateway.client.post(url, json=body, headers=headers) as answer:
                assert answer.status == status
        assert len(setup.upstream.requests) == 1
        plain = {"content-type": "text/plain", "authorization": "Bearer sk-alice"}
        data = json.dumps(body).encode()
        async with setup.gateway.client.post(url, data=data, headers=plain) as answer:
            assert answer.status == 415


@row(22, 23)
@both_formats
async def test_statuses_of_the_provider_keep_their_meaning(tmp_path: Path, format: str) -> None:
    """All of them are in `test_upstream_tables.py`."""
    for given, expected in ((429, 429), (401, 502), (404, 404), (504, 504)):
        failing = send_json(given, {"error": {"message": "secret words"}}, retry_after="7")
        async with checked_gateway(tmp_path, failing) as setup:
            status, headers, data = await post(setup, format)
        assert status == expected
        assert b"secret words" not in data
        assert given != 429 or headers["retry-after"] == "7"


MALFORMED: Mapping[str, Mapping[str, Document]] = {
    "chat": {
        "messages": {"messages": 5},
        "messages[0]": {"messages": [None]},
        "tools": {"tools": {}},
        "tools[0]": {"tools": [7]},
        "tool_choice": {"tool_choice": 3},
        "response_format": {"response_format": 1},
        "temperature": {"temperature": "hot"},
        "stream": {"stream": "false"},
    },
    "messages": {
        "messages": {"messages": 5},
        "messages.0": {"messages": [None]},
        "tools": {"tools": {}},
        "tools.0": {"tools": [7]},
        "tool_choice": {"tool_choice": 3},
        "output_config.format": {"output_config": {"format": 1}},
        "temperature": {"temperature": "hot"},
        "thinking": {"thinking": 7},
    },
}


@row(24)
@both_formats
async def test_a_malformed_member_is_a_400_that_names_it(tmp_path: Path, format: str) -> None:
    async with checked_gateway(tmp_path, send_frames(HELLO_WORLD)) as setup:
        for name, body in MALFORMED[format].items():
            status, _, data = await post(setup, format, **body)
            assert (status, name in json.loads(data)["error"]["message"]) == (400, True), name
        assert setup.upstream.requests == []


@row(28, 29)
@both_formats
async def test_a_history_is_accepted_and_its_reasoning_stays_with_its_turn(
    tmp_path: Path, format: str
) -> None:
    histories: dict[str, list[Document]] = {
        "chat": [
            {"role": "user", "content": "One?"},
            {"role": "assistant", "content": "One.", "reasoning_content": "Secretly so."},
            {"role": "user", "content": "Two?"},
            {"role": "assistant", "content": None, "refusal": "No."},
            {"role": "user", "content": "Three?"},
        ],
        "messages": [
            {"role": "user", "content": "One?"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Secretly so.", "signature": ""},
                    {"type": "text", "text": "One."},
                    {"type": "unknown_block", "data": 1},
                ],
            },
            {"role": "user", "content": "Two?"},
            {"role": "assistant", "content": [{"type": "text", "text": "No."}]},
            {"role": "user", "content": "Three?"},
        ],
    }
    models = {"*": ModelConfig(replay_reasoning="always")}
    async with configured(tmp_path, send_frames(HELLO_WORLD), models=models) as setup:
        status, _, _ = await post(setup, format, messages=histories[format])
        sent = setup.last_body["messages"]
    assert status == 200
    assert [m["content"] for m in sent] == ["One?", "One.", "Two?", "No.", "Three?"]
    assert [n for n, m in enumerate(sent) if m.get("reasoning_content")] in ([1], [])


@row(34)
@both_formats
async def test_what_is_ignored_is_a_diagnostic(tmp_path: Path, format: str) -> None:
    async with configured(tmp_path, send_frames(HELLO_WORLD), kind="mistral") as setup:
        _, headers, _ = await post(setup, format, model="up/mistral-large", top_k=5, moon=1)
    assert "param.ignored:top_k" in headers["antiphon-diagnostics"]
    assert "param.unknown:moon" in headers["antiphon-diagnostics"]


EFFORTS: Mapping[str, list[Document]] = {
    "chat": [{"reasoning_effort": each} for each in ("minimal", "low", "medium", "high")],
    "messages": [
        *({"output_config": {"effort": each}} for each in ("low", "medium", "high", "max")),
        {"thinking": {"type": "enabled", "budget_tokens": 1024}},
        {"thinking": {"type": "adaptive"}},
    ],
}
NONE: Mapping[str, Document] = {
    "chat": {"reasoning_effort": "none"},
    "messages": {"thinking": {"type": "disabled"}},
}


@row(35)
@both_formats
async def test_a_low_effort_does_not_disable_thinking(tmp_path: Path, format: str) -> None:
    async with configured(tmp_path, send_frames(HELLO_WORLD), kind="deepseek") as setup:
        for body in EFFORTS[format]:
            await post(setup, format, model="up/deepseek-v4-pro", **body)
            assert setup.last_body["thinking"] == {"type": "enabled"}
        await post(setup, format, model="up/deepseek-v4-pro", **NONE[format])
        assert setup.last_body["thinking"] == {"type": "disabled"}


# --- citations, shapes, shutdown ------------------------------------------------------------------


@row(40)
@both_formats
@streamed_and_whole
async def test_results_of_a_native_search_are_cited(
    tmp_path: Path, format: str, stream: bool
) -> None:
    cited = {"url": "https://example.com/a", "title": "A", "start_index": 0, "end_index": 5}
    found = chunk({"annotations": [{"type": "url_citation", "url_citation": cited}]})
    frames = (*HELLO, found, chunk({}, "stop"), DONE)
    async with checked_gateway(tmp_path, send_frames(frames)) as setup:
        _, _, data = await post(setup, format, stream=stream)
    assert data.count(b"https://example.com/a") == 1


@row(41)
async def test_the_official_clients_accept_everything(tmp_path: Path) -> None:
    async with (
        checked_gateway(tmp_path, send_frames(EVERYTHING)) as setup,
        openai_client(setup.gateway) as chat,
        messages_client(setup.gateway) as messages,
    ):
        asked: Any = [{"role": "user", "content": "Hello?"}]
        async with chat.chat.completions.stream(model="m", messages=asked) as stream:
            completion = await stream.get_final_completion()
        async with messages.messages.stream(model="m", messages=asked, max_tokens=9) as events:
            message = await events.get_final_message()
    calls = completion.choices[0].message.tool_calls or ()
    assert [call.function.name for call in calls] == ["f"]
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]


@row(42)
@both_formats
async def test_sigterm_ends_every_stream_with_an_error(tmp_path: Path, format: str) -> None:
    endless, spoken = EndlessProvider(), FORMATS[format]
    async with (
        upstream(endless.run) as server,
        process(tmp_path, server) as (served, base_url),
        aiohttp.ClientSession() as client,
    ):
        body = {"model": "m", "stream": True, **spoken.body}
        async with (
            asyncio.timeout(LIMIT_S),
            client.post(base_url + spoken.path, json=body) as response,
        ):
            await endless.begun.wait()
            served.send_signal(signal.SIGTERM)
            data = await response.read()
        assert spoken.see(200, data) == Seen(200, "error", "Hello")
        assert b"restarting" in data
        assert await served.wait() == 0
