"""`[shared]`: what is refused at the start, and two gateways on one Redis."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from antiphon.config import AttemptConfig, Config, ProviderConfig, SharedConfig
from antiphon.engine.shared.sharing import check_sharing
from antiphon.errors import ConfigError
from tests.support.gateways import Running, replaced, running, settings
from tests.support.redis_server import redis_server
from tests.support.upstream import Connection, ReceivedRequest, send_json, upstream, whole_answer
from tests.support.waiting import until


def test_an_address_that_is_no_redis_is_refused() -> None:
    check_sharing(Config())
    check_sharing(Config(shared=SharedConfig(url="redis://localhost")))
    with pytest.raises(ConfigError, match=r"must begin with redis://, rediss:// or unix://"):
        check_sharing(Config(shared=SharedConfig(url="http://localhost")))


def test_the_password_of_the_url_is_not_in_the_log_address() -> None:
    config = SharedConfig(url="rediss://user:secret@cache.example:6380/2?timeout=1")
    assert config.address == "rediss://cache.example:6380/2"
    assert config.password == "secret"
    assert "secret" not in repr(config)


def gateway_config(directory: Path, url: str, redis_url: str) -> Config:
    directory.mkdir()
    config = settings(directory, url)
    keys = ["sk-one", "sk-two"]
    return replaced(
        config,
        providers={"up": ProviderConfig(kind="chat", base_url=url, api_keys=keys)},
        attempts=AttemptConfig(max_attempts=2, backoff_s=0.0),
        shared=SharedConfig(url=redis_url),
    )


def cooling(gateway: Running) -> list[str]:
    keyring = gateway.engine.services.health.of(gateway.engine.router.providers["up"]).keyring
    return [key for key in keyring.keys if not keyring.is_ready(key)]


async def test_a_key_that_one_gateway_cools_down_is_cool_in_the_other_within_a_second(
    tmp_path: Path,
) -> None:
    used: list[str] = []

    async def provider(request: ReceivedRequest, connection: Connection) -> None:
        key = request.headers["authorization"].removeprefix("Bearer ")
        used.append(key)
        if key == "sk-one":
            error = {"error": {"message": "Too many requests.", "type": "rate_limit_error"}}
            await send_json(429, error)(request, connection)
        else:
            await send_json(200, whole_answer("Hello"))(request, connection)

    async with redis_server(tmp_path) as redis, upstream(provider) as server:
        configs = [gateway_config(tmp_path / name, server.url, redis.url) for name in "ab"]
        async with running(configs[0]) as first, running(configs[1]) as second:
            body = {"model": "up/m", "input": "Hello?"}
            assert (await first.post(body))[0] == 200
            assert used == ["sk-one", "sk-two"]
            async with asyncio.timeout(1.0):
                await until(lambda: cooling(second) == ["sk-one"], "the key is cool")
            redis.kill()
            for _ in range(3):
                assert (await second.post(body))[0] == 200
            assert used[2:] == ["sk-two"] * 3
