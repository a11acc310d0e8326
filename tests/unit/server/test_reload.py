"""Reload: validated first, swapped between two requests, and logged."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import (
    Config,
    ProviderConfig,
    ServerConfig,
    StoreConfig,
    load_config,
    parse_config,
)
from antiphon.errors import ConfigError
from antiphon.server.gateway import GatewayProcess
from antiphon.server.http import HTTPRequest
from antiphon.server.reload import WorkerReloading, find_restarts, reload_and_log
from antiphon.server.ui.live import LiveBody
from antiphon.stages.log import Entry
from tests.support.applications import (
    LOCAL,
    OpenApplication,
    document_of,
    echo_config,
    error_of,
    open_application,
)
from tests.support.gateways import replaced
from tests.support.waiting import until
from tests.support.web_sockets import MemorySocket, connected, create_frame


class Source:
    """A configuration file in memory."""

    def __init__(self, config: Config) -> None:
        self.config = config

    def load(self) -> Config:
        return self.config


@asynccontextmanager
async def reloadable(
    config: Config,
) -> AsyncIterator[tuple[OpenApplication, Source, GatewayProcess]]:
    source = Source(config)
    async with open_application(config, source.load) as opened:
        yield opened, source, opened.application.process


def with_alias(name: str, **server: Any) -> Config:
    return replaced(echo_config(**server), models={name: "echo/echo"})


async def test_new_requests_use_the_new_models_and_keys() -> None:
    async with reloadable(with_alias("old", api_keys={"me": "key-1"})) as (
        opened,
        source,
        process,
    ):
        source.config = with_alias("new", api_keys={"you": "key-2"})
        await process.reload()
        old = await opened.create({"authorization": "Bearer key-1"}, model="new")
        assert (old.status, error_of(old)["code"]) == (401, "invalid_api_key")
        new = await opened.create({"authorization": "Bearer key-2"}, model="new")
        assert new.status == 200
        gone = await opened.create({"authorization": "Bearer key-2"}, model="other/old")
        assert gone.status == 404
    entry = opened.log[0]
    assert (entry.event, entry.facts) == ("config.reloaded", {"file": None, "needs_restart": []})


async def test_a_request_whose_body_arrives_later_keeps_the_configuration_it_began_with() -> None:
    reading, arrived = asyncio.Event(), asyncio.Event()

    async def read_body(feed: Callable[[bytes], None]) -> None:
        reading.set()
        await arrived.wait()
        feed(json.dumps({"model": "other/old", "input": "Hello"}).encode())

    config = with_alias("other/old", api_keys={"me": "key-1"})
    async with reloadable(config) as (opened, source, process):
        headers = {**LOCAL, "authorization": "Bearer key-1"}
        http = HTTPRequest("POST", "/v1/responses", headers, "127.0.0.1", read_body)
        answer = asyncio.get_running_loop().create_task(opened.application.handle(http))
        await reading.wait()
        source.config = with_alias("new", api_keys={"me": "key-2"})
        await process.reload()
        arrived.set()
        assert (await answer).status == 200
        later = await opened.create({"authorization": "Bearer key-2"}, model="other/old")
        assert later.status == 404


async def test_a_bad_file_changes_nothing_and_is_reported_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "antiphon.toml"
    path.write_text('default_provider = "echo"\n[models]\nfast = "nobody/nothing"\n')
    async with open_application(with_alias("old"), lambda: load_config(path, {})) as opened:
        process = opened.application.process
        setup = process.setup
        with pytest.raises(ConfigError) as caught:
            await process.reload()
        assert caught.value.message.startswith(f"{path}:3: models.fast: ")
        assert process.setup is setup
        path.write_text("[models\n")
        await reload_and_log(process)
        assert process.setup is setup
    assert [entry.event for entry in opened.log] == ["config.reload_failed"] * 2
    assert opened.log[1].facts["reason"].startswith(f"{path}:1: not valid TOML")


async def test_a_bug_in_a_reload_is_logged_and_not_fatal() -> None:
    def load() -> Config:
        raise RuntimeError("no such luck")

    async with open_application(load=load) as opened:
        await reload_and_log(opened.application.process)
    assert opened.log[0].facts == {"reason": "RuntimeError: no such luck"}


KEY = "sk-0123456789abcdef"


async def test_keys_cannot_be_removed_from_a_gateway_that_others_reach() -> None:
    open_to_all = echo_config(host="0.0.0.0", api_keys={"me": KEY})
    async with reloadable(open_to_all) as (opened, source, process):
        source.config = echo_config(host="127.0.0.1")
        with pytest.raises(ConfigError, match="api_keys"):
            await process.reload()
        assert opened.application.process.setup.server.api_keys == {"me": KEY}


def test_settings_that_need_a_restart_are_named() -> None:
    changed = Config(
        server=ServerConfig(port=1, locale="de"), store=StoreConfig(ttl_s=5), models={"a": "b/c"}
    )
    assert find_restarts(Config(), changed) == ["server.port", "store"]


async def test_the_next_request_of_a_websocket_uses_the_new_configuration() -> None:
    async with (
        reloadable(with_alias("other/old")) as (opened, source, process),
        connected(opened) as socket,
    ):
        source.config = with_alias("other/new")
        await process.reload()
        socket.put(create_frame("Hello", model="other/new"))
        await until(lambda: socket.ends() == 1, "the end of the response")
    assert socket.sent[-1]["response"]["output_text"] == "Hello"


def _closed(socket: MemorySocket) -> bool:
    return socket.closed is not None


async def test_a_websocket_is_closed_when_its_key_is_removed() -> None:
    async with (
        reloadable(echo_config()) as (opened, source, process),
        connected(opened) as socket,
    ):
        source.config = echo_config(api_keys={"me": "key-1"})
        await process.reload()
        await until(lambda: _closed(socket), "the connection is closed")
    assert socket.closed == (1001, "The API key of this connection was removed.")


async def test_a_websocket_stays_open_with_the_same_key() -> None:
    async with reloadable(echo_config()) as (opened, _, process), connected(opened) as socket:
        await process.reload()
        socket.put(create_frame("Hello"))
        await until(lambda: socket.ends() == 1, "the end of the response")
        assert not _closed(socket)


async def test_the_model_list_changes_with_the_configuration() -> None:
    async with reloadable(with_alias("old")) as (opened, source, process):
        source.config = with_alias("new")
        await process.reload()
        listed = document_of(await opened.request("GET", "/v1/models"))
    names = [model["id"] for model in listed["data"]]
    assert "new" in names
    assert "old" not in names


async def test_the_page_and_its_key_are_those_of_the_new_configuration() -> None:
    async with reloadable(with_alias("old")) as (opened, source, process):
        live = await opened.request("GET", "/ui/api/live")
        source.config = with_alias("new", admin_key="sk-admin")
        await process.reload()
        assert isinstance(live.body, LiveBody)
        assert [data async for data in live.body] == [b": keep-alive\n\n"]  # ended, not refused
        refused = await opened.request("GET", "/ui/api/models")
        assert (refused.status, error_of(refused)["code"]) == (401, "invalid_api_key")
        key = {**LOCAL, "authorization": "Bearer sk-admin"}
        shown = document_of(await opened.request("GET", "/ui/api/models", headers=key))
    names = [model["name"] for model in shown["models"]]
    assert "new" in names
    assert "old" not in names


async def test_metrics_show_the_engine_in_effect() -> None:
    async with reloadable(with_alias("old")) as (opened, source, process):
        await process.start()
        lab = ProviderConfig(kind="chat", base_url="http://lab.test/v1", api_keys=["sk-1"])
        source.config = replaced(with_alias("new"), providers={"lab": lab})
        await process.reload()
        engine = process.setup.engine
        engine.services.health.of(engine.router.providers["lab"]).keyring.cool_down("sk-1", 60.0)
        shown = await opened.request("GET", "/metrics")
    assert isinstance(shown.body, bytes)
    assert b'antiphon_keys_resting{provider="lab"} 1.0' in shown.body


async def test_a_worker_validates_the_file_and_asks_its_parent() -> None:
    texts = ["[models\n", '[server]\nhost = "0.0.0.0"\n', ""]
    asked: list[str] = []
    log: list[Entry] = []

    def load() -> Config:
        return parse_config(texts.pop(0), {}, name="team.toml")

    async with open_application() as opened:
        process = opened.application.process
        worker = WorkerReloading(load, lambda: asked.append("the parent"), log.append)
        with pytest.raises(ConfigError, match=r"team\.toml"):
            await worker.reload(process)
        with pytest.raises(ConfigError, match="no \\[server\\] api_keys"):
            await worker.reload(process)
        assert (asked, [entry.event for entry in log]) == ([], ["config.reload_failed"] * 2)
        reloaded = await worker.reload(process)
    assert (reloaded.file, reloaded.replaces_workers, asked) == ("team.toml", True, ["the parent"])
