"""Output of a run: its events, its stored turn, its diagnostics and its log."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from antiphon.config import StoreConfig
from antiphon.core.diagnostic import Code, Decision, Diagnostic
from antiphon.core.events import Event
from antiphon.core.faults.classify import classify
from antiphon.core.history.capsule import Unopened
from antiphon.core.plan.planner import PlanInputs, Planner
from antiphon.core.response import Response
from antiphon.dialects.chat.dialect import ChatDialect
from antiphon.engine.attempts import Attempts, fault_without_output, has_output
from antiphon.engine.fault_report import log_fields
from antiphon.engine.output import RunOutput, SaveInStore
from antiphon.engine.routing import Target
from antiphon.engine.run import translate
from antiphon.engine.services import Caller, Prepared, Services, choose_locale
from antiphon.engine.tracing import RunTrace
from antiphon.errors import StoreError
from antiphon.server.wiring import open_engine
from antiphon.stages.log import Entry
from antiphon.stages.pipeline import Batch, Stage, StageFactory, terminal
from antiphon.store.sqlite.store import SQLiteStore
from antiphon.store.store import Turn
from tests.support.gateways import replaced, settings
from tests.support.outbound_requests import configured
from tests.support.request_body import parse_body
from tests.support.upstream import HELLO, chunk, frame, whole_answer

WHOLE = json.dumps(whole_answer("Hello, world")).encode()
SIGNATURE = {"google": {"thought_signature": "c2lnbmF0dXJl"}}
CALL = {"id": "c", "function": {"name": "f", "arguments": "{}"}, "extra_content": SIGNATURE}
CHOICE = {"message": {"tool_calls": [CALL]}, "finish_reason": "tool_calls"}
WHOLE_CALL = json.dumps({"id": "c1", "choices": [CHOICE]}).encode()
SILENT_END = frame({"choices": []}) + b"data: [DONE]\n\n"
TARGET = Target(configured("chat"), "m")
BUSY = classify(503, {}, b'{"error":{"message":"busy: the prompt was secret"}}')
IGNORED = Diagnostic(
    code=Code.PARAM_IGNORED, decision=Decision.IGNORED, param="top_p", message="Ignored."
)


class FullStore(SQLiteStore):
    """A store that cannot save."""

    async def save(self, turn: Turn, *, conversation_id: str | None = None) -> None:
        raise StoreError("the disk is full")


class OtherStates:
    """States of calls that do something else where they should be saved."""

    def __init__(self, on_save: Callable[[], Awaitable[None]]) -> None:
        self._on_save = on_save

    async def save(self, states: Mapping[str, str], *, client: str) -> None:
        await self._on_save()

    async def load(self, call_ids: Collection[str], *, client: str) -> dict[str, str]:
        return {}


def prepare(locale: str = "en", **fields: Any) -> Prepared:
    request = parse_body(json.dumps({"model": "m", "input": "Hello?", **fields}).encode())
    response = Response(id="resp_1", created_at=0, model="m")
    caller = Caller("alice", "req_1", locale=locale)
    planner = Planner(request, PlanInputs())
    return Prepared(
        request=request,
        caller=caller,
        response=response,
        targets=(TARGET,),
        planner=planner,
        first_plan=planner.plan(TARGET),
        unseal=lambda _: Unopened.FOREIGN,
    )


class Subject:
    """The output of a run on the services of a real engine, and the log."""

    def __init__(self, services: Services, prepared: Prepared, log: list[Entry]) -> None:
        trace = RunTrace(services.tracer, prepared.facts(), lambda: 1.0)
        self.store = services.store
        self.entries = log
        self.attempts = Attempts(services, prepared, trace)
        save = SaveInStore(services.store, None)
        self.output = RunOutput(services, prepared, trace, self.attempts, save)
        self.output.open()
        self.translation = translate(services, prepared, TARGET, prepared.first_plan)

    async def load_status(self) -> str:
        [turn] = await self.store.chain("resp_1", client="alice")
        return turn.status

    async def pass_on_or_fail(self, events: list[Event]) -> list[Event]:
        return await self.output.pass_on_or_fail(events, self.translation)

    def log_of(self, event: str) -> list[dict[str, Any]]:
        return [dict(entry.facts) for entry in self.entries if entry.event == event]


@asynccontextmanager
async def open_output(
    tmp_path: Path,
    *,
    full: bool = False,
    stages: Sequence[StageFactory] = (),
    on_save_states: Callable[[], Awaitable[None]] | None = None,
    **fields: Any,
) -> AsyncIterator[Subject]:
    """With `on_save_states` the client returns nothing but the ids of calls."""
    log: list[Entry] = []
    config = replaced(settings(tmp_path), store=StoreConfig(url="memory://"))
    store = SQLiteStore(None, now=lambda: 0)
    if on_save_states is not None:
        store.call_states = OtherStates(on_save_states)
    async with open_engine(config, {}, log.append, store=store) as engine:
        services = engine.services
        if full:
            services = dataclasses.replace(services, store=FullStore(None, now=lambda: 0))
        services = dataclasses.replace(services, stages=stages)
        prepared = prepare(**fields)
        if on_save_states is not None:
            request = structs.replace(prepared.request, state_carrier="store")
            prepared = structs.replace(prepared, request=request)
        yield Subject(services, prepared, log)


# Output of an attempt


async def test_there_is_no_output_before_the_first_text(tmp_path: Path) -> None:
    async with open_output(tmp_path) as subject:
        translation = subject.translation
        events = translation.feed(HELLO[0])
        before = has_output(translation, events)
        events += translation.feed(HELLO[1])
        assert (before, has_output(translation, events)) == (False, True)
        assert fault_without_output(translation, events, "it") is None


async def test_a_stream_that_ends_without_output_is_a_fault(tmp_path: Path) -> None:
    async with open_output(tmp_path) as subject:
        events = subject.translation.feed(SILENT_END) + subject.translation.close()
        fault = fault_without_output(subject.translation, events, "it")
        assert fault is not None
        assert fault.retryable


async def test_an_attempt_drops_the_events_and_the_fault_of_the_one_before(tmp_path: Path) -> None:
    async with open_output(tmp_path) as subject:
        output = subject.output
        output.unread.extend(subject.translation.feed(HELLO[0]))
        error = output.opening_failed(BUSY)
        assert (error.fault, output.fault, error.provider) == (BUSY, BUSY, "it")
        output.begin_attempt(subject.attempts.plan)
        assert (output.take_unread(), output.fault) == ([], None)


class NotingStage(Stage):
    """A stage of another package that says something about the first events."""

    def __init__(self) -> None:
        self._has_seen_events = False

    def feed(self, batch: Batch) -> Batch:
        if self._has_seen_events:
            return batch
        self._has_seen_events = True
        return structs.replace(batch, diagnostics=(*batch.diagnostics, IGNORED))


async def test_a_diagnostic_of_a_stage_stays_when_the_plan_of_a_further_round_is_used(
    tmp_path: Path,
) -> None:
    async with open_output(tmp_path, stages=[NotingStage]) as subject:
        await subject.pass_on_or_fail(subject.translation.feed(HELLO[0]))
        subject.output.use_plan(subject.attempts.plan)
        await subject.pass_on_or_fail(subject.translation.feed(HELLO[1]))
        assert subject.output.diagnostics == (IGNORED,)


async def test_a_diagnostic_of_a_stage_stays_if_the_response_began_before_its_provider(
    tmp_path: Path,
) -> None:
    async with open_output(tmp_path, stages=[NotingStage]) as subject:
        subject.output.feed(subject.translation.start(), subject.translation)
        subject.output.use_plan(subject.attempts.plan)
        await subject.pass_on_or_fail(subject.translation.feed(HELLO[0]))
        assert subject.output.diagnostics == (IGNORED,)


# Storing


async def test_the_turn_is_stored_before_the_terminal_event_is_returned(tmp_path: Path) -> None:
    async with open_output(tmp_path) as subject:
        await subject.pass_on_or_fail(subject.translation.feed_whole(WHOLE))
        [turn] = await subject.store.chain("resp_1", client="alice")
        assert (turn.client, turn.provider, turn.status) == ("alice", "it", "completed")
        assert turn.output[0]["content"][0]["text"] == "Hello, world"


async def test_nothing_is_stored_if_the_request_says_so(tmp_path: Path) -> None:
    async with open_output(tmp_path, full=True, store=False) as subject:
        await subject.pass_on_or_fail(subject.translation.feed_whole(WHOLE))
        assert subject.log_of("store.save_failed") == []


async def test_a_store_that_fails_leaves_a_good_response_with_store_false(tmp_path: Path) -> None:
    async with open_output(tmp_path, full=True) as subject:
        ending = terminal(await subject.pass_on_or_fail(subject.translation.feed_whole(WHOLE)))
        assert ending is not None
        assert (ending.response.status, ending.response.store) == ("completed", False)
        [entry] = subject.log_of("store.save_failed")
        assert entry["reason"] == "the disk is full"


async def test_a_turn_is_stored_also_if_the_run_is_cancelled_while_the_state_of_calls_is_kept(
    tmp_path: Path,
) -> None:
    begun = asyncio.Event()

    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    async with open_output(tmp_path, on_save_states=wait) as subject:
        events = subject.translation.feed_whole(WHOLE_CALL)
        passing = asyncio.ensure_future(subject.pass_on_or_fail(events))
        await begun.wait()
        passing.cancel()
        await asyncio.wait([passing])
        assert await subject.load_status() == "completed"


async def test_a_bug_where_the_state_of_calls_is_kept_costs_the_state_and_not_the_response(
    tmp_path: Path,
) -> None:
    async def fail() -> None:
        raise ValueError("a bug")

    async with open_output(tmp_path, on_save_states=fail) as subject:
        ending = terminal(await subject.pass_on_or_fail(subject.translation.feed_whole(WHOLE_CALL)))
        assert ending is not None
        assert (ending.response.status, await subject.load_status()) == ("completed", "completed")
        assert len(subject.log_of("gateway.bug")) == 1


# Faults, diagnostics and the log


@pytest.mark.parametrize("ending", [b"", chunk({}, "abort")], ids=["none", "unknown"])
async def test_a_response_that_failed_by_its_finish_reason_is_logged_with_the_reason(
    tmp_path: Path, ending: bytes
) -> None:
    async with open_output(tmp_path) as subject:
        translation = subject.translation
        body = HELLO[0] + HELLO[1] + ending
        await subject.pass_on_or_fail(translation.feed(body) + translation.close())
        subject.output.close(translation)
        [entry] = subject.log_of("response.failed")
        assert entry["reason"]


async def test_a_bug_is_logged_once(tmp_path: Path) -> None:
    async with open_output(tmp_path) as subject:
        error = ValueError("a bug")
        fault = subject.output.log.report_bug(error, subject.translation)
        await subject.pass_on_or_fail(subject.translation.fail(fault))
        subject.output.close(subject.translation)
        [entry] = subject.log_of("gateway.bug")
        assert entry["error"] == "ValueError"


async def test_a_fault_is_described_in_the_language_of_the_client(tmp_path: Path) -> None:
    async with open_output(tmp_path) as english, open_output(tmp_path, locale="zh") as chinese:
        assert english.output.log.describe(BUSY) != chinese.output.log.describe(BUSY)


async def test_diagnostics_of_the_response_follow_those_of_the_plan(tmp_path: Path) -> None:
    async with open_output(tmp_path, mood="sunny") as subject:
        output = subject.output
        output.add_diagnostic(IGNORED)
        assert [each.code for each in output.diagnostics] == ["param.unknown", "param.ignored"]
        output.begin_attempt(subject.attempts.plan)
        assert [each.code for each in output.diagnostics] == ["param.unknown", "param.ignored"]


async def test_a_fault_is_logged_without_what_it_quotes_of_the_request(tmp_path: Path) -> None:
    async with open_output(tmp_path, input="secret") as subject:
        await subject.attempts.encode()
        subject.output.opening_failed(BUSY)
        subject.output.close(subject.translation)
        [entry] = subject.log_of("upstream.failed")
        assert entry.items() >= log_fields(BUSY).items()
        assert entry["reason"] == "busy: the prompt was «request text»"
        assert subject.log_of("response.cancelled") == []


async def test_a_response_that_its_client_has_left_is_logged_as_cancelled(tmp_path: Path) -> None:
    async with open_output(tmp_path) as subject:
        subject.output.close(subject.translation)
        [entry] = subject.log_of("response.cancelled")
        assert entry["request_id"] == "req_1"


def test_a_plug_in_s_dialect_describes_faults_in_the_client_s_own_language() -> None:
    class FrenchDialect(ChatDialect):
        locales = frozenset({"fr"})

    caller = Caller("client", "req", locale="zh", languages="fr-CA, zh;q=0.8")
    assert choose_locale(caller, FrenchDialect()) == "fr"
    assert choose_locale(caller, ChatDialect()) == "zh"
