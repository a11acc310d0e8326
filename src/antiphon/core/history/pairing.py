"""Pairing of tool calls with their results, so that providers accept an interrupted history, too.

1. A turn of the assistant is a run of its consecutive steps; the results of its calls follow it
   directly, in the order of the calls. Steps that stood between come after them.
2. A result belongs to a call before it, never to a later one: a growing thread keeps its past.
   Of several calls with the same id, it belongs to the latest turn's, and within a turn to the
   first one that has no result.
3. Every call has exactly one result, the first one; ids are unique within a turn.
4. Nothing is lost: a result without a call becomes text, a call without a result gets one that
   says so.
5. Reasoning belongs to its turn. A turn of nothing but reasoning is dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeAlias

from msgspec import structs

from antiphon.core.diagnostic import Decision, Diagnostic
from antiphon.core.history.steps import (
    HistoryCode,
    MessageStep,
    ReasoningStep,
    Step,
    TextPart,
    ToolCallStep,
    ToolResultStep,
)

INTERRUPTED = TextPart("[no result: the call was interrupted]")

_Own: TypeAlias = ReasoningStep | MessageStep | ToolCallStep
"""The steps of an assistant's turn."""


def pair_calls(
    steps: Sequence[Step], *, param: str = "input"
) -> tuple[tuple[Step, ...], tuple[Diagnostic, ...]]:
    """Put every result behind its call, and report what had to be added or changed."""
    pairing = _Pairing(param)
    for step in steps:
        pairing.add(step)
    return tuple(pairing.steps()), tuple(pairing.diagnostics)


class _Turn:
    """The steps of one assistant's turn, and the results of its calls by their index in it."""

    def __init__(self) -> None:
        self.steps: list[_Own] = []
        self.results: dict[int, ToolResultStep] = {}


class _Pairing:
    def __init__(self, param: str) -> None:
        self._param = param
        self._history: list[_Turn | MessageStep] = []
        self._turn: _Turn | None = None
        # Calls without a result: by id, then by turn, oldest first in each.
        self._waiting: dict[str, list[tuple[_Turn, deque[int]]]] = {}
        self._paired: dict[str, ToolResultStep] = {}
        self.diagnostics: list[Diagnostic] = []

    def add(self, step: Step) -> None:
        if isinstance(step, ToolResultStep):
            self._turn = None
            self._add_result(step)
        elif isinstance(step, MessageStep) and step.role != "assistant":
            self._turn = None
            self._history.append(step)
        else:
            self._add_to_turn(step)

    def steps(self) -> Iterator[Step]:
        for part in self._history:
            if isinstance(part, MessageStep):
                yield part
            elif all(isinstance(step, ReasoningStep) for step in part.steps):
                message = "A reasoning item has no message or call after it; ignored."
                self._report(HistoryCode.REASONING_ORPHANED, Decision.IGNORED, message)
            else:
                yield from self._complete_turn(part)

    def _report(self, code: HistoryCode, decision: Decision, message: str) -> None:
        self.diagnostics.append(
            Diagnostic(code=code, decision=decision, param=self._param, message=message)
        )

    def _add_to_turn(self, step: _Own) -> None:
        if self._turn is None:
            self._turn = _Turn()
            self._history.append(self._turn)
        if isinstance(step, ToolCallStep):
            turns = self._waiting.setdefault(step.call_id, [])
            if not turns or turns[-1][0] is not self._turn:
                turns.append((self._turn, deque()))
            turns[-1][1].append(len(self._turn.steps))
        self._turn.steps.append(step)

    def _add_result(self, result: ToolResultStep) -> None:
        call_id = result.call_id or self._only_call() or ""
        if call_id in self._waiting:
            turn, index = self._take_call(call_id)
            turn.results[index] = self._paired[call_id] = result
        elif (known := self._paired.get(call_id)) is None:
            self._add_as_text(f"[result of an unknown tool call {call_id}]:", result)
            message = f"No call with the `call_id` {call_id!r} of a result; sent as text."
            self._report(HistoryCode.ANSWER_ORPHANED, Decision.DEGRADED, message)
        elif known.parts == result.parts:
            message = f"The result of call {call_id!r} is repeated; sent once."
            self._report(HistoryCode.ANSWER_REPEATED, Decision.IGNORED, message)
        else:
            self._add_as_text(f"[another result of the tool call {call_id}]:", result)
            message = f"Call {call_id!r} has several results; the later one is sent as text."
            self._report(HistoryCode.ANSWER_REPEATED, Decision.DEGRADED, message)

    def _only_call(self) -> str | None:
        """The only call without a result: a result without an id belongs to it."""
        match list(islice(self._waiting.items(), 2)):
            case [(call_id, [(_, indexes)])] if len(indexes) == 1:
                return call_id
        return None

    def _take_call(self, call_id: str) -> tuple[_Turn, int]:
        turns = self._waiting[call_id]
        turn, indexes = turns[-1]
        index = indexes.popleft()
        if not indexes:
            turns.pop()
        if not turns:
            del self._waiting[call_id]
        return turn, index

    def _add_as_text(self, title: str, result: ToolResultStep) -> None:
        self._history.append(MessageStep("user", (TextPart(title), *result.parts)))

    def _complete_turn(self, turn: _Turn) -> Iterator[Step]:
        """The steps of a turn with unique call ids, and then the results of all its calls."""
        results: list[ToolResultStep] = []
        seen: dict[str, int] = {}
        for index, step in enumerate(turn.steps):
            if isinstance(step, ToolCallStep):
                call = structs.replace(step, call_id=_make_unique(step.call_id, seen))
                results.append(self._result_of(call, turn.results.get(index)))
                yield call
            else:
                yield step
        yield from results

    def _result_of(self, call: ToolCallStep, result: ToolResultStep | None) -> ToolResultStep:
        if result is not None:
            return structs.replace(result, call_id=call.call_id, name=call.name)
        message = f"Call {call.call_id!r} has no result; a placeholder is sent."
        self._report(HistoryCode.CALL_UNANSWERED, Decision.DEGRADED, message)
        return ToolResultStep(call.call_id, (INTERRUPTED,), call.name)


def _make_unique(call_id: str, seen: dict[str, int]) -> str:
    """The id itself, or one that no other call of the turn has; deterministic for a history."""
    unique = call_id
    while unique in seen:
        seen[call_id] += 1
        unique = f"{call_id}_{seen[call_id]}"
    seen[unique] = 1
    return unique
