"""Calls and answers put together, so that no history fails upstream, however it was interrupted.

1. An assistant's turn is a run of its consecutive steps; the answers to its calls follow the run
   directly, in the order of the calls. What stood between comes after.
2. An answer belongs to a call before it, never to a later one: a thread that grows keeps its past.
   Of several calls with one id the latest turn's is meant, and within a turn the first one open.
3. Every call has exactly one answer, the first that came; ids are unique within a run.
4. Nothing is lost: an answer that belongs to no call is text, a call without one says so.
5. A thought belongs to the turn it stands in. A turn that only thought has nothing to attach it to.
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
"""What an assistant's turn is made of."""


def pair_calls(
    steps: Sequence[Step], *, param: str = "input"
) -> tuple[tuple[Step, ...], tuple[Diagnostic, ...]]:
    """The same history with every answer behind its call, and what had to be made up or moved."""
    pairing = _Pairing(param)
    for step in steps:
        pairing.add(step)
    return tuple(pairing.steps()), tuple(pairing.diagnostics)


class _Run:
    """The steps of one assistant's turn, and the answers to its calls by their place in it."""

    def __init__(self) -> None:
        self.steps: list[_Own] = []
        self.answers: dict[int, ToolResultStep] = {}


class _Pairing:
    def __init__(self, param: str) -> None:
        self._param = param
        self._history: list[_Run | MessageStep] = []
        self._run: _Run | None = None
        # Calls that wait for an answer: by id, then by turn, oldest first in each.
        self._waiting: dict[str, list[tuple[_Run, deque[int]]]] = {}
        self._answered: dict[str, ToolResultStep] = {}
        self.diagnostics: list[Diagnostic] = []

    def add(self, step: Step) -> None:
        if isinstance(step, ToolResultStep):
            self._run = None
            self._answer(step)
        elif isinstance(step, MessageStep) and step.role != "assistant":
            self._run = None
            self._history.append(step)
        else:
            self._continue(step)

    def steps(self) -> Iterator[Step]:
        for part in self._history:
            if isinstance(part, MessageStep):
                yield part
            elif all(isinstance(step, ReasoningStep) for step in part.steps):
                self._note(
                    HistoryCode.REASONING_ORPHANED,
                    Decision.IGNORED,
                    "Reasoning that led to no answer was left out.",
                )
            else:
                yield from self._closed(part)

    def _note(self, code: HistoryCode, decision: Decision, message: str) -> None:
        self.diagnostics.append(
            Diagnostic(code=code, decision=decision, param=self._param, message=message)
        )

    def _continue(self, step: _Own) -> None:
        if self._run is None:
            self._run = _Run()
            self._history.append(self._run)
        if isinstance(step, ToolCallStep):
            turns = self._waiting.setdefault(step.call_id, [])
            if not turns or turns[-1][0] is not self._run:
                turns.append((self._run, deque()))
            turns[-1][1].append(len(self._run.steps))
        self._run.steps.append(step)

    def _answer(self, answer: ToolResultStep) -> None:
        call_id = answer.call_id or self._only_call() or ""
        if call_id in self._waiting:
            run, place = self._take(call_id)
            run.answers[place] = self._answered[call_id] = answer
        elif (known := self._answered.get(call_id)) is None:
            self._tell(f"[result of an unknown tool call {call_id}]:", answer)
            message = f"A result names a call that is not there ({call_id!r}); it is kept as text."
            self._note(HistoryCode.ANSWER_ORPHANED, Decision.DEGRADED, message)
        elif known.parts == answer.parts:
            message = f"A result of the call {call_id!r} came twice and is sent once."
            self._note(HistoryCode.ANSWER_REPEATED, Decision.IGNORED, message)
        else:
            self._tell(f"[another result of the tool call {call_id}]:", answer)
            message = f"The call {call_id!r} has several results; the later is kept as text."
            self._note(HistoryCode.ANSWER_REPEATED, Decision.DEGRADED, message)

    def _only_call(self) -> str | None:
        """The call that an answer without an id can only mean."""
        match list(islice(self._waiting.items(), 2)):
            case [(call_id, [(_, places)])] if len(places) == 1:
                return call_id
        return None

    def _take(self, call_id: str) -> tuple[_Run, int]:
        turns = self._waiting[call_id]
        run, places = turns[-1]
        place = places.popleft()
        if not places:
            turns.pop()
        if not turns:
            del self._waiting[call_id]
        return run, place

    def _tell(self, title: str, answer: ToolResultStep) -> None:
        self._history.append(MessageStep("user", (TextPart(title), *answer.parts)))

    def _closed(self, run: _Run) -> Iterator[Step]:
        """A run with ids of its own, and then its answers."""
        answers: list[ToolResultStep] = []
        seen: dict[str, int] = {}
        for place, step in enumerate(run.steps):
            if isinstance(step, ToolCallStep):
                call = structs.replace(step, call_id=_unique(step.call_id, seen))
                answers.append(self._answer_to(call, run.answers.get(place)))
                yield call
            else:
                yield step
        yield from answers

    def _answer_to(self, call: ToolCallStep, answer: ToolResultStep | None) -> ToolResultStep:
        if answer is not None:
            return structs.replace(answer, call_id=call.call_id, name=call.name)
        message = f"The call {call.call_id!r} has no result; the model is told so."
        self._note(HistoryCode.CALL_UNANSWERED, Decision.DEGRADED, message)
        return ToolResultStep(call.call_id, (INTERRUPTED,), call.name)


def _unique(call_id: str, seen: dict[str, int]) -> str:
    """The id itself, or one that no other call of the run has; the same for the same history."""
    unique = call_id
    while unique in seen:
        seen[call_id] += 1
        unique = f"{call_id}_{seen[call_id]}"
    seen[unique] = 1
    return unique
