"""The files of deploy/ with the programs that read them: nginx before gateways, and systemd."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import aiohttp
import pytest

from tests.support.cluster.balancer import run_nginx, write_site
from tests.support.cluster.http_client import decode, read_frames, send
from tests.support.gateways import Running, running, settings
from tests.support.tls import make_contexts
from tests.support.upstream import (
    HELLO,
    HELLO_WORLD,
    Connection,
    ReceivedRequest,
    Script,
    upstream,
)
from tests.support.waiting import LIMIT_S, until_async
from tests.support.web_sockets import create_frame

pytestmark = pytest.mark.anyio

DEPLOY = Path(__file__).parents[2] / "deploy"


@asynccontextmanager
async def open_site(
    directory: Path, *gateways: Running
) -> AsyncIterator[tuple[str, aiohttp.ClientSession]]:
    """Run nginx in front of gateways; yields its address, and a client that trusts it."""
    _, trusting = make_contexts(directory)
    addresses = [f"127.0.0.1:{each.gateway.port}" for each in gateways]
    async with run_nginx(directory, addresses, directory / "server.pem") as nginx:
        connector = aiohttp.TCPConnector(ssl=trusting)
        async with aiohttp.ClientSession(connector=connector) as client:
            yield f"https://127.0.0.1:{nginx.port}", client


def send_in_two_parts(go_on: asyncio.Event) -> Script:
    """Return a provider that waits after the first words."""

    async def provide(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        for each in HELLO:
            await connection.send(each)
        await go_on.wait()
        for each in HELLO_WORLD[len(HELLO) :]:
            await connection.send(each)
        await connection.end()

    return provide


async def test_events_pass_nginx_as_they_come(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    async with (
        upstream(send_in_two_parts(go_on)) as provider,
        running(settings(tmp_path, provider.url)) as gateway,
        open_site(tmp_path, gateway) as (url, client),
        asyncio.timeout(LIMIT_S),
    ):
        body = {"model": "up/m", "input": "Hi", "stream": True}
        types = []
        async with client.post(f"{url}/v1/responses", json=body) as answer:
            async for frame in read_frames(answer):
                types.append(decode(frame)["type"])
                if types[-1] == "response.output_text.delta":
                    go_on.set()  # which the provider waits for: nothing was held back
    assert types[-1] == "response.completed"


async def refuses(port: int) -> bool:
    """Whether nobody listens on a port."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionError:
        return True
    writer.close()
    return False


async def test_a_gateway_that_is_stopping_gets_no_requests_of_nginx(tmp_path: Path) -> None:
    go_on = asyncio.Event()
    async with AsyncExitStack() as stack:
        provider = await stack.enter_async_context(upstream(send_in_two_parts(go_on)))
        gateways = [
            await stack.enter_async_context(running(settings(tmp_path / name, provider.url)))
            for name in "ab"
        ]
        url, client = await stack.enter_async_context(open_site(tmp_path, *gateways))
        await stack.enter_async_context(asyncio.timeout(20))
        body = {"model": "echo/echo", "input": "Hi"}
        for _ in range(4):  # nginx has used both
            assert (await send(client, "POST", f"{url}/v1/responses", body))[0] == 200
        held = {"model": "up/m", "input": "Hi", "stream": True}
        async with client.post(f"{gateways[0].base_url}/responses", json=held, ssl=False) as answer:
            await answer.content.readline()
            stopping = asyncio.ensure_future(gateways[0].gateway.stop())
            await until_async(partial(refuses, gateways[0].gateway.port), "it is stopping")
            found = [await send(client, "POST", f"{url}/v1/responses", body) for _ in range(6)]
            go_on.set()
            await answer.read()
        await stopping
        assert [status for status, _ in found] == [200] * 6


async def test_websockets_pass_nginx_and_the_pages_of_operators_do_not(tmp_path: Path) -> None:
    async with (
        running(settings(tmp_path)) as gateway,
        open_site(tmp_path, gateway) as (url, client),
        asyncio.timeout(LIMIT_S),
    ):
        async with client.ws_connect(f"{url}/v1/responses") as socket:
            await socket.send_json(create_frame())
            types: list[str] = []
            while not types or types[-1] != "response.completed":
                types.append((await socket.receive_json())["type"])
        assert types[0] == "response.created"
        for path in ("/ui", "/ui/", "/metrics", "/health", "/health/ready"):
            async with client.get(f"{url}{path}") as answer:
                assert answer.status == 404
                assert answer.headers["server"].startswith("nginx")


def test_nginx_accepts_the_site(tmp_path: Path) -> None:
    make_contexts(tmp_path)
    gateways = ["127.0.0.1:8484", "127.0.0.1:8485"]
    command = [*write_site(tmp_path, gateways, 8443, tmp_path / "server.pem"), "-t"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "warn" not in done.stderr


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    assert program, "systemd-analyze is not installed: run `make cluster-test`"
    unit = (DEPLOY / "antiphon.service").read_text()
    assert unit.count("/opt/antiphon/bin/antiphon") == 1
    copy = tmp_path / "antiphon.service"
    copy.write_text(unit.replace("/opt/antiphon/bin/antiphon", sys.executable))
    command = [program, "verify", "--man=no", str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
