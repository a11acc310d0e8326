"""Attempts: one call of a provider, and the calls of a run one after the other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import msgspec
import pytest

from antiphon.config import AttemptConfig, StoreConfig, TimeoutConfig
from antiphon.core.diagnostic import Code, Diagnostic, degraded
from antiphon.core.events import Completed, Event, Failed
from antiphon.core.faults.fault import ProviderFault, shutdown_fault
from antiphon.core.filters.filter import FollowUp
from antiphon.core.plan.plan import Outbound
from antiphon.core.response import Response
from antiphon.core.stream.source import Source
from antiphon.core.translation.next_step import Round
from antiphon.core.translation.translation import Translation, make_translation
from antiphon.engine.attempts import Attempt, Attempts
from antiphon.engine.retry import NextAttempt
from antiphon.engine.routing import Target
from antiphon.engine.runtime import Releases, Runtime
from antiphon.engine.services import Caller, Services, make_trace
from antiphon.engine.upstream import EchoUpstream, HTTPUpstream
from antiphon.errors import UpstreamError
from antiphon.server.wiring import open_engine
from tests.support.gateways import replaced, settings
from tests.support.machines import counting_ids
from tests.support.outbound_requests import configured, make_request_plan
from tests.support.request_body import parse_body
from tests.support.upstream import (
    HELLO_WORLD,
    Connection,
    ReceivedRequest,
    Script,
    send_frames,
    send_json,
    upstream,
    whole_answer,
)

TARGET = Target(configured("chat"), "m")
PLAN = make_request_plan(TARGET.provider, TARGET.model)
OUTBOUND = Outbound(path="/chat/completions", body=b"{}")


def translation() -> Translation:
    response = Response(id="resp_1", created_at=0, model="m")
    source = Source(TARGET.provider.dialect)
    return make_translation(PLAN, source, response, new_id=counting_ids(), now=lambda: 0)


class Log:
    """Keeps the faults of connections that broke after the finish reason."""

    def __init__(self) -> None:
        self.lost: list[ProviderFault] = []

    def lost_after_finish(self, fault: ProviderFault, translation: Translation) -> None:
        self.lost.append(fault)


LOG = Log()


def make_attempt(target: Target, client: HTTPUpstream | EchoUpstream) -> Attempt:
    return Attempt(NextAttempt(1, target, "sk-key"), PLAN, OUTBOUND, client)


# One call


@asynccontextmanager
async def attempt_at(script: Script, idle_s: float = 60) -> AsyncIterator[Attempt]:
    client = HTTPUpstream()
    async with upstream(script) as server:
        provider = configured("chat", base_url=server.url, timeouts=TimeoutConfig(idle_s=idle_s))
        attempt = make_attempt(Target(provider, "m"), client)
        try:
            yield attempt
        finally:
            attempt.close()
            await client.close()


async def test_latency_is_measured_up_to_the_response_head_and_each_read_gives_events() -> None:
    times = iter([10.0, 10.25])
    async with attempt_at(send_frames(HELLO_WORLD)) as attempt:
        assert await attempt.open(lambda: next(times)) == 250.0
        assert attempt.status == 200
        assert not attempt.is_whole
        subject = translation()
        events: list[Event] = []
        while not subject.machine.has_ended:
            events += await attempt.read(subject, LOG)
    assert isinstance(events[-1], Completed)


@pytest.mark.parametrize(
    "script", [send_json(200, whole_answer("Hello, world")), send_frames(HELLO_WORLD)]
)
async def test_a_whole_response_may_be_json_or_a_stream(script: Script) -> None:
    async with attempt_at(script) as attempt:
        await attempt.open(lambda: 0.0)
        ending = (await attempt.read_whole(translation()))[-1]
    assert isinstance(ending, Completed)
    assert ending.response.output_text == "Hello, world"


async def test_a_json_body_is_a_whole_response() -> None:
    async with attempt_at(send_json(200, {"choices": []})) as attempt:
        await attempt.open(lambda: 0.0)
        assert attempt.is_whole


async def test_an_error_status_raises_the_fault_of_its_body() -> None:
    script = send_json(429, {"error": {"message": "slow down"}}, retry_after="7")
    async with attempt_at(script) as attempt:
        with pytest.raises(UpstreamError) as caught:
            await attempt.open(lambda: 0.0)
        assert attempt.status == 429
    assert (caught.value.fault.status, caught.value.fault.retry_after_s) == (429, 7.0)


async def send_head_and_wait(request: ReceivedRequest, client: Connection) -> None:
    await client.head()
    await client.wait_disconnected()


async def test_a_provider_that_sends_nothing_is_disconnected() -> None:
    async with attempt_at(send_head_and_wait, idle_s=0.05) as attempt:
        await attempt.open(lambda: 0.0)
        attempt.watch_idle(finishing=False)
        assert isinstance((await attempt.read(translation(), LOG))[-1], Failed)
        assert attempt.fault is not None
        assert attempt.fault.code == "idle_timeout"


async def test_a_slow_client_is_not_an_idle_provider() -> None:
    async with attempt_at(send_head_and_wait, idle_s=0.01) as attempt:
        await attempt.open(lambda: 0.0)
        attempt.watch_idle(finishing=False)
        await asyncio.sleep(0.05)
        assert attempt.fault is None


async def test_stopping_ends_a_pending_read_with_the_fault() -> None:
    async with attempt_at(send_head_and_wait) as attempt:
        await attempt.open(lambda: 0.0)
        subject = translation()
        reading = asyncio.create_task(attempt.read(subject, LOG))
        await asyncio.sleep(0)
        attempt.stop(shutdown_fault())
        assert isinstance((await reading)[-1], Failed)
        assert subject.machine.fault == shutdown_fault()


async def test_an_attempt_that_was_never_opened_can_be_closed() -> None:
    attempt = make_attempt(TARGET, EchoUpstream())
    attempt.expect_end()
    attempt.close()
    assert attempt.status is None


# The calls of a run


@asynccontextmanager
async def attempts_of(
    tmp_path: Path, runtime: Runtime | None = None
) -> AsyncIterator[tuple[Attempts, Services]]:
    body = b'{"model": "echo/echo", "input": "Hello", "stream": true}'
    config = replaced(
        settings(tmp_path), store=StoreConfig(url="memory://"), attempts=AttemptConfig(backoff_s=0)
    )
    async with open_engine(config, {}, lambda entry: None, runtime) as engine:
        prepared = await engine.prepare(parse_body(body), Caller("local", "req_1"))
        services = engine.services
        yield Attempts(services, prepared, make_trace(services, prepared)), services


def keys_in_use(services: Services) -> int:
    return sum(number for each in services.health for number in each.keyring.active.values())


async def test_attempts_hold_one_key_from_acquire_to_the_end(tmp_path: Path) -> None:
    async with attempts_of(tmp_path) as (attempts, services):
        assert keys_in_use(services) == 0
        with closing(Releases()) as held:
            attempts.acquire(held)
            assert keys_in_use(services) == 1
            attempt = await attempts.encode()
            await attempts.send(attempt)
            assert attempts.current is attempt
            assert json.loads(attempts.sent_body)["model"] == "echo"
        assert keys_in_use(services) == 0


async def test_the_next_call_has_the_next_number_and_no_request_yet(tmp_path: Path) -> None:
    async with attempts_of(tmp_path) as (attempts, services):
        with closing(Releases()) as held:
            attempts.acquire(held)
            await attempts.encode()
            busy = TARGET.provider.dialect.classify(503, {}, b"{}")
            await attempts.begin_retry(attempts.choose_next(UpstreamError(busy)))
            assert attempts.current is None
            assert attempts.make_report(0.0).number == 2
            assert keys_in_use(services) == 1


async def test_what_comes_before_the_first_request_takes_no_time_from_its_attempts(
    tmp_path: Path,
) -> None:
    """Calls of MCP servers, and the compaction of the context: `max_s` is for attempts."""
    now = [0.0]
    runtime = Runtime(monotonic=lambda: now[0])
    listed = Round(follow_up=FollowUp(steps=()), items=(), is_required=True)
    busy = UpstreamError(TARGET.provider.dialect.classify(503, {}, b"{}"))

    async def compact() -> Diagnostic:
        return degraded(Code.CONTEXT_NOT_COMPACTED, "context_management", "")

    steps: tuple[Callable[[Attempts], Awaitable[object]], ...] = (
        lambda attempts: attempts.begin_round(listed, is_first=True),
        lambda attempts: attempts.compact_context(compact),
    )
    for step in steps:
        async with attempts_of(tmp_path, runtime) as (attempts, _):
            with closing(Releases()) as held:
                attempts.acquire(held)
                now[0] += AttemptConfig().max_s + 1
                await step(attempts)
                await attempts.encode()
                assert attempts.choose_next(busy).attempt.number == 2


async def test_a_key_that_was_told_to_rest_during_the_compaction_is_left_alone(
    tmp_path: Path,
) -> None:
    async def compact() -> Diagnostic:
        keyring.cool_down("sk-one", 60)
        return degraded(Code.CONTEXT_NOT_COMPACTED, "context_management", "")

    config = settings(tmp_path, "http://127.0.0.1:9")
    provider = msgspec.structs.replace(config.providers["up"], api_keys=["sk-one", "sk-two"])
    config = replaced(config, providers={"up": provider})
    async with open_engine(config, {}, lambda entry: None) as engine:
        services = engine.services
        request = parse_body(b'{"model": "up/m", "input": "Hello", "stream": true}')
        prepared = await engine.prepare(request, Caller("local", "req_1"))
        keyring = services.health.of(prepared.targets[0].provider).keyring
        attempts = Attempts(services, prepared, make_trace(services, prepared))
        with closing(Releases()) as held:
            attempts.acquire(held)
            assert attempts.chosen.key == "sk-one"
            assert await attempts.compact_context(compact) is not None
            assert attempts.chosen.key == "sk-two"
            assert keyring.active == {"sk-one": 0, "sk-two": 1}


async def test_a_stop_is_the_end_of_all_calls(tmp_path: Path) -> None:
    async with attempts_of(tmp_path) as (attempts, _):
        with closing(Releases()) as held:
            attempts.acquire(held)
            await attempts.encode()
            asyncio.get_running_loop().call_soon(attempts.stop, shutdown_fault())
            with pytest.raises(TimeoutError), attempts.limit_time(None):
                await asyncio.Event().wait()
            busy = UpstreamError(TARGET.provider.dialect.classify(503, {}, b"{}"))
            with pytest.raises(UpstreamError) as caught:
                attempts.choose_next(busy)
            assert caught.value is busy
            assert attempts.stopped == shutdown_fault()
