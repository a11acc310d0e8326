"""WebSockets on a real port: real clients, Codex's own frames, slow readers, losses and secrets."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import websockets
from openai import AsyncOpenAI, OpenAI
from openai.lib.responses_websocket import (
    AsyncResponsesWebSocketSession,
    ResponsesWebSocketError,
    ResponsesWebSocketLimits,
)
from openai.types.responses import responses_server_event
from openai.types.responses.responses_client_event import ResponseCreate

from tests.support import captured_requests as captured
from tests.support.checked_gateway import checked_gateway
from tests.support.gateways import Running, running, settings
from tests.support.upstream import (
    DONE,
    HELLO_WORLD,
    Connection,
    ReceivedRequest,
    chunk,
    send_frames,
    upstream,
    usage,
)
from tests.support.waiting import LIMIT_S, is_blocked, let_others_read, until
from tests.support.web_sockets import ask, create_frame, output_text, response_id

LIMITS = ResponsesWebSocketLimits(
    max_lanes=3,
    max_events_per_lane=100,
    max_events=300,
    max_bytes_per_lane=1_000_000,
    max_bytes=1_000_000,
)


def create_event(text: str, **fields: Any) -> ResponseCreate:
    return ResponseCreate.model_validate(create_frame(text, **fields))


def read_files(directory: Path, pattern: str) -> bytes:
    return b"".join(path.read_bytes() for path in directory.glob(pattern))


def address(gateway: Running) -> str:
    return f"{gateway.base_url}/responses"


async def test_every_event_is_one_that_the_official_client_knows(tmp_path: Path) -> None:
    async with running(settings(tmp_path)) as gateway:
        client = AsyncOpenAI(base_url=gateway.base_url, api_key="none")
        async with client, client.responses.connect() as connection:
            await connection.response.create(model="echo/echo", input="one two", stream_id="lane")
            events = []
            async for event in connection:
                events.append(event)
                if event.type == "response.completed":
                    break
    names = {type(event).__name__ for event in events}
    assert all("Ws" in name for name in names), names
    for event in events:
        kind = getattr(responses_server_event, type(event).__name__)
        kind.model_validate(event.to_dict(), strict=False)
        assert getattr(event, "stream_id", None) == "lane"


async def test_the_lanes_of_the_official_client(tmp_path: Path) -> None:
    async with running(settings(tmp_path)) as gateway:
        client = AsyncOpenAI(base_url=gateway.base_url, api_key="none")
        async with (
            client,
            client.responses.connect() as connection,
            AsyncResponsesWebSocketSession(connection, limits=LIMITS) as session,
        ):
            lanes = [session.lane(name) for name in ("a", "b")]
            for lane in lanes:
                await lane.send(create_event("Hello"))
            first, second = [await lane.get_final_response() for lane in lanes]
            await session.default.send(create_event("warm", generate=False))
            warmed = await session.default.get_final_response()
            await lanes[0].send(create_event("go on", previous_response_id=warmed.id))
            continued = await lanes[0].get_final_response()
            await lanes[1].send(create_event("lost", previous_response_id="resp_unknown"))
            with pytest.raises(ResponsesWebSocketError) as caught:
                await lanes[1].get_final_response()
    assert {first.status, second.status} == {"completed"}
    assert warmed.output == []
    assert continued.output_text == "go on"
    error = caught.value.event
    assert isinstance(error, responses_server_event.ResponseWsError)
    assert (error.status, error.error.code) == (400, "previous_response_not_found")


async def test_the_official_client_without_asyncio(tmp_path: Path) -> None:
    async with running(settings(tmp_path)) as gateway:

        def read() -> list[str]:
            kinds: list[str] = []
            with (
                OpenAI(base_url=gateway.base_url, api_key="none") as client,
                client.responses.connect() as connection,
            ):
                connection.response.create(model="echo/echo", input="Hello")
                while not kinds or kinds[-1] != "response.completed":
                    kinds.append(connection.recv().type)
            return kinds

        kinds = await asyncio.to_thread(read)
    assert kinds[0] == "response.created"


async def test_the_client_of_websockets_and_its_pings(tmp_path: Path) -> None:
    async with running(settings(tmp_path, api_keys={"me": "right"})) as gateway:
        url = address(gateway).replace("http", "ws", 1)
        headers = {"authorization": "Bearer right"}
        async with websockets.connect(url, additional_headers=headers) as socket:
            await (await socket.ping())
            await socket.send(json.dumps(create_frame("Hello")))
            kinds: list[str] = []
            while not kinds or kinds[-1] != "response.completed":
                kinds.append(json.loads(await socket.recv())["type"])
        with pytest.raises(websockets.InvalidStatus) as caught:
            await websockets.connect(url, additional_headers={"authorization": "Bearer wrong"})
    assert caught.value.response.status_code == 401


@pytest.mark.parametrize(
    ("origin", "status"), [("https://evil.example", 403), ("https://pages.example", 101)]
)
async def test_a_foreign_web_page_is_refused(tmp_path: Path, origin: str, status: int) -> None:
    config = settings(tmp_path, allowed_origins=["https://pages.example"])
    async with running(config) as gateway:
        try:
            async with gateway.client.ws_connect(address(gateway), origin=origin):
                answered = 101
        except aiohttp.WSServerHandshakeError as error:
            answered = error.status
    assert answered == status


async def test_a_message_above_the_limit_of_bodies_closes_the_connection(tmp_path: Path) -> None:
    async with (
        running(settings(tmp_path, max_body_bytes=10_000)) as gateway,
        gateway.client.ws_connect(address(gateway)) as socket,
    ):
        await socket.send_str(json.dumps(create_frame("x" * 11_000)))
        await socket.receive()
        assert socket.close_code == 1009


CHUNK = chunk({"content": "x" * 50_000})


class Flood:
    """A provider that sends chunks until nobody reads them, and counts them."""

    def __init__(self) -> None:
        self.sent = 0
        self.is_held = asyncio.Event()
        """A chunk could not be sent, because nobody reads."""
        self.lost = asyncio.Event()

    async def script(self, request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        try:
            while True:
                sending = asyncio.ensure_future(connection.send(CHUNK))
                if await is_blocked(sending, 0.2):
                    self.is_held.set()
                await sending
                self.sent += 1
        finally:
            self.lost.set()


async def test_a_slow_reader_holds_the_provider_and_its_loss_ends_the_call(tmp_path: Path) -> None:
    flood = Flood()
    async with (
        upstream(flood.script) as provider,
        running(settings(tmp_path, provider.url)) as gateway,
    ):
        async with gateway.client.ws_connect(address(gateway), max_msg_size=0) as socket:
            await socket.send_str(json.dumps(create_frame(model="m")))
            await asyncio.wait_for(flood.is_held.wait(), LIMIT_S)
            assert flood.sent < 1000
        await asyncio.wait_for(flood.lost.wait(), LIMIT_S)
        await until(lambda: not len(gateway.engine.active), "the end of the run")


async def test_a_connection_survives_the_failure_of_a_response(tmp_path: Path) -> None:
    cut = (chunk({"role": "assistant", "content": "par"}), chunk({"content": "tial"}))
    async with checked_gateway(tmp_path, send_frames(cut)) as setup:
        gateway = setup.gateway
        async with gateway.client.ws_connect(address(gateway)) as socket:
            failed = await ask(socket, create_frame(model="m", stream_id="a"))
            answered = await ask(socket, create_frame())
    assert failed[-1]["type"] == "response.failed"
    assert failed[-1]["stream_id"] == "a"
    assert output_text(answered) == "Hello"


async def test_secrets_and_prompts_are_not_logged(tmp_path: Path) -> None:
    secret, prompt = "sk-very-secret", "my private prompt"
    async with running(settings(tmp_path, api_keys={"me": secret})) as gateway:
        headers = {"authorization": f"Bearer {secret}"}
        async with gateway.client.ws_connect(address(gateway), headers=headers) as socket:
            await ask(socket, create_frame(prompt))
            await ask(socket, create_frame(prompt, temperature="hot"))
            await socket.send_str(f'{{"type": "{prompt}"')
            await socket.receive_str()
    log = str([(entry.event, entry.facts) for entry in gateway.log])
    assert "response.finished" in log
    for text in (secret, prompt):
        assert text not in log
    trace = read_files(tmp_path, "trace.db*")
    assert b"rejected" in trace
    assert secret.encode() not in trace
    assert prompt.encode() not in trace


async def test_shutdown_lets_a_response_finish_and_closes_the_connection(tmp_path: Path) -> None:
    release = asyncio.Event()

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        await connection.send(chunk({"content": "begun"}))
        await release.wait()
        for frame in (chunk({"content": ", done"}), chunk({}, "stop"), usage(), DONE):
            await connection.send(frame)

    async with upstream(script) as provider, running(settings(tmp_path, provider.url)) as gateway:
        socket = await gateway.client.ws_connect(address(gateway))
        await socket.send_str(json.dumps(create_frame(model="m")))
        frames = [json.loads(await socket.receive_str())]
        stopping = asyncio.ensure_future(gateway.gateway.stop())
        await let_others_read()
        release.set()
        while frames[-1]["type"] != "response.completed":
            frames.append(json.loads(await socket.receive_str()))
        assert (await socket.receive()).type is aiohttp.WSMsgType.CLOSE
        assert socket.close_code == 1001
        await stopping
    assert output_text(frames) == "begun, done"


async def test_a_stored_response_has_a_status_while_it_runs_and_after_its_client_has_left(
    tmp_path: Path,
) -> None:
    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        await connection.send(chunk({"content": "begun"}))
        await connection.wait_disconnected()

    async def status(gateway: Running, id: str) -> str:
        async with gateway.client.get(f"{address(gateway)}/{id}") as response:
            found: str = (await response.json())["status"]
            return found

    async with upstream(script) as provider, running(settings(tmp_path, provider.url)) as gateway:
        async with gateway.client.ws_connect(address(gateway)) as socket:
            await socket.send_str(json.dumps(create_frame(model="m", store=True)))
            created = json.loads(await socket.receive_str())
            id = created["response"]["id"]
            assert await status(gateway, id) == "in_progress"
        await until(lambda: not len(gateway.engine.active), "the end of the run")
        assert await status(gateway, id) == "cancelled"


# Codex


@pytest.mark.skipif(not captured.bodies(), reason=captured.ABSENT)
async def test_the_frames_of_codex(tmp_path: Path) -> None:
    """Warm-up, turn and follow-up: each sends what is new, and the provider gets everything."""
    bodies = captured.bodies()
    warm, turn, follow_up = (
        dict(bodies[name])
        for name in ("17-ws-prewarm-frame", "18-ws-turn-frame", "19-ws-followup-frame")
    )
    call_id = follow_up["input"][0]["call_id"]
    call = {
        "index": 0,
        "id": call_id,
        "function": {"name": "exec_command", "arguments": '{"cmd": "ls"}'},
    }
    answers = [
        (chunk({"tool_calls": [call]}), chunk({}, "tool_calls"), usage(), DONE),
        HELLO_WORLD,
    ]

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await send_frames(answers.pop(0))(request, connection)

    async with checked_gateway(tmp_path, script) as setup:
        gateway = setup.gateway
        async with gateway.client.ws_connect(address(gateway), headers=captured.CLIENT) as socket:
            warmed = await ask(socket, {**warm, "model": "m"})
            previous = {"model": "m", "previous_response_id": response_id(warmed)}
            called = await ask(socket, {**turn, **previous})
            previous["previous_response_id"] = response_id(called)
            ended = await ask(socket, {**follow_up, **previous})
        requests = setup.upstream.requests
    assert warmed[-1]["response"]["output"] == []
    assert called[-1]["response"]["output"][-1]["call_id"] == call_id
    assert output_text(ended) == "Hello, world"
    assert len(requests) == 2, "a warm-up calls no provider"
    messages = requests[-1].body["messages"]
    texts = json.dumps(messages)
    assert "You are a coding agent" in texts, "the input of the warm-up"
    assert "please go" in texts, "the input of the turn"
    assert messages[-1]["tool_call_id"] == call_id
