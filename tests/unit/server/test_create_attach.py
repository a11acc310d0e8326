"""A request that is sent again after a lost connection joins the response of the first."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from msgspec.structs import replace

from antiphon.config import AttachConfig, TraceConfig
from antiphon.server.http import HTTPResponse
from tests.support.applications import (
    GatedUpstream,
    OpenApplication,
    echo_config,
    open_application,
    read_stream,
    use_upstream,
)
from tests.support.gateways import events_of
from tests.support.traces import read_trace
from tests.support.waiting import until

KEYS = {"alice": "sk-alice", "bob": "sk-bob"}
CODEX = {"originator": "codex_cli_rs", "authorization": "Bearer sk-alice"}


async def lose(opened: OpenApplication, **request: Any) -> str:
    """Begin a stream and lose its connection; return the response id."""
    streaming = await opened.create(CODEX, stream=True, **request)
    [response_id] = opened.application.process.live.runs
    assert not isinstance(streaming.body, bytes)
    await streaming.body.close()
    return response_id


async def again(
    opened: OpenApplication, headers: dict[str, str] = CODEX, **request: Any
) -> HTTPResponse:
    return await opened.create(headers, stream=True, **request)


async def test_the_same_request_gets_the_same_response(tmp_path: Any) -> None:
    trace = TraceConfig(path=str(tmp_path / "trace.db"))
    config = replace(echo_config(commit_after_s=0.01, api_keys=KEYS), trace=trace)
    async with open_application(config) as opened:
        upstream = GatedUpstream()
        use_upstream(opened.engine, upstream)
        response_id = await lose(opened, presence_penalty=1.0)
        attached = await again(opened, presence_penalty=1.0)
        assert upstream.waiting == 1
        assert attached.headers["antiphon-attached"] == response_id
        assert "presence_penalty" in attached.headers["antiphon-diagnostics"]
        upstream.gate.set()
        events = events_of(await read_stream(attached))
        assert [event["sequence_number"] for event in events] == [*range(len(events))]
        assert events[-1]["response"]["id"] == response_id
        request_id = attached.headers["x-request-id"]
        other = await again(opened, presence_penalty=1.0)
        assert "antiphon-attached" not in other.headers
        await read_stream(other)
    found = read_trace(tmp_path / "trace.db", request_id)
    assert found.request is not None
    assert found.finish is not None
    assert (found.request.response_id, found.finish.status) == (response_id, "attached")


async def test_other_requests_and_other_clients_get_their_own() -> None:
    config = echo_config(commit_after_s=0.01, api_keys=KEYS)
    async with open_application(config) as opened:
        upstream = GatedUpstream()
        use_upstream(opened.engine, upstream)
        await lose(opened)
        bob = {**CODEX, "authorization": "Bearer sk-bob"}
        not_codex = {"authorization": "Bearer sk-alice"}
        others = [
            await again(opened, input="Something else"),
            await again(opened, headers=bob),
            await again(opened, headers=not_codex),
        ]
        assert upstream.waiting == 4
        assert not any("antiphon-attached" in other.headers for other in others)
        for other in others:
            assert not isinstance(other.body, bytes)
            await other.body.close()


async def test_without_a_second_request_the_run_is_cancelled() -> None:
    config = replace(
        echo_config(commit_after_s=0.01, api_keys=KEYS), attach=AttachConfig(window_s=0.01)
    )
    async with open_application(config) as opened:
        upstream = GatedUpstream()
        use_upstream(opened.engine, upstream)
        response_id = await lose(opened)
        await until(lambda: not opened.engine.active, "the run has ended")
        turn = await opened.engine.services.store.load(response_id, client="alice")
    assert turn is not None
    assert turn.status == "cancelled"


CLAUDE = {"user-agent": "claude-cli/2.1.326 (external, cli)", "authorization": "Bearer sk-alice"}
MESSAGES: dict[str, Any] = {
    "model": "echo/echo",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "Hello"}],
}


async def post_messages(opened: OpenApplication, **members: Any) -> HTTPResponse:
    body = json.dumps({**MESSAGES, **members}).encode()
    headers = {"content-type": "application/json", **CLAUDE}
    return await opened.request("POST", "/v1/messages", body, headers)


async def test_a_stream_that_was_cut_is_given_whole_to_the_request_without_a_stream() -> None:
    """Claude Code repeats a request whose stream was cut with `stream: false`."""
    async with open_application(echo_config(commit_after_s=0.01, api_keys=KEYS)) as opened:
        upstream = GatedUpstream()
        use_upstream(opened.engine, upstream)
        streaming = await post_messages(opened, stream=True)
        [response_id] = opened.application.process.live.runs
        assert not isinstance(streaming.body, bytes)
        await streaming.body.close()
        repeated = asyncio.create_task(post_messages(opened, stream=False))
        attach = opened.application.process.attach
        await until(lambda: not attach.has_waiting, "it was attached")
        assert upstream.waiting == 1, "the provider was called once"
        upstream.gate.set()
        whole = await repeated
        assert whole.headers["antiphon-attached"] == response_id
        assert isinstance(whole.body, bytes)
        message = json.loads(whole.body)
        assert (message["type"], message["stop_reason"]) == ("message", "end_turn")
        other = await post_messages(opened, stream=False)
        assert "antiphon-attached" not in other.headers


async def test_a_whole_request_of_a_client_that_leaves_while_it_waits_can_come_again() -> None:
    async with open_application(echo_config(commit_after_s=0.01, api_keys=KEYS)) as opened:
        upstream = GatedUpstream()
        use_upstream(opened.engine, upstream)
        streaming = await post_messages(opened, stream=True)
        assert not isinstance(streaming.body, bytes)
        await streaming.body.close()
        attach = opened.application.process.attach
        left = asyncio.create_task(post_messages(opened, stream=False))
        await until(lambda: not attach.has_waiting, "it was attached")
        left.cancel()
        await asyncio.wait((left,))
        await until(lambda: attach.has_waiting, "it waits again")
        assert upstream.waiting == 1
        upstream.gate.set()
        assert "antiphon-attached" in (await post_messages(opened, stream=False)).headers
