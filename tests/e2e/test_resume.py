"""A client whose connection is cut at any event gets the rest, and the provider is called once.

Twenty recorded streams are replayed by a provider on a real socket, frame by frame.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from tests.support.corpus import ABSENT, Case, cases, root
from tests.support.gateways import events_of
from tests.support.recordings import answers, comparable
from tests.support.shared_gateway import UVLOOP, SharedGateway, open_shared_gateway
from tests.support.stream_reader import open_stream
from tests.support.upstream import HELLO_WORLD, Connection, ReceivedRequest
from tests.support.waiting import until

Document = dict[str, Any]
CODEX = {"originator": "codex_cli_rs"}
PAUSE_S = 0.05


def frames_of(case: Case) -> list[bytes]:
    return [frame + b"\n\n" for frame in case.data.split(b"\n\n") if frame.strip()]


def _select() -> list[Any]:
    """Twenty streams of moderate length, of as many models as possible."""
    if root() is None:
        return [pytest.param(HELLO_WORLD, id=ABSENT)]
    found = [case for case in answers(cases("chat", wire="sse")) if 6 <= len(frames_of(case)) <= 16]
    return [pytest.param(frames_of(case), id=case.id) for case in found[:: len(found) // 20][:20]]


RECORDED = pytest.mark.parametrize("frames", _select())


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


@pytest.fixture(scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SharedGateway]:
    async with open_shared_gateway(tmp_path_factory.mktemp("resume")) as gateway:
        yield gateway


class RecordedProvider:
    """Sends a recording frame by frame; may hold its last frame back until `go_on` is set."""

    def __init__(self, frames: Sequence[bytes]) -> None:
        self._frames = frames
        self.is_holding = asyncio.Event()
        self.go_on = asyncio.Event()
        self.requests = 0

    async def __call__(self, request: ReceivedRequest, connection: Connection) -> None:
        self.requests += 1
        await connection.head()
        for frame in self._frames[:-1]:
            await connection.send(frame)
        self.is_holding.set()
        await self.go_on.wait()
        await connection.send(self._frames[-1])
        await connection.end()


class Client:
    """A client that sends the same request again and again, each time to a new provider."""

    def __init__(self, shared: SharedGateway, frames: Sequence[bytes], **body: Any) -> None:
        self._shared = shared
        self._frames = frames
        self.provider = RecordedProvider(frames)
        model = shared.add_script(self.provider)
        self._body = {"model": model, "input": "Hi", "stream": True, **body}

    def start_again(self, *, hold: bool) -> None:
        """Use a new provider, which sends everything at once unless it is to `hold`."""
        self.provider = self._shared.scripts[self._body["model"]] = RecordedProvider(self._frames)
        if not hold:
            self.provider.go_on.set()

    async def read_and_cut(self, count: int) -> list[Document]:
        """Read this many events, then cut the connection."""
        async with open_stream(self._shared.gateway.gateway.port) as reader:
            await reader.post(self._body, **CODEX)
            events = [await reader.event() for _ in range(count)]
            reader.disconnect()
        return [event for event in events if event is not None]

    def is_waited_for(self, response_id: str) -> bool:
        """Whether the gateway knows that the reader of a response has left."""
        waiting = self._shared.gateway.gateway.process.attach._waiting
        return response_id in [each.run.run.prepared.response.id for each in waiting.values()]

    async def read_until_it_holds(self) -> list[Document]:
        """Read the events that come before the last frame of the provider."""
        events: list[Document] = []
        async with open_stream(self._shared.gateway.gateway.port) as reader:
            await reader.post(self._body, **CODEX)
            await self.provider.is_holding.wait()
            with suppress(TimeoutError):
                while event := await asyncio.wait_for(reader.event(), PAUSE_S):
                    events.append(event)
        self.provider.go_on.set()
        return events

    async def read_all(self) -> tuple[str, list[Document]]:
        """Return the id of the response that the request was attached to, and all events."""
        url = f"{self._shared.gateway.base_url}/responses"
        async with self._shared.gateway.client.post(url, json=self._body, headers=CODEX) as answer:
            assert answer.status == 200, await answer.text()
            self.provider.go_on.set()
            return answer.headers.get("antiphon-attached", ""), events_of(await answer.read())

    async def resume(self, response_id: str, after: int) -> list[Document]:
        path = f"responses/{response_id}?stream=true&starting_after={after}"
        async with self._shared.gateway.client.get(
            f"{self._shared.gateway.base_url}/{path}"
        ) as answer:
            assert answer.status == 200, await answer.text()
            return events_of(await answer.read())


@RECORDED
async def test_a_stream_cut_after_any_event_is_resumed_without_a_gap(
    shared: SharedGateway, frames: list[bytes]
) -> None:
    client = Client(shared, frames, background=True)
    _, uncut = await client.read_all()
    for count in range(1, len(uncut) + 1):
        client.start_again(hold=False)
        begun = await client.read_and_cut(count)
        response_id = begun[0]["response"]["id"]
        rest = await client.resume(response_id, begun[-1]["sequence_number"])
        assert begun + rest == await client.resume(response_id, -1)
        assert comparable(begun + rest) == comparable(uncut)
        assert client.provider.requests == 1


@RECORDED
async def test_a_request_retried_after_any_event_gets_the_same_response(
    shared: SharedGateway, frames: list[bytes]
) -> None:
    client = Client(shared, frames)
    _, uncut = await client.read_all()
    client.start_again(hold=True)
    available = len(await client.read_until_it_holds())
    client = Client(shared, frames, metadata={"another": "request"})
    for count in range(1, available + 1):
        client.start_again(hold=True)
        begun = await client.read_and_cut(count)
        response_id = begun[0]["response"]["id"]
        await until(partial(client.is_waited_for, response_id), "the loss is noticed")
        attached, events = await client.read_all()
        assert attached == response_id
        assert events[:count] == begun
        assert [event["type"] for event in events] == [event["type"] for event in uncut]
        assert client.provider.requests == 1
