"""Plans of compactions, and when `context_management` asks for one."""

from __future__ import annotations

from typing import Any

from antiphon.core.capabilities import Capabilities
from antiphon.core.compaction.request_summary import SummaryTask
from antiphon.core.diagnostic import Code, degraded
from antiphon.core.history.steps import MessageStep, TextPart
from antiphon.core.plan.plan import Plan
from antiphon.core.plan.plan_summary import needs_compaction, plan_summary
from antiphon.core.request import Request
from antiphon.core.response import UsedSettings
from tests.support.tables import table

CAPABILITIES = Capabilities(context_window=2000)
ANSWER = {"role": "assistant", "content": "Hi."}
HELLO = {"role": "user", "content": "Hello?"}
COMPACTION = {"type": "compaction", "encrypted_content": "x"}


def plan_of(tokens: int) -> Plan:
    text = MessageStep("user", (TextPart("x" * (4 * tokens)),))
    return Plan(provider="p", model="m", history=(text,))


def needs(
    *items: dict[str, Any],
    tokens: int,
    capabilities: Capabilities = CAPABILITIES,
    settings: Any = ({"type": "compaction", "compact_threshold": 1000},),
) -> bool:
    request = Request(raw={}, model="m", context_management=settings)
    return needs_compaction(request, items, plan_of(tokens), capabilities)


def test_the_plan_of_a_summary_says_nothing_about_its_format() -> None:
    notes = (
        degraded(Code.FORMAT_DEGRADED, "text.format", "a"),
        degraded(Code.PARAM_REFUSED, "user", "b"),
    )
    used = UsedSettings(text_format={"type": "json_schema"})
    plan = Plan(provider="p", model="m", diagnostics=notes, used=used)
    summary = plan_summary(plan, SummaryTask(("c",)))
    assert summary.summary_task == SummaryTask(("c",))
    assert summary.diagnostics == notes[1:]
    assert summary.used.text_format == {"type": "text"}


@table(("tokens", "needed"), [(1000, False), (1001, True)])
def test_a_context_beyond_the_threshold_is_compacted(tokens: int, needed: bool) -> None:
    assert needs(HELLO, ANSWER, HELLO, tokens=tokens) is needed


def test_a_provider_that_edits_contexts_compacts_by_itself() -> None:
    request = Request(
        raw={},
        model="m",
        context_management=({"type": "compaction", "compact_threshold": 1000},),
        context_edits=({"type": "compact"},),
    )
    items = (HELLO, ANSWER, HELLO)
    assert needs_compaction(request, items, plan_of(2000), CAPABILITIES)
    edits = Capabilities(context_window=2000, parameters=frozenset({"context_edits"}))
    assert not needs_compaction(request, items, plan_of(2000), edits)


@table(("tokens", "needed"), [(1600, False), (1601, True)])
def test_without_a_threshold_most_of_the_window_is_used(tokens: int, needed: bool) -> None:
    assert needs(ANSWER, tokens=tokens, settings=({"type": "compaction"},)) is needed


def test_without_a_threshold_and_a_known_window_nothing_is_compacted() -> None:
    settings = ({"type": "compaction"},)
    assert not needs(ANSWER, tokens=9999, settings=settings, capabilities=Capabilities())


@table("items", [(), (HELLO,), (ANSWER, COMPACTION), (ANSWER, COMPACTION, HELLO)])
def test_what_a_summary_would_not_shorten_is_not_compacted(items: tuple[Any, ...]) -> None:
    assert not needs(*items, tokens=5000)
    assert needs(*items, ANSWER, tokens=5000)
