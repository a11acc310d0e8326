"""Prompt caches survive translation, for every pair of client format and provider.

A thread grows by six turns. What a provider got for a turn is, to the byte, the beginning of what
it gets for the next one: a changed prefix would be paid again. Breakpoints of caches, which move
with the thread, are compared apart from it.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from tests.e2e.test_state_formats import (
    CLIENTS,
    PROVIDERS,
    ClientThread,
    StrictProviders,
    gateway_of_all,
    post,
)
from tests.support.gateways import Running
from tests.support.scripted_providers.session import SESSION
from tests.support.shared_gateway import UVLOOP

MARKS = re.compile(rb',?"cache_control":\{[^}]*\}|,?\{"cachePoint":\{[^}]*\}\}')
"""Breakpoints of Anthropic and Bedrock."""
NEED_MARKS = {
    "anthropic": b'"cache_control"',
    "bedrock": b'"cachePoint"',
    "openrouter": b'"cache_control"',
}


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


async def grow(
    gateway: Running, providers: StrictProviders, thread: ClientThread, kind: str
) -> list[bytes]:
    """Play the session with one provider; return its requests."""
    _, model = PROVIDERS[kind]
    requests: list[bytes] = []
    for index, turn in enumerate(SESSION):
        providers.turn = turn
        providers.received.clear()
        thread.ask(turn, SESSION[index - 1] if index else None)
        status, events = await post(gateway, thread.path, thread.body(f"{kind}/{model}"))
        assert status == 200, events
        thread.read(events)
        requests.append(providers.received[-1].raw)
    return requests


def without_end(request: bytes) -> bytes:
    """A request as far as its history goes on in the next one."""
    assert request.endswith(b"]}")
    return request[:-2]


@pytest.mark.parametrize("client", CLIENTS)
async def test_the_prefix_of_a_growing_thread_is_stable_for_every_pair(
    tmp_path: Path, client: str
) -> None:
    changed: list[str] = []
    async with gateway_of_all(tmp_path, "memory://") as (gateway, providers):
        for kind in PROVIDERS:
            requests = await grow(gateway, providers, CLIENTS[client](), kind)
            plain = [MARKS.sub(b"", request) for request in requests]
            for number, (earlier, later) in enumerate(pairwise(plain)):
                if not later.startswith(without_end(earlier)):
                    changed.append(f"{kind}: turn {number + 1} changes what was sent before")
            mark = None if client == "messages" else NEED_MARKS.get(kind)  # it has its own
            changed += [
                f"{kind}: no breakpoint" for request in requests if mark and mark not in request
            ]
    assert changed == []
