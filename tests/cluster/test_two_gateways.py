"""Two gateways on one PostgreSQL and one Redis: any of them serves any client, and one survives.

Each test has a model name of its own, by which the provider knows what to answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import aiohttp
import pytest

from antiphon.runs.recovery import PROCESS_LOST
from tests.support.cluster.cluster import LEASE_S, Cluster, run_cluster
from tests.support.cluster.gateway_process import LIMITED_COUNT
from tests.support.cluster.http_client import TERMINAL, decode, open_client, read_frames, send
from tests.support.prometheus_tools import scrape_sums
from tests.support.upstream import (
    DONE,
    HELLO,
    Connection,
    ReceivedRequest,
    chunk,
    send_json,
    usage,
)
from tests.support.waiting import until, until_async

pytestmark = pytest.mark.anyio

WORDS = ("One", " two", " three", " four", " five")
PACE_S = 0.05
CANCEL_S = 2.0
TRIES = LIMITED_COUNT
"""How often a time is measured: the shortest counts, since a machine may be busy for a moment."""
SLOW = {"error": {"message": "Slow down.", "type": "rate_limit_error"}}


async def provide(request: ReceivedRequest, connection: Connection) -> None:
    """Answer slowly or never end, as the name of the model says; one key is refused."""
    kind = request.body["model"].partition("-")[0]
    if request.headers["authorization"] == "Bearer sk-limited":
        await send_json(429, SLOW, retry_after="30")(request, connection)
        return
    await connection.head()
    for each in HELLO:
        await connection.send(each)
    if kind == "hold":
        await connection.wait_disconnected()
        return
    for word in WORDS:
        await connection.pause(PACE_S)
        await connection.send(chunk({"content": word}))
    await connection.send(chunk({}, "stop") + usage() + DONE)
    await connection.end()


@pytest.fixture(scope="module")
async def cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    home = tmp_path_factory.mktemp("cluster")
    async with run_cluster(home, 2, provide, lease_s=LEASE_S, max_attempts=2) as cluster:
        yield cluster


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with open_client() as client:
        yield client


class Client:
    """What a test does with one gateway."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self._http, self._url = http, url

    async def begin(self, model: str, count: int) -> list[bytes]:
        """Begin a streamed background response, and leave it after so many events."""
        body = {"model": f"up/{model}", "input": "Hi", "background": True, "stream": True}
        async with self._http.post(f"{self._url}/responses", json=body) as answer:
            assert answer.status == 200, await answer.text()
            async with aclosing(read_frames(answer)) as frames:  # type: ignore[type-var]
                return [frame async for frame in _first(frames, count)]

    async def resume(self, id: str, after: int = -1) -> list[bytes]:
        query = f"?stream=true&starting_after={after}" if after >= 0 else "?stream=true"
        async with self._http.get(f"{self._url}/responses/{id}{query}") as answer:
            assert answer.status == 200, await answer.text()
            return [frame async for frame in read_frames(answer)]

    async def ask(self, method: str, path: str, **body: Any) -> tuple[int, dict[str, Any]]:
        return await send(self._http, method, f"{self._url}/{path}", body or None)


async def _first(frames: AsyncIterator[bytes], count: int) -> AsyncIterator[bytes]:
    async for frame in frames:
        yield frame
        count -= 1
        if not count:
            return


def clients_of(cluster: Cluster, http: aiohttp.ClientSession) -> list[Client]:
    return [Client(http, gateway.url) for gateway in cluster.gateways]


def count_calls(cluster: Cluster, model: str) -> int:
    return sum(request.body["model"] == model for request in cluster.provider.requests)


def id_of(frames: list[bytes]) -> str:
    return str(decode(frames[0])["response"]["id"])


async def test_a_stream_is_resumed_at_every_event_by_the_other(
    cluster: Cluster, client: aiohttp.ClientSession
) -> None:
    one, two = clients_of(cluster, client)
    whole = await one.resume(id_of(await one.begin("pace-whole", 1)))
    types = [decode(frame)["type"] for frame in whole]
    assert types[-1] == "response.completed"

    async def cut_after(count: int) -> None:
        model = f"pace-{count}"
        seen = await one.begin(model, count)
        rest = await two.resume(id_of(seen), count - 1)
        uncut = await one.resume(id_of(seen))
        assert seen + rest == uncut
        events = [decode(frame) for frame in uncut]
        assert [event["sequence_number"] for event in events] == [*range(len(events))]
        assert [event["type"] for event in events] == types
        assert count_calls(cluster, model) == 1

    await asyncio.gather(*(cut_after(count) for count in range(1, len(types) + 1)))


async def test_a_response_is_cancelled_from_the_other(
    cluster: Cluster, client: aiohttp.ClientSession
) -> None:
    one, two = clients_of(cluster, client)
    took: list[float] = []
    for number in range(TRIES):
        model = f"hold-cancelled-{number}"
        id = id_of(await one.begin(model, 4))
        tail = asyncio.ensure_future(one.resume(id))
        begun = time.monotonic()
        status, cancelled = await two.ask("POST", f"responses/{id}/cancel")
        took.append(time.monotonic() - begun)
        assert (status, cancelled["status"]) == (200, "cancelled")
        last = decode((await tail)[-1])
        assert (last["type"], last["response"]["status"]) == ("response.incomplete", "cancelled")
        assert count_calls(cluster, model) == 1
    assert min(took) < CANCEL_S, took


async def test_a_key_that_cools_down_on_one_is_cool_on_the_other_within_a_second(
    cluster: Cluster, client: aiohttp.ClientSession
) -> None:
    one, two = clients_of(cluster, client)
    address = cluster.gateways[1].url.removesuffix("/v1")
    took: list[float] = []
    for number in range(TRIES):

        async def is_cool(number: int = number) -> bool:
            return (await scrape_sums(client, address))["antiphon_keys_resting"] > number

        body = {"model": f"limited{number}/pace-limited{number}", "input": "Hi"}
        assert (await one.ask("POST", "responses", **body))[0] == 200
        answered_at = time.monotonic()
        await until_async(is_cool, "the other gateway knows that the key cools down")
        took.append(time.monotonic() - answered_at)
        assert (await two.ask("POST", "responses", **body))[0] == 200
        model = f"pace-limited{number}"
        asked = [each for each in cluster.provider.requests if each.body["model"] == model]
        keys = [each.headers["authorization"].removeprefix("Bearer ") for each in asked]
        assert keys == ["sk-limited", "sk-free", "sk-free"]
    assert min(took) < 1.0, took


async def test_a_conversation_that_both_use_stays_in_order(
    cluster: Cluster, client: aiohttp.ClientSession
) -> None:
    gateways = clients_of(cluster, client)
    id = (await gateways[0].ask("POST", "conversations", metadata={}))[1]["id"]
    answered: list[str] = []

    async def add(number: int) -> None:
        """Send a turn until no other one is being answered."""
        text = f"turn {number}"
        body = {"model": "echo/echo", "conversation": id, "input": text}
        while True:
            status, document = await gateways[number % 2].ask("POST", "responses", **body)
            if status == 200:
                answered.append(text)
                return
            assert document["error"]["code"] == "conversation_locked", document

    await asyncio.gather(*(add(number) for number in range(8)))
    for gateway in gateways:
        _, listed = await gateway.ask("GET", f"conversations/{id}/items?order=asc&limit=100")
        texts = [item["content"][0]["text"] for item in listed["data"]]
        assert sorted(texts[::2]) == sorted(answered)
        assert [text in texts[2 * n + 1] for n, text in enumerate(texts[::2])] == [True] * 8


async def wait_for_end(gateway: Client, id: str) -> dict[str, Any]:
    while True:
        _, response = await gateway.ask("GET", f"responses/{id}")
        if response["status"] not in ("queued", "in_progress"):
            return response


async def test_what_a_killed_gateway_ran_ends_as_failed(
    cluster: Cluster, client: aiohttp.ClientSession
) -> None:
    one, two = clients_of(cluster, client)
    seen = await one.begin("hold-killed", 4)
    _, whole = await one.ask("POST", "responses", model="up/hold-whole", input="", background=True)
    await until(lambda: count_calls(cluster, "hold-whole"), "the other one is generated as well")
    tail = asyncio.ensure_future(two.resume(id_of(seen)))
    await cluster.gateways[0].kill()
    async with asyncio.timeout(LEASE_S + 5):
        events = [decode(frame) for frame in await tail]
        ended = await wait_for_end(two, whole["id"])
    assert [event["sequence_number"] for event in events] == [*range(len(events))]
    assert [event["type"] for event in events if event["type"] in TERMINAL] == ["response.failed"]
    for response in (events[-1]["response"], ended):
        assert response["error"] == {"code": "server_error", "message": PROCESS_LOST}
    await cluster.gateways[0].start()
    assert (await one.resume(id_of(seen)))[: len(seen)] == seen
    assert count_calls(cluster, "hold-killed") == count_calls(cluster, "hold-whole") == 1
