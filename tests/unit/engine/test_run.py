"""Run: whatever raises, and wherever, everything that a run acquired is released.

The steps are enumerated: a profiler hook raises at the first, second, third … call of a project
function, from the creation of the run to its end, until a run goes through without a fault.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import FrameType
from typing import TypeVar

import msgspec
import pytest

import antiphon
from antiphon.config import AttemptConfig, StoreConfig
from antiphon.core.diagnostic import Diagnostic
from antiphon.core.events import Completed, Created, Event, Failed, InProgress
from antiphon.core.faults.fault import internal_fault, shutdown_fault
from antiphon.core.plan.plan import Outbound
from antiphon.core.request import Request
from antiphon.core.response import Response
from antiphon.engine.engine import Engine
from antiphon.engine.health import ProviderHealth
from antiphon.engine.run import Run, State
from antiphon.engine.runtime import Runtime, WorkerThread
from antiphon.engine.services import Caller
from antiphon.engine.upstream import EchoUpstream, UpstreamResponse
from antiphon.errors import UpstreamError
from antiphon.providers.registry import Provider
from antiphon.server.wiring import open_engine
from antiphon.stages.log import Entry
from antiphon.stages.pipeline import terminal
from antiphon.store.store import Turn
from antiphon.store.trace import reader
from tests.support.gateways import replaced, settings
from tests.support.machines import counting_ids
from tests.support.request_body import parse_body
from tests.support.upstream import (
    HELLO,
    HELLO_WORLD,
    Connection,
    ReceivedRequest,
    Upstream,
    frame,
    send_frames,
    send_json,
    upstream,
)

T = TypeVar("T")
SOURCE = str(Path(antiphon.__file__).parent)
CALLER = Caller("somebody", "req_1")
# What the issue names; each must be among the calls at which a fault is injected.
STEPS = {
    "plan": "core/plan/planner.py:plan",
    "encode": "dialects/chat/encode.py:encode",
    "open": "engine/attempts.py:open",
    "first byte": "engine/attempts.py:has_output",
    "mid-stream": "engine/attempts.py:read",
    "filter": "core/filters/simple_filters.py:feed",
    "stage": "stages/builtin.py:on_terminal",
    "save": "store/sqlite/store.py:save",
    "close": "engine/run.py:__aexit__",
}
EXITS = (STEPS["close"], "engine/runtime.py:close")
# Inside `__aexit__`, the resource whose own release is interrupted may stay; no other may.
RELEASES = {
    "engine/health.py": "key",
    "engine/attempts.py:_release_key": "key",
    "engine/attempts.py": "upstream",
    "engine/runtime.py": "upstream",
    "engine/services.py": "active",
}


class Injected(Exception):
    """The fault that is injected."""


class Unguarded(Exception):
    """The fault has left the methods for a stream, which make an end of the response of it."""


class CountedAnswer:
    """An answer that counts itself as open until it is closed."""

    def __init__(self, answer: UpstreamResponse, upstream: CountedUpstream) -> None:
        self._answer = answer
        self._upstream = upstream
        self.status = answer.status
        self.headers: Mapping[str, str] = answer.headers
        upstream.open_answers.add(self)

    async def next(self) -> bytes:
        return await self._answer.next()

    async def read(self) -> bytes:
        return await self._answer.read()

    def close(self) -> None:
        self._upstream.open_answers.discard(self)
        self._answer.close()


class CountedUpstream(EchoUpstream):
    def __init__(self) -> None:
        super().__init__()
        self.open_answers: set[CountedAnswer] = set()

    async def open(self, provider: Provider, outbound: Outbound, key: str) -> UpstreamResponse:
        return CountedAnswer(await super().open(provider, outbound, key), self)


class Bench:
    """An engine whose only provider has a half-open circuit, and what its runs left behind."""

    def __init__(self, engine: Engine, upstream: CountedUpstream, runtime: Runtime) -> None:
        self.engine = engine
        self.upstream = upstream
        [provider] = [engine.router.resolve("echo/echo").provider]
        self.health: ProviderHealth = engine.services.health.of(provider)

    def open_circuit(self) -> None:
        """Make the next run a trial: `breaker_rest_s` is 0 here."""
        self.health.breaker.record_failure()
        assert not self.health.breaker.is_closed

    def left(self) -> set[str]:
        found = {
            "key": any(self.health.keyring.active.values()) or self.health.breaker.in_trial,
            "upstream": bool(self.upstream.open_answers),
            "active": bool(self.engine.active),
        }
        return {name for name, is_left in found.items() if is_left}

    def clean(self) -> None:
        """Give back what an interrupted release left, so that the next run starts anew."""
        for key, number in self.health.keyring.active.items():
            for _ in range(number):
                self.health.keyring.release(key)
        self.health.breaker.end_trial()
        self.upstream.open_answers.clear()
        self.engine.active._runs.clear()


@asynccontextmanager
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    attempts = AttemptConfig(max_attempts=1, breaker_threshold=1, breaker_rest_s=0.0)
    store = StoreConfig(url="memory://")
    config = replaced(settings(tmp_path), attempts=attempts, store=store)
    # Random ids are drawn in batches: a run that draws one would have another number of calls.
    runtime = Runtime(new_id=counting_ids())
    async with open_engine(config, {}, lambda entry: None, runtime) as engine:
        upstream = CountedUpstream()
        engine.services = dataclasses.replace(engine.services, in_process=upstream)
        engine.services.accounting.queue_observers.clear()  # usage is written in the background
        yield Bench(engine, upstream, runtime)


class Injector:
    """Raises at the call with this number, and remembers where that was."""

    def __init__(self, number: int) -> None:
        self._left = number
        self.at = ""
        self.in_exit = False

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(SOURCE):
            return
        if frame.f_code.co_name == "<genexpr>":  # also called to be closed, where nothing may raise
            return
        self._left -= 1
        if self._left > 0 or self.at:
            return
        callers = _list_callers(frame)
        if drive.__name__ not in callers:  # a timer of something else, on a slow machine
            return
        self.at = f"{name[len(SOURCE) + 1 :]}:{frame.f_code.co_name}"
        self.in_exit = "__aexit__" in callers
        raise Injected


def _list_callers(frame: FrameType) -> list[str]:
    names: list[str] = []
    outer: FrameType | None = frame
    while outer is not None:
        names.append(outer.f_code.co_name)
        outer = outer.f_back
    return names


async def drive(
    engine: Engine, request: Request, caller: Caller = CALLER
) -> list[Event] | Response:
    """Read one answer as the server does."""
    events: list[Event] = []
    async with await engine.create(request, caller) as run:
        try:
            if not request.stream:
                return await run.response()
            await run.open()
            while batch := await run.next_events():
                events += batch
        except Injected as error:
            raise Unguarded from error
    return events


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_an_exception_at_any_call_leaves_nothing_acquired(
    tmp_path: Path, *, stream: bool
) -> None:
    body = {"model": "echo/echo", "input": "Hello there", "stream": stream}
    request = parse_body(msgspec.json.encode(body))
    places: list[str] = []
    may_stay_open: set[str] = set()
    unguarded: list[str] = []
    async with bench(tmp_path) as subject:
        await drive(subject.engine, request)  # imports and caches are made now
        while True:
            subject.open_circuit()
            injector = Injector(len(places) + 1)
            sys.setprofile(injector)
            try:
                caller = Caller("somebody", f"req_{len(places)}")  # each has its own trace row
                seen = await drive(subject.engine, request, caller)
            except (Injected, UpstreamError):
                seen = []
            except Unguarded:
                seen = []
                unguarded.append(injector.at)
            finally:
                sys.setprofile(None)
            if not injector.at:
                break
            if _interrupts_trace(injector):
                may_stay_open.add(f"req_{len(places)}")
            places.append(injector.at)
            file = injector.at.partition(":")[0]
            released = RELEASES.get(injector.at, RELEASES.get(file, ""))
            allowed = {released} if injector.in_exit else set()
            if injector.at in EXITS:  # nothing can be released before the first line runs
                allowed = {"key", "upstream", "active"}
            assert subject.left() <= allowed, injector.at
            if isinstance(seen, list) and seen:
                assert terminal(seen) is not None, injector.at
                assert sum(terminal([event]) is not None for event in seen) == 1, injector.at
            subject.clean()
    wanted = STEPS if stream else {k: v for k, v in STEPS.items() if k not in _STREAM_ONLY}
    assert set(wanted.values()) <= set(places)
    assert set(unguarded) <= GUARDS
    left_open = {places[int(name[4:])] for name in unfinished(tmp_path) - may_stay_open}
    assert left_open == set()
    assert len(may_stay_open) < 40, "only interruptions of the trace itself"


GUARDS = {
    "engine/run.py:open",
    "engine/run.py:next_events",
    "engine/run.py:response",
    "engine/output.py:pass_on_or_fail",
    "engine/output.py:take_unread",
    "engine/output.py:count_events",
}
"""What catches every exception on the way to a reader, and the two steps that it consists of."""
_STREAM_ONLY = {"first byte", "mid-stream", "filter"}  # a whole text passes no filter


def _interrupts_trace(injector: Injector) -> bool:
    """Whether the end of the trace row itself is interrupted, so that it cannot be written."""
    files = (
        "engine/tracing.py",
        "engine/report.py",
        "engine/accounting.py",
        "store/trace/",
        "engine/runtime.py",
    )
    return injector.at == STEPS["close"] or (injector.in_exit and injector.at.startswith(files))


def unfinished(tmp_path: Path) -> set[str]:
    """Ids of the requests in the trace that never ended."""
    rows = reader.list_requests(tmp_path / "trace.db", limit=100_000)
    return {row.request.request_id for row in rows if row.finish is None}


async def test_a_run_acquires_nothing_before_it_is_entered(tmp_path: Path) -> None:
    request = parse_body(b'{"model": "echo/echo", "input": "Hello"}')
    async with bench(tmp_path) as subject:
        subject.open_circuit()
        run = await subject.engine.create(request, CALLER)
        assert run.state.value == State.PREPARED.value
        assert subject.left() == set()
        async with run:
            assert subject.left() == {"key", "active"}
            assert (await run.response()).status == "completed"
        assert run.state.value == State.ENDED.value
        assert subject.left() == set()
    assert unfinished(tmp_path) == set()


async def test_a_run_that_is_left_early_releases_everything(tmp_path: Path) -> None:
    request = parse_body(b'{"model": "echo/echo", "input": "Hello there", "stream": true}')
    async with bench(tmp_path) as subject:
        subject.open_circuit()
        async with await subject.engine.create(request, CALLER) as run:
            await run.open()
            assert run.state is State.STREAMING
            assert "upstream" in subject.left()
        assert subject.left() == set()
    assert unfinished(tmp_path) == set()


async def test_a_run_leaves_what_it_holds_the_last_one_first(tmp_path: Path) -> None:
    request = parse_body(b'{"model": "echo/echo", "input": "Hello"}')
    steps: list[str] = []

    @contextmanager
    def context(name: str) -> Iterator[None]:
        steps.append(f"{name} entered")
        yield
        steps.append(f"{name} left")

    async with bench(tmp_path) as subject:
        run = await subject.engine.create(request, CALLER)
        run.hold(context("first"))
        assert steps == ["first entered"]
        async with run:
            run.hold(context("second"))
            await run.response()
            assert steps == ["first entered", "second entered"]
    assert steps[2:] == ["second left", "first left"]


async def test_a_response_that_was_begun_early_is_begun_once(tmp_path: Path) -> None:
    request = parse_body(b'{"model": "echo/echo", "input": "Hello there", "stream": true}')
    async with bench(tmp_path) as subject, await subject.engine.create(request, CALLER) as run:
        assert [type(event) for event in run.start()] == [Created, InProgress]
        await run.open()
        events: list[Event] = []
        while batch := await run.next_events():
            events += batch
    assert not any(isinstance(event, Created | InProgress) for event in events)
    assert terminal(events) is not None


async def test_an_unexpected_error_ends_the_response_once(tmp_path: Path) -> None:
    request = parse_body(b'{"model": "echo/echo", "input": "Hello there", "stream": true}')
    async with bench(tmp_path) as subject, await subject.engine.create(request, CALLER) as run:
        await run.open()
        events = await run.fail(internal_fault(ValueError("a bug")))
        assert [type(event) for event in events[-1:]] == [Failed]
        events = await run.fail(internal_fault(ValueError("again")))
        assert [type(event) for event in events] == [Failed]


async def test_a_bug_in_the_store_loses_the_stored_turn_and_not_the_response(
    tmp_path: Path,
) -> None:
    async def save(turn: Turn, events: list[Event]) -> list[Event]:
        raise KeyError("a bug")

    log: list[Entry] = []
    async with open_engine(replaced(settings(tmp_path)), {}, log.append) as engine:
        for stream in (True, False):
            body = {"model": "echo/echo", "input": "Hello there", "stream": stream}
            prepared = await engine.prepare(parse_body(msgspec.json.encode(body)), CALLER)
            async with Run(engine.services, prepared, save=save) as run:
                if stream:
                    await run.open()
                    events: list[Event] = []
                    while batch := await run.next_events():
                        events += batch
                    ending = terminal(events)
                    assert ending is not None
                    response = ending.response
                else:
                    response = await run.response()
            assert (response.status, response.store) == ("completed", False)
            assert response.output_text == "Hello there"
    assert [entry.event for entry in log].count("gateway.bug") == 2


class StoppingWorker(WorkerThread):
    """Ends all runs from outside while it computes for the one whose first attempt has failed."""

    def __init__(self, engine: Engine, provider: Upstream) -> None:
        super().__init__()
        self._engine = engine
        self._provider = provider
        self._has_stopped = False

    async def run(self, function: Callable[[], T]) -> T:
        if self._provider.requests and not self._has_stopped:
            self._has_stopped = True
            self._engine.active.stop(shutdown_fault())
        return await super().run(function)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_no_attempt_and_no_pause_begins_after_a_run_was_stopped_while_it_was_chosen(
    tmp_path: Path, *, stream: bool
) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    busy = send_json(503, {"error": {"message": "busy"}})
    attempts = AttemptConfig(max_attempts=3, backoff_s=3.0)
    async with upstream(busy) as provider:
        config = replaced(settings(tmp_path, provider.url), attempts=attempts)
        async with open_engine(config, {}, lambda entry: None, Runtime(sleep=sleep)) as engine:
            worker = StoppingWorker(engine, provider)
            services = dataclasses.replace(engine.services, worker=worker)
            body = {"model": "up/m", "input": "Hello there", "stream": stream}
            request = parse_body(msgspec.json.encode(body))
            request = msgspec.structs.replace(request, is_large=True)
            prepared = await engine.prepare(request, CALLER)
            async with Run(services, prepared) as run:
                with pytest.raises(UpstreamError) as caught:
                    await (run.open() if stream else run.response())
            worker.close()
    assert caught.value.fault.code == shutdown_fault().code
    assert len(provider.requests) == 1
    assert pauses == []


class BeginningWorker(WorkerThread):
    """Begins a response early while the attempt after one that has failed is planned."""

    def __init__(self, provider: Upstream) -> None:
        super().__init__()
        self._provider = provider
        self.subject: Run | None = None
        self.began: list[Event] = []

    async def run(self, function: Callable[[], T]) -> T:
        if self._provider.requests and self.subject is not None:
            self.began = self.subject.start()
            self.subject = None
        return await super().run(function)


async def test_a_response_that_begins_between_two_attempts_has_nothing_of_the_first(
    tmp_path: Path,
) -> None:
    async def fail_first(request: ReceivedRequest, connection: Connection) -> None:
        failure = frame({"error": {"message": "Busy", "type": "server_error"}})
        frames = HELLO_WORLD if len(provider.requests) > 1 else (HELLO[0] + failure,)
        await send_frames(frames)(request, connection)

    async def sleep(seconds: float) -> None:
        return

    body = b'{"model": "up/m", "input": "Hello there", "stream": true}'
    request = msgspec.structs.replace(parse_body(body), is_large=True)
    async with upstream(fail_first) as provider:
        config = replaced(settings(tmp_path, provider.url), attempts=AttemptConfig())
        async with open_engine(config, {}, lambda entry: None, Runtime(sleep=sleep)) as engine:
            worker = BeginningWorker(provider)
            services = dataclasses.replace(engine.services, worker=worker)
            async with Run(services, await engine.prepare(request, CALLER)) as run:
                worker.subject = run
                await run.open()
                events = [*worker.began]
                while batch := await run.next_events():
                    events += batch
            worker.close()
    assert len(provider.requests) == 2
    assert [type(event) for event in events[:2]] == [Created, InProgress]
    assert [event for event in events[2:] if isinstance(event, Created | InProgress)] == []
    assert [type(event) for event in events if terminal([event])] == [Completed]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_no_context_is_compacted_after_a_run_was_stopped_while_its_client_was_admitted(
    tmp_path: Path, *, stream: bool
) -> None:
    async def compact() -> Diagnostic:
        raise AssertionError("a summary was begun")

    async def admit(client: str, request_id: str) -> Mapping[str, str]:
        subject.engine.active.stop(shutdown_fault())
        return {}

    async with bench(tmp_path) as subject:
        body = {"model": "echo/echo", "input": "Hello there", "stream": stream}
        prepared = await subject.engine.prepare(parse_body(msgspec.json.encode(body)), CALLER)
        prepared = msgspec.structs.replace(prepared, compact=compact)
        async with Run(subject.engine.services, prepared, admit=admit) as run:
            with pytest.raises(UpstreamError) as caught:
                await (run.open() if stream else run.response())
    assert caught.value.fault.code == shutdown_fault().code


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_no_attempt_is_reported_of_a_run_that_was_stopped_before_its_first(
    tmp_path: Path, *, stream: bool
) -> None:
    log: list[Entry] = []

    async def admit(client: str, request_id: str) -> Mapping[str, str]:
        engine.active.stop(shutdown_fault())
        return {}

    config = replaced(settings(tmp_path), store=StoreConfig(url="memory://"))
    async with open_engine(config, {}, log.append) as engine:
        body = {"model": "echo/echo", "input": "Hello there", "stream": stream}
        prepared = await engine.prepare(parse_body(msgspec.json.encode(body)), CALLER)
        async with Run(engine.services, prepared, admit=admit) as run:
            with pytest.raises(UpstreamError) as caught:
                await (run.open() if stream else run.response())
    assert caught.value.fault.code == shutdown_fault().code
    assert [each.event for each in log if each.event.startswith("attempt")] == []
