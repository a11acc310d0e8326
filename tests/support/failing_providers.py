"""Two scripted providers with faults behind one gateway, and a fake clock.

`one` has two keys, `two` has one; a model of `one` may fall back to the same model of `two`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import (
    AttemptConfig,
    ModelConfig,
    ProviderConfig,
    StoreConfig,
    TimeoutConfig,
    TraceConfig,
)
from antiphon.engine.runtime import Runtime
from tests.support.client_answers import Answer, post_request
from tests.support.gateways import Running, replaced, running, settings
from tests.support.traces import read_trace
from tests.support.upstream import (
    HELLO_WORLD,
    Connection,
    ReceivedRequest,
    Script,
    Upstream,
    send_frames,
    send_json,
    upstream,
    whole_answer,
)

A, B, TWO = ("one", "sk-one-a"), ("one", "sk-one-b"), ("two", "sk-two-a")
KEYS: Mapping[str, Sequence[str]] = {"one": ("sk-one-a", "sk-one-b"), "two": ("sk-two-a",)}
FALLBACKS = {"one/m": ["two/m"]}
NO_FALLBACKS: Mapping[str, Sequence[str]] = {}
STREAMED_AND_WHOLE = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
POLICY = AttemptConfig(backoff_s=1.0)


class Clock:
    """Fake clock of the gateway: advanced by its sleeps and by the test."""

    def __init__(self, *, jitter: float = 1.0) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        self._jitter = jitter
        self._awake = asyncio.Event()
        self._awake.set()

    def __call__(self) -> float:
        return self.now

    def freeze(self) -> None:
        """Block every later sleep until `resume`."""
        self._awake.clear()

    def resume(self) -> None:
        self._awake.set()

    async def sleep(self, seconds: float) -> None:
        if seconds:
            self.slept.append(seconds)
            await self._awake.wait()
        self.now += seconds

    def runtime(self) -> Runtime:
        return Runtime(monotonic=self, sleep=self.sleep, random=lambda: self._jitter)


async def answer_hello(request: ReceivedRequest, connection: Connection) -> None:
    """Answer well, streamed or whole as requested."""
    if request.body.get("stream"):
        await send_frames(HELLO_WORLD)(request, connection)
    else:
        await send_json(200, whole_answer("Hello, world"))(request, connection)


def error(status: int, message: str = "No.", /, **more: Any) -> Script:
    """An error in the common shape; `retry_after` is a header of it."""
    headers = {name: str(more.pop(name)) for name in ("retry_after",) if name in more}
    return send_json(status, {"error": {"message": message, **more}}, **headers)


class ScriptQueue:
    """Runs one script for each request; after the last one, answers well."""

    def __init__(self, *scripts: Script) -> None:
        self._scripts = list(scripts)

    def append(self, *scripts: Script) -> None:
        self._scripts += scripts

    async def __call__(self, request: ReceivedRequest, connection: Connection) -> None:
        await (self._scripts.pop(0) if self._scripts else answer_hello)(request, connection)


@dataclass
class FailoverGateway:
    """A gateway, its providers and its clock."""

    gateway: Running
    clock: Clock
    trace: Path
    _upstreams: Mapping[str, Upstream]
    _queues: Mapping[str, ScriptQueue]
    _order: list[tuple[str, str]]

    def add_scripts(self, provider: str, *scripts: Script) -> None:
        """Add scripts for the next requests to a provider."""
        self._queues[provider].append(*scripts)

    async def post_request(self, **body: Any) -> Answer:
        return await post_request(self.gateway, {"model": "one/m", "input": "Hello?", **body})

    @property
    def new_calls(self) -> list[tuple[str, str]]:
        """Provider and key of each request since the last read of this property."""
        new_calls = [*self._order]
        self._order.clear()
        return new_calls

    def sent(self, provider: str = "one") -> list[dict[str, Any]]:
        """The request bodies that a provider received."""
        return [asked.body for asked in self._upstreams[provider].requests]


@asynccontextmanager
async def failover_gateway(
    tmp_path: Path,
    one: Sequence[Script] = (),
    two: Sequence[Script] = (),
    *,
    policy: AttemptConfig = POLICY,
    keys: Mapping[str, Sequence[str]] = KEYS,
    fallbacks: Mapping[str, Sequence[str]] = FALLBACKS,
    windows: Mapping[str, int] | None = None,
    urls: Mapping[str, str] | None = None,
    timeouts: Mapping[str, TimeoutConfig] | None = None,
    payloads: bool = False,
    clock: Clock | None = None,
    kind: str = "chat",
    **server: Any,
) -> AsyncIterator[FailoverGateway]:
    clock = clock or Clock()
    queues = {"one": ScriptQueue(*one), "two": ScriptQueue(*two)}
    order: list[tuple[str, str]] = []

    def record_calls(name: str) -> Script:
        async def script(request: ReceivedRequest, connection: Connection) -> None:
            order.append((name, request.headers.get("authorization", "").removeprefix("Bearer ")))
            await queues[name](request, connection)

        return script

    async with AsyncExitStack() as stack:
        upstreams = {
            name: await stack.enter_async_context(upstream(record_calls(name))) for name in queues
        }
        providers = {
            name: ProviderConfig(
                kind=kind,
                base_url=(urls or {}).get(name, each.url),
                api_keys=list(keys[name]),
                timeouts=(timeouts or {}).get(name, TimeoutConfig()),
                models={"m": ModelConfig(context_window=(windows or {}).get(name))},
            )
            for name, each in upstreams.items()
        }
        config = replaced(
            settings(tmp_path, "http://unused.invalid", **server),
            default_provider="one",
            providers=providers,
            fallbacks={name: list(following) for name, following in fallbacks.items()},
            attempts=policy,
            store=StoreConfig(url="memory://"),
            trace=TraceConfig(path=str(tmp_path / "trace.db"), payloads=payloads),
        )
        gateway = await stack.enter_async_context(running(config, clock.runtime()))
        yield FailoverGateway(gateway, clock, tmp_path / "trace.db", upstreams, queues, order)


def read_attempts(
    failover_gateway: FailoverGateway, answer: Answer
) -> list[tuple[int, str, str | None, str | None]]:
    """Read the attempts of a request from the trace: number, provider, key and fault."""
    detail = read_trace(failover_gateway.trace, answer.headers["x-request-id"])
    return [
        (attempt.number, attempt.provider, attempt.key_name, attempt.fault_type)
        for attempt in detail.attempts
    ]
