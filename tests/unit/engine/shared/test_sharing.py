"""`[shared]`: what is refused at the start, and two gateways on one Redis."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest

from antiphon.config import AttemptConfig, Config, ProviderConfig, SharedConfig
from antiphon.engine.shared.sharing import check_sharing
from antiphon.errors import ConfigError
from tests.support.gateways import Running, replaced, running, settings
from tests.support.redis_server import redis_server
from tests.support.tables import table
from tests.support.upstream import Connection, ReceivedRequest, send_json, upstream, whole_answer
from tests.support.waiting import until


def test_an_address_that_is_no_redis_is_refused() -> None:
    check_sharing(Config())
    check_sharing(Config(shared=SharedConfig(url="redis://localhost")))
    with pytest.raises(ConfigError, match=r"must begin with redis://, rediss:// or unix://"):
        check_sharing(Config(shared=SharedConfig(url="http://localhost")))


@table(
    "url",
    [
        "redis://:secret@localhost:port/0",
        "redis://:secret@[::1/0",
        "redis://:secret@localhost/0?socket_timeout=soon",
        "redis://:secret@localhost/0?unknown=1",
        "redis://:a@secret/b@localhost/0",
        "redis://user:1/secret@localhost/0",
        "redis://user:1#secret@localhost/0",
    ],
)
def test_an_address_that_cannot_be_read_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigError, match=r"shared\.url: cannot be read") as caught:
        check_sharing(Config(shared=SharedConfig(url=url)))
    assert "secret" not in caught.value.message


def test_options_of_an_address_are_those_of_the_client() -> None:
    for url in ("redis://[::1]:6379/1?health_check_interval=5", "unix:///run/redis.sock?db=1"):
        check_sharing(Config(shared=SharedConfig(url=url)))


def test_the_password_of_the_url_is_not_in_the_log_address() -> None:
    config = SharedConfig(url="rediss://user:secret@cache.example:6380/2?timeout=1")
    assert config.address == "rediss://cache.example:6380/2"
    assert config.password == "secret"
    assert "secret" not in repr(config)


PROVIDERS = ("one", "two", "three")
"""Each has a key that cools down: the shortest time counts, since a machine may be busy."""


def gateway_config(directory: Path, url: str, redis_url: str) -> Config:
    directory.mkdir()
    config = settings(directory, url)
    provider = ProviderConfig(kind="chat", base_url=url, api_keys=["sk-limited", "sk-free"])
    return replaced(
        config,
        default_provider="one",
        providers=dict.fromkeys(PROVIDERS, provider),
        attempts=AttemptConfig(max_attempts=2, backoff_s=0.0),
        shared=SharedConfig(url=redis_url),
    )


def cooling(gateway: Running, provider: str) -> list[str]:
    keyring = gateway.engine.services.health.of(gateway.engine.router.providers[provider]).keyring
    return [key for key in keyring.keys if not keyring.is_ready(key)]


async def test_a_key_that_one_gateway_cools_down_is_cool_in_the_other_within_a_second(
    tmp_path: Path,
) -> None:
    used: list[str] = []

    async def provide(request: ReceivedRequest, connection: Connection) -> None:
        key = request.headers["authorization"].removeprefix("Bearer ")
        used.append(key)
        if key == "sk-limited":
            error = {"error": {"message": "Too many requests.", "type": "rate_limit_error"}}
            await send_json(429, error)(request, connection)
        else:
            await send_json(200, whole_answer("Hello"))(request, connection)

    async with redis_server(tmp_path) as redis, upstream(provide) as server:
        configs = [gateway_config(tmp_path / name, server.url, redis.url) for name in "ab"]
        async with running(configs[0]) as first, running(configs[1]) as second:
            took: list[float] = []
            for name in PROVIDERS:
                body = {"model": f"{name}/m", "input": "Hello?"}
                assert (await first.post(body))[0] == 200
                assert used[-2:] == ["sk-limited", "sk-free"]
                began = time.monotonic()
                known = partial(cooling, second, name)
                await until(lambda known=known: known() == ["sk-limited"], "the key is cool")  # type: ignore[misc]
                took.append(time.monotonic() - began)
            assert min(took) < 1.0, took
            redis.kill()
            used.clear()
            for name in PROVIDERS:
                assert (await second.post({"model": f"{name}/m", "input": "Hello?"}))[0] == 200
            assert used == ["sk-free"] * 3
