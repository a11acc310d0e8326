"""The server process: start, shutdown, and limits of the operating system."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import resource
import signal
import sys
from collections.abc import Iterator

import pytest

from antiphon.engine.engine import Engine
from antiphon.errors import ConfigError
from antiphon.pipeline.log import Entry
from antiphon.server import serve as serve_module
from antiphon.server.serve import GatewayServer, serve
from antiphon.server.wiring import open_engine
from tests.support.applications import GatedUpstream, echo_config, use_upstream
from tests.support.gateways import events_of
from tests.support.stream_reader import open_stream
from tests.support.waiting import until


@pytest.fixture
def _process_settings() -> Iterator[None]:
    """Undo what a server changes in its process."""
    interval = sys.getswitchinterval()
    thresholds, limits = gc.get_threshold(), resource.getrlimit(resource.RLIMIT_NOFILE)
    yield
    gc.unfreeze()
    sys.setswitchinterval(interval)
    gc.set_threshold(*thresholds)
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.usefixtures("_process_settings")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_stops_the_server(number: signal.Signals) -> None:
    log: list[Entry] = []
    ports: list[int] = []

    def announce(gateway: GatewayServer, engine: Engine) -> None:
        ports.append(gateway.port)

    serving = asyncio.get_running_loop().create_task(serve(echo_config(), {}, log.append, announce))
    await until(lambda: ports, "the server has started")
    assert gc.get_freeze_count() > 0
    os.kill(os.getpid(), number)
    await asyncio.wait_for(serving, 10)
    assert [(entry.event, entry.facts) for entry in log] == [("gateway.stopping", {"streams": 0})]
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().remove_signal_handler(each)


@pytest.mark.usefixtures("_process_settings")
async def test_a_hangup_is_logged_and_the_server_goes_on() -> None:
    log: list[Entry] = []
    ports: list[int] = []
    loop = asyncio.get_running_loop()
    serving = loop.create_task(
        serve(echo_config(), {}, log.append, lambda gateway, engine: ports.append(gateway.port))
    )
    await until(lambda: ports, "the server has started")
    os.kill(os.getpid(), signal.SIGHUP)
    await until(lambda: log, "the signal is logged")
    async with open_stream(ports[0]) as client:
        await client.post({"model": "echo/echo", "input": "Hello"})
        assert (await client.rest()).status == 200
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(serving, 10)
    assert (log[0].event, log[0].facts["signal"]) == ("gateway.signal_ignored", "SIGHUP")
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
    async with open_engine(config, {}, lambda entry: None) as engine:
        with pytest.raises(ConfigError, match="api_keys"):
            await GatewayServer(engine, config).start()


async def test_a_stream_that_outlives_the_deadline_ends_with_a_terminal_event() -> None:
    config = echo_config(shutdown_s=0.05, commit_after_s=0.01)
    async with open_engine(config, {}, lambda entry: None) as engine:
        use_upstream(engine, GatedUpstream())
        gateway = GatewayServer(engine, config)
        await gateway.start()
        async with open_stream(gateway.port) as client:
            await client.post({"model": "echo/echo", "input": "Hello", "stream": True})
            await client.event()
            await gateway.stop()
            events = events_of((await client.rest()).body)
        assert not engine.active
    assert events[-1]["type"] == "response.failed"
    assert "restarting" in events[-1]["response"]["error"]["message"]
