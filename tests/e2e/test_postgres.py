"""Gateways that share a PostgreSQL database: any of them serves any client, also while it is away.

Run by `make postgres`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import StoreConfig
from antiphon.errors import StoreError
from antiphon.store.postgres.address import parse_address
from antiphon.store.postgres.migrate import connect
from tests.support.client_answers import Answer, post_request, send_raw
from tests.support.gateways import Running, events_of, replaced, running, settings
from tests.support.postgres import run_server
from tests.support.postgres_proxy import PostgresProxy, run_proxy
from tests.support.tls import make_contexts
from tests.support.upstream import Connection, ReceivedRequest, chunk, upstream
from tests.support.waiting import LIMIT_S, until, until_async

pytestmark = pytest.mark.anyio

BACKGROUND = {"model": "echo/echo", "background": True, "stream": True}


@pytest.fixture
async def proxy(postgres_url: str) -> AsyncIterator[PostgresProxy]:
    async with run_proxy(postgres_url) as proxy:
        yield proxy


async def start(
    stack: AsyncExitStack, directory: Path, url: str, upstream: str = "", **store: Any
) -> Running:
    """Start a gateway with a data directory of its own."""
    config = replaced(settings(directory, upstream), store=StoreConfig(url=url, **store))
    return await stack.enter_async_context(running(config))


async def read_rest(gateway: Running, response_id: str, after: int) -> list[dict[str, Any]]:
    path = f"/v1/responses/{response_id}?stream=true&starting_after={after}"
    return events_of((await send_raw(gateway, "GET", path)).body)


async def test_a_stream_is_resumed_at_every_event_by_another_gateway(
    tmp_path: Path, postgres_url: str
) -> None:
    async with AsyncExitStack() as stack:
        one, two = [await start(stack, tmp_path / name, postgres_url) for name in "ab"]
        answer = await post_request(one, {**BACKGROUND, "input": "One two three four."})
        events = events_of(answer.body)
        id = events[0]["response"]["id"]
        for number in range(len(events)):
            rest = await read_rest(two, id, number)
            assert rest == events[number + 1 :]
        found = await send_raw(two, "GET", f"/v1/responses/{id}")
        assert found.document["status"] == "completed"


async def test_a_tail_follows_a_response_that_another_gateway_generates(
    tmp_path: Path, postgres_url: str
) -> None:
    is_begun, go_on = asyncio.Event(), asyncio.Event()

    async def provider(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        await connection.send(chunk({"content": "One"}))
        is_begun.set()
        await go_on.wait()
        await connection.send(chunk({"content": " two"}))
        await connection.send(chunk({}, "stop") + b"data: [DONE]\n\n")
        await connection.end()

    async with AsyncExitStack() as stack:
        url = (await stack.enter_async_context(upstream(provider))).url
        one, two = [await start(stack, tmp_path / name, postgres_url, url) for name in "ab"]
        body = {**BACKGROUND, "model": "up/model", "input": "Hello?"}
        first = asyncio.ensure_future(post_request(one, body))
        await is_begun.wait()
        id = await find_id(postgres_url)
        tail = asyncio.ensure_future(read_rest(two, id, -1))
        await asyncio.sleep(0)
        go_on.set()
        assert await tail == events_of((await first).body)


async def find_id(url: str) -> str:
    """Return the id of the only response in a database."""
    connection = await connect(parse_address(url))
    try:
        return str(await connection.fetchval("SELECT id FROM turn"))
    finally:
        await connection.close()


async def test_a_response_is_cancelled_from_another_gateway(
    tmp_path: Path, postgres_url: str
) -> None:
    async def provider(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        await connection.wait_disconnected()

    async with AsyncExitStack() as stack:
        provider_server = await stack.enter_async_context(upstream(provider))
        url = provider_server.url
        one, two = [await start(stack, tmp_path / name, postgres_url, url) for name in "ab"]
        body = b'{"model": "up/model", "background": true, "input": "Hello?"}'
        headers = {"content_type": "application/json"}
        id = (await send_raw(one, "POST", "/v1/responses", body, **headers)).document["id"]
        await until(lambda: provider_server.requests, "the provider has the request")
        async with asyncio.timeout(LIMIT_S):
            cancelled = await send_raw(two, "POST", f"/v1/responses/{id}/cancel")
        assert cancelled.document["status"] == "cancelled"
        found = await send_raw(one, "GET", f"/v1/responses/{id}")
        assert found.document["status"] == "cancelled"
        await provider_server.all_closed.wait()


async def test_a_conversation_that_two_gateways_use_stays_in_order(
    tmp_path: Path, postgres_url: str
) -> None:
    async with AsyncExitStack() as stack:
        gateways = [await start(stack, tmp_path / name, postgres_url) for name in "ab"]
        created = await send_raw(
            gateways[0], "POST", "/v1/conversations", b"{}", content_type="application/json"
        )
        id = created.document["id"]
        for number in range(6):
            body = {"model": "echo/echo", "conversation": id, "input": f"turn {number}"}
            answer = await post_request(gateways[number % 2], body)
            assert answer.status == 200, answer.body
        listed = await send_raw(gateways[1], "GET", f"/v1/conversations/{id}/items?order=asc")
        texts = [item["content"][0]["text"] for item in listed.document["data"]]
        assert texts[::2] == [f"turn {number}" for number in range(6)]


async def test_a_connection_uses_tls_as_the_url_says(tmp_path: Path, postgres_url: str) -> None:
    for name in ("server", "other"):
        (tmp_path / name).mkdir()
        make_contexts(tmp_path / name)
    with run_server(certificate=tmp_path / "server" / "server.pem") as server:
        verified = f"{server.new_url()}&sslmode=verify-full&sslrootcert={tmp_path}"
        async with AsyncExitStack() as stack:
            gateway = await start(stack, tmp_path / "a", f"{verified}/server/server.pem")
            assert (await ask(gateway)).response["store"] is True
            connection = await connect(parse_address(f"{verified}/server/server.pem"))
            encrypted = (
                "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE ssl"
            )
            assert await connection.fetchval(encrypted) >= 2
            await connection.close()
        for root, problem in (("other", "CERTIFICATE_VERIFY_FAILED"), ("no", "`sslrootcert`")):
            with pytest.raises(StoreError, match=problem):
                await connect(parse_address(f"{verified}/{root}/server.pem"))


async def ask(gateway: Running, **body: Any) -> Answer:
    return await post_request(gateway, {"model": "echo/echo", "input": "Hello?", **body})


async def test_a_database_that_is_away_fails_nothing_that_does_not_need_it(
    tmp_path: Path, postgres_url: str, proxy: PostgresProxy
) -> None:
    async with AsyncExitStack() as stack:
        other = await start(stack, tmp_path / "other", postgres_url)  # without the proxy
        kept = (await ask(other)).response
        assert kept["store"] is True
        gateway = await start(stack, tmp_path, proxy.url, wait_s=1.0)
        proxy.is_away = True
        proxy.cut_all()
        assert (await send_raw(gateway, "GET", "/health/ready")).status == 503
        for stream in (False, True):
            answer = (await ask(gateway, stream=stream)).response
            assert (answer["status"], answer["store"]) == ("completed", False)
        assert (await ask(gateway, store=False)).response["status"] == "completed"
        missing = await ask(gateway, previous_response_id=kept["id"])
        assert (missing.status, missing.error["code"]) == (503, "store_unavailable")
        proxy.is_away = False

        async def is_back() -> bool:
            answer = await ask(gateway, previous_response_id=kept["id"])
            return answer.status == 200 and bool(answer.response["store"])

        await until_async(is_back, "the database is used again")


async def test_a_background_response_outlives_a_database_that_is_away(
    tmp_path: Path, proxy: PostgresProxy
) -> None:
    is_begun, go_on = asyncio.Event(), asyncio.Event()

    async def provider(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        await connection.send(chunk({"content": "One"}))
        is_begun.set()
        await go_on.wait()
        await connection.send(chunk({}, "stop") + b"data: [DONE]\n\n")
        await connection.end()

    async with AsyncExitStack() as stack:
        url = (await stack.enter_async_context(upstream(provider))).url
        gateway = await start(stack, tmp_path, proxy.url, url, wait_s=60.0)
        body = {**BACKGROUND, "model": "up/model", "input": "Hello?"}
        reading = asyncio.ensure_future(post_request(gateway, body))
        await is_begun.wait()
        proxy.is_away = True
        proxy.cut_all()
        go_on.set()
        refused = proxy.refused
        await until(lambda: proxy.refused > refused + 1, "the end cannot be stored")
        assert not reading.done()  # nothing is visible before it is durable
        proxy.is_away = False
        events = events_of((await reading).body)
        assert [event["sequence_number"] for event in events] == [*range(len(events))]
        assert events[-1]["response"]["status"] == "completed"
        assert await read_rest(gateway, events[0]["response"]["id"], 0) == events[1:]
