"""The server process: start, shutdown, and limits of the operating system."""

from __future__ import annotations

import asyncio
import errno
import gc
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Iterator

import pytest
import uvloop

from antiphon.engine.engine import Engine
from antiphon.errors import ConfigError
from antiphon.server import serve as serve_module
from antiphon.server.serve import GatewayServer, serve
from antiphon.server.wiring import open_setup
from antiphon.server.workers.listeners import bind_listeners
from antiphon.stages.log import Entry
from tests.support.applications import GatedUpstream, echo_config, use_upstream
from tests.support.gateways import events_of
from tests.support.stream_reader import open_stream
from tests.support.tables import table
from tests.support.waiting import LIMIT_S, until


@pytest.fixture
def _process_settings() -> Iterator[None]:
    """Undo what a server changes in its process, but for what it excludes from garbage
    collection: the collected tests and libraries have to stay excluded (tests/conftest.py)."""
    interval = sys.getswitchinterval()
    thresholds, limits = gc.get_threshold(), resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*thresholds)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.usefixtures("_process_settings")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_stops_the_server(number: signal.Signals) -> None:
    log: list[Entry] = []
    ports: list[int] = []
    frozen = gc.get_freeze_count()

    def announce(gateway: GatewayServer, engine: Engine) -> None:
        ports.append(gateway.port)

    serving = asyncio.get_running_loop().create_task(serve(echo_config(), {}, log.append, announce))
    await until(lambda: ports, "the server has started")
    assert gc.get_freeze_count() > frozen
    os.kill(os.getpid(), number)
    await asyncio.wait_for(serving, LIMIT_S)
    assert [(entry.event, entry.facts) for entry in log] == [("gateway.stopping", {"streams": 0})]
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().remove_signal_handler(each)


@pytest.mark.usefixtures("_process_settings")
async def test_a_hangup_reloads_and_the_server_goes_on() -> None:
    log: list[Entry] = []
    ports: list[int] = []
    loop = asyncio.get_running_loop()
    config = echo_config()
    serving = loop.create_task(
        serve(config, {}, log.append, lambda gateway, engine: ports.append(gateway.port), load=None)
    )
    await until(lambda: ports, "the server has started")
    os.kill(os.getpid(), signal.SIGHUP)
    await until(lambda: log, "the reload is logged")
    async with open_stream(ports[0]) as client:
        await client.post({"model": "echo/echo", "input": "Hello"})
        assert (await client.rest()).status == 200
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(serving, LIMIT_S)
    assert log[0].event == "config.reloaded"
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.remove_signal_handler(each)


async def test_a_connection_that_no_file_descriptor_is_left_for_is_logged_as_our_own_failure() -> (
    None
):
    log: list[Entry] = []
    loop = asyncio.get_running_loop()
    error = OSError(errno.EMFILE, "Too many open files")
    serve_module._report_loop_error(log.append, loop, {"message": "accept", "exception": error})
    assert [(entry.event, entry.level) for entry in log] == [("gateway.out_of_files", "error")]
    assert "ulimit" in log[0].facts["reason"]


@pytest.mark.usefixtures("_process_settings")
def test_the_limit_of_open_files_is_raised_to_the_maximum() -> None:
    _, maximum = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, maximum), maximum))
    serve_module._raise_file_limit()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (maximum, maximum)


async def test_an_open_bind_without_keys_is_rejected_before_listening() -> None:
    config = echo_config(host="0.0.0.0")
    async with open_setup(config, {}, lambda entry: None) as setup:
        with pytest.raises(ConfigError, match="api_keys"):
            await GatewayServer(setup).start()


async def test_a_stream_that_outlives_the_deadline_ends_with_a_terminal_event() -> None:
    config = echo_config(shutdown_s=0.05, commit_after_s=0.01)
    async with open_setup(config, {}, lambda entry: None) as setup:
        use_upstream(setup.engine, GatedUpstream())
        gateway = GatewayServer(setup)
        await gateway.start()
        async with open_stream(gateway.port) as client:
            await client.post({"model": "echo/echo", "input": "Hello", "stream": True})
            await client.event()
            await gateway.stop()
            events = events_of((await client.rest()).body)
        assert not setup.engine.active
    assert events[-1]["type"] == "response.failed"
    assert "restarting" in events[-1]["response"]["error"]["message"]


async def test_a_server_that_retires_closes_connections_with_their_next_answer() -> None:
    config = echo_config(shutdown_s=600)
    (listeners,) = bind_listeners("127.0.0.1", 0, 1)
    async with open_setup(config, {}, lambda entry: None) as setup:
        gateway = GatewayServer(setup, listeners=listeners)
        await gateway.start()
        assert gateway.port == listeners[0].getsockname()[1]
        async with open_stream(gateway.port) as whole, open_stream(gateway.port) as streamed:
            for client in (whole, streamed):
                await client.post({"model": "echo/echo", "input": "Hello"})
                assert "connection" not in (await client.rest()).headers
                client.start_next_answer()
            retiring = asyncio.get_running_loop().create_task(gateway.retire())
            await until(lambda: listeners[0].fileno() < 0, "the port is left to others")
            for client, is_streamed in ((whole, False), (streamed, True)):
                assert not retiring.done()
                await client.post({"model": "echo/echo", "input": "Hello", "stream": is_streamed})
                answer = await client.rest()
                assert (answer.status, answer.headers["connection"]) == (200, "close")
            await asyncio.wait_for(retiring, LIMIT_S)
        await gateway.stop()


async def test_a_server_that_retires_waits_for_connections_until_the_deadline() -> None:
    config = echo_config(shutdown_s=0.05)
    async with open_setup(config, {}, lambda entry: None) as setup:
        gateway = GatewayServer(setup)
        await gateway.start()
        async with open_stream(gateway.port) as client:
            await client.post({"model": "echo/echo", "input": "Hello"})
            await client.rest()
            client.start_next_answer()
            await gateway.retire()
            await gateway.stop()
            assert await client.closed_without_an_answer()


@table("passes", range(8))
def test_a_server_that_retires_answers_connections_it_has_just_accepted(passes: int) -> None:
    """A connection that was accepted some passes of the event loop before is not refused. With the
    event loop of the workers: that of Python 3.11 drops such connections by itself."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(_retire_after_connecting(passes)) in (b"", b"HTTP/1.1 200")


async def _retire_after_connecting(passes: int) -> bytes:
    """Return the begin of the answer, nothing if the connection is left to the successor."""
    config = echo_config(shutdown_s=600)
    (listeners,) = bind_listeners("127.0.0.1", 0, 1)
    async with open_setup(config, {}, lambda entry: None) as setup:
        gateway = GatewayServer(setup, listeners=listeners)
        await gateway.start()
        with (
            listeners[0].dup() as successor,
            socket.create_connection(successor.getsockname(), timeout=10) as client,
        ):
            client.sendall(_format_post({"model": "echo/echo", "input": "Hello"}))
            for _ in range(passes):
                await asyncio.sleep(0)
            await gateway.retire()
            await gateway.stop()
            return b"" if _has_connection(successor) else client.recv(12)


def _format_post(body: dict[str, str]) -> bytes:
    data = json.dumps(body).encode()
    headers = f"""host: 127.0.0.1
connection: close
content-type: application/json
content-length: {len(data)}
"""
    head = f"POST /v1/responses HTTP/1.1\n{headers}\n"
    return head.replace("\n", "\r\n").encode() + data


def _has_connection(listener: socket.socket) -> bool:
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True
