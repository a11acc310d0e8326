"""Gateways in a chain respond like one: Messages to the first, Chat Completions to the second,
Responses to the third, and a provider behind it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from antiphon.config import CapsuleConfig, Config, ProviderConfig, StoreConfig, TraceConfig
from tests.e2e.test_state_formats import (
    CLIENTS,
    PROVIDERS,
    ClientThread,
    Reachable,
    StrictProviders,
    gateway_of_all,
    post,
)
from tests.e2e.test_upstream_formats import SCENARIOS
from tests.support.format_judges import FORMATS, Seen
from tests.support.gateways import Running, replaced, running, settings
from tests.support.scripted_providers.session import SESSION
from tests.support.shared_gateway import UVLOOP
from tests.support.upstream import send_frames, upstream


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


def config_of(tmp_path: Path, name: str, kind: str, url: str) -> Config:
    """The configuration of a gateway in front of a server of one kind."""
    directory = tmp_path / name
    directory.mkdir()
    return replaced(
        settings(directory, url),
        providers={"up": ProviderConfig(kind=kind, base_url=url, api_keys=["sk-up"])},
        store=StoreConfig(url="memory://"),
        trace=TraceConfig(enabled=False),
        capsule=CapsuleConfig(keys=[f"the key of {name}"]),
    )


@asynccontextmanager
async def chain(tmp_path: Path, last: Running, prefix: str = "") -> AsyncIterator[Running]:
    """Put two gateways in front of one: the first speaks Chat Completions to the second, the second
    Responses to the last."""
    async with AsyncExitStack() as stack:
        second = await stack.enter_async_context(
            running(config_of(tmp_path, f"second{prefix}", "responses", last.base_url))
        )
        yield await stack.enter_async_context(
            running(config_of(tmp_path, f"first{prefix}", "chat", second.base_url))
        )


async def see(gateway: Running, model: str) -> Seen:
    spoken = FORMATS["messages"]
    body = {"model": model, "stream": True, **spoken.body}
    async with gateway.client.post(gateway.base_url + spoken.path, json=body) as answer:
        data = await answer.read()
        if answer.content_type == "text/event-stream":
            return spoken.see(answer.status, data)
    return Seen(0, "error")


GOOD = ("no usage", "calls that end with stop", "a filtered answer", "an unknown finish reason")
BROKEN = ("a rate limit inside", "unreadable frames", "only an error", "a nameless call")


@pytest.mark.parametrize("name", [*GOOD, *BROKEN])
async def test_a_chain_responds_like_one_gateway(tmp_path: Path, name: str) -> None:
    async with upstream(send_frames(SCENARIOS[name])) as server:
        last = config_of(tmp_path, "last", "chat", server.url)
        async with running(last) as one, chain(tmp_path, one) as first:
            alone = await see(one, "m")
            chained = await see(first, "m")
    assert chained._replace(calls=()) == alone._replace(calls=())
    assert [call[0] for call in chained.calls] == [call[0] for call in alone.calls]
    assert chained.calls == alone.calls


async def play(
    gateway: Reachable, providers: StrictProviders, thread: ClientThread, kind: str
) -> list[str]:
    """Play the session; return the states that did not reach the provider."""
    scripted, model = PROVIDERS[kind]
    lost: list[str] = []
    for index, turn in enumerate(SESSION):
        providers.turn = turn
        providers.received.clear()
        thread.ask(turn, SESSION[index - 1] if index else None)
        body = thread.body(f"up/up/{kind}/{model}")
        status, events = await post(gateway, thread.path, body)
        assert status == 200, events
        thread.read(events)
        raw = providers.received[-1].raw.decode()
        calling = [earlier for earlier in SESSION[:index] if earlier.calls]
        states = [state for earlier in calling for state in scripted.states(earlier)]
        lost += [state for state in states if json.dumps(state)[1:-1] not in raw]
    return lost


@pytest.mark.parametrize("kind", ["anthropic", "gemini", "deepseek", "openai"])
async def test_state_of_the_provider_survives_the_chain(tmp_path: Path, kind: str) -> None:
    async with (
        gateway_of_all(tmp_path, "memory://") as (last, providers),
        chain(tmp_path, last) as first,
    ):
        assert await play(first, providers, CLIENTS["messages"](), kind) == []
