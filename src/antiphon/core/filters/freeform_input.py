"""The desk of freeform tools: their input is unwrapped, checked and, if need be, asked for again.

1. Input streams as it is written. From the first place where it breaks the grammar of its tool on,
   it is held back, and its call stays open; everything else passes, in order.
2. When the round is over, the model is told what was wrong, once in an answer. The next calls of
   the same tools are the corrections: they go on under the index and the id of the first tries.
3. Whatever comes, each call ends with one input. What nobody mended goes out as it was written, and
   a diagnostic says so. A call that was cut off ends as incomplete; nobody is asked about it.
"""

from __future__ import annotations

from functools import partial

from msgspec import structs

from antiphon.core.diagnostic import Code
from antiphon.core.filters.filter import DeltaFilter
from antiphon.core.freeform.grammar import (
    GrammarChecker,
    GrammarViolation,
    build_checker,
    requires_opening,
)
from antiphon.core.freeform.unwrap import Unwrapper
from antiphon.core.history.content import json_text
from antiphon.core.history.steps import Step, TextPart, ToolCallStep, ToolResultStep
from antiphon.core.plan.follow_up import FollowUp
from antiphon.core.plan.plan import Plan
from antiphon.core.stream.deltas import Delta, Finish, ToolCall, ToolEnd, ToolRevision
from antiphon.core.stream.finish import map_finish_reason
from antiphon.core.stream.partial_call import PartialCall
from antiphon.core.tools.identity import Grammar, ToolIdentityMap

_ROUND = 1000
"""No provider makes so many calls in a round: from here on, indices are free for the next one."""

_TORN = "the arguments end before the text in them does"
_MESSAGES = {
    Code.INPUT_UNWRAPPED: "What the model had put around the input was removed.",
    Code.INPUT_CORRECTED: "The input broke the grammar of the tool; the model has corrected it.",
    Code.INPUT_INVALID: "The input breaks the grammar of the tool, and the model did not mend it.",
}


class FreeformInputFilter(DeltaFilter):
    """Over all rounds of one answer."""

    def __init__(self, tools: ToolIdentityMap) -> None:
        super().__init__()
        self._tools = tools
        self._grammars = _grammars(tools)
        self._asked = False
        self._awaited: list[_Call] = []
        """Held over from the round before, until they are corrected."""
        self._shift = 0
        self._begin_round()

    @classmethod
    def of(cls, plan: Plan) -> FreeformInputFilter | None:
        """The desk for the answer to a plan; none if no tool has a grammar."""
        return cls(plan.identities) if _grammars(plan.identities) else None

    def _begin_round(self) -> None:
        self._reason: str | None = None
        self._heard: dict[int, PartialCall] = {}
        self._others: set[int] = set()
        self._calls: dict[int, _Call] = {}
        self._held: list[_Call] = []

    # Listening

    def feed(self, delta: Delta) -> list[Delta]:
        if isinstance(delta, ToolCall):
            return self._hear(delta)
        if isinstance(delta, ToolEnd):
            return self._end(delta)
        if isinstance(delta, Finish):
            self._reason = delta.reason or self._reason
        return [delta]

    def _hear(self, delta: ToolCall) -> list[Delta]:
        if delta.index in self._others:
            return [self._moved(delta)]
        if delta.index in self._calls:
            return self._grow(self._calls[delta.index], delta)
        is_first = delta.index not in self._heard
        heard = self._heard.setdefault(delta.index, PartialCall(self._tools))
        heard.add(delta)
        if self._is_known(heard):
            return self._decide(delta.index)
        if not is_first or self._awaited:
            return []
        return [self._moved(ToolCall(delta.index, delta.call_id))]  # so that it keeps its place

    def _is_known(self, heard: PartialCall) -> bool:
        """Whether its name is certain: no more of it could make it another tool's."""
        if not heard.name or heard.arguments:
            return bool(heard.name)
        begun = [name for name in self._tools if name.startswith(heard.name)]
        return begun == [heard.name] or self._grammars.keys().isdisjoint(begun)

    def _decide(self, index: int) -> list[Delta]:
        """It is clear whose call it is: tell what was heard of it."""
        heard = self._heard.pop(index)
        grammar = self._grammars.get(heard.name)
        checker = None if grammar is None else build_checker(grammar)
        if grammar is None or checker is None:
            self._others.add(index)
            return [self._moved(delta) for delta in heard.deltas]
        text = _Input(grammar, checker, declared=_is_declared(heard))
        first = next((call for call in self._awaited if call.name == heard.name), None)
        if first is None:
            call = _Call(index + self._shift, heard.name, text, is_patient=not self._asked)
            call.call_id = heard.call_id
            told: list[Delta] = [ToolCall(call.index, call.call_id, call.name, kind="custom")]
        else:
            self._awaited.remove(first)
            call, told = first.again(text), []
        self._calls[index] = call
        return told + self._grow(call, ToolCall(index, arguments=heard.arguments))

    def _grow(self, call: _Call, delta: ToolCall) -> list[Delta]:
        if call.is_over:
            return []
        told = call.feed(delta.arguments)
        if delta.call_id and call.call_id is None:
            call.call_id = delta.call_id
            told = [ToolCall(call.index, delta.call_id), *told]
        is_whole = call.input.is_closed and call.call_id is not None
        return told + self._settle(call) if is_whole else told

    def _end(self, delta: ToolEnd) -> list[Delta]:
        before = self._decide(delta.index) if delta.index in self._heard else []
        call = self._calls.get(delta.index)
        if call is None:
            return [*before, self._moved(delta)]
        return before + ([] if call.is_over else self._settle(call, complete=delta.complete))

    def _moved(self, delta: ToolCall | ToolEnd | ToolRevision) -> Delta:
        return structs.replace(delta, index=delta.index + self._shift)

    # Ending

    def _settle(self, call: _Call, *, complete: bool = True) -> list[Delta]:
        """Nothing more comes of this call."""
        told = call.close()
        if complete and call.input.flaw and not self._asked:
            self._held.append(call)
            return told
        return told + self._release(call, complete=complete)

    def _release(self, call: _Call, *, complete: bool = True) -> list[Delta]:
        """The call goes out with the input that it has now."""
        if complete:
            self._report(call)
        return [*call.rest(), ToolEnd(call.index, complete=complete and not call.input.is_torn)]

    def close(self, *, final: bool) -> list[Delta]:
        """The end of a round. Desks may ask for the next one together."""
        ended_well = map_finish_reason(self._reason).status == "completed"
        deltas = [delta for index in list(self._heard) for delta in self._decide(index)]
        for call in self._calls.values():
            if not call.is_over:
                deltas += self._settle(call, complete=ended_well or call.input.is_closed)
        held = [*self._awaited, *self._held]
        self.again, self._awaited = None, []
        if self._held and ended_well and not self._asked:
            self.again = _ask(held)
            self._asked, self._awaited, held = True, held, []
        elif not final:  # there is another round anyway: it may bring what this one did not
            self._awaited, held = held, []
        for call in held:
            deltas += self._release(call)
        self._shift += _ROUND
        self._begin_round()
        return deltas

    def _report(self, call: _Call) -> None:
        codes = [Code.INPUT_UNWRAPPED] if call.input.is_wrapped else []
        if call.input.flaw:
            codes.append(Code.INPUT_INVALID)
        elif call.is_correction:
            codes.append(Code.INPUT_CORRECTED)
        identity = self._tools.by_provider_name(call.name)
        name = identity.requested_name if identity else call.name
        for code in codes:
            self._note(code, name, _MESSAGES[code])


def _grammars(tools: ToolIdentityMap) -> dict[str, Grammar]:
    found = {name: tools.by_provider_name(name) for name in tools}
    return {name: each.grammar for name, each in found.items() if each and each.grammar}


def _is_declared(heard: PartialCall) -> bool:
    """The input comes in the JSON object that was asked for, and not as free text."""
    return not any(isinstance(each, ToolCall) and each.kind == "custom" for each in heard.deltas)


def _ask(calls: list[_Call]) -> FollowUp:
    """All that is wrong, each call with its own answer."""
    steps: list[Step] = []
    answers: list[Step] = []
    for call in calls:
        call_id = call.call_id or f"call_freeform_{call.index}"
        arguments = json_text({"input": call.input.text})
        message = (
            f"`{call.name}` was not run: its input does not match its grammar. {call.input.flaw}."
            f" Call `{call.name}` again with the whole corrected input and nothing else."
        )
        steps.append(ToolCallStep(call_id, call.name, arguments))
        answers.append(ToolResultStep(call_id, (TextPart(message),), call.name))
    return FollowUp(steps=(*steps, *answers))


class _Input:
    """The text that a call is made with, as the model writes it."""

    def __init__(self, grammar: Grammar, checker: GrammarChecker, *, declared: bool) -> None:
        self.problem: GrammarViolation | None = None
        self.length = 0
        self.is_torn = False
        self._unwrapper = Unwrapper(partial(requires_opening, grammar), declared=declared)
        self._checker = checker
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    @property
    def flaw(self) -> str:
        """What is wrong with it, in words; empty if it is sound."""
        if self.problem is not None:
            return self.problem.message
        return _TORN if self.is_torn else ""

    @property
    def is_closed(self) -> bool:
        return self._unwrapper.ended

    @property
    def is_wrapped(self) -> bool:
        return self._unwrapper.wrapped

    def feed(self, arguments: str) -> str:
        return self._add(self._unwrapper.feed(arguments))

    def close(self) -> str:
        piece = self._add(self._unwrapper.close())
        self.is_torn = self._unwrapper.unterminated
        self.problem = self.problem or self._checker.close()
        return piece

    def _add(self, piece: str) -> str:
        self._pieces.append(piece)
        self.length += len(piece)
        self.problem = self.problem or self._checker.feed(piece)
        return piece


class _Call:
    """A freeform call: told as far as it may be, until it goes out whole."""

    def __init__(self, index: int, name: str, text: _Input, *, is_patient: bool) -> None:
        """One that is patient stops where its input breaks the grammar."""
        self.index = index
        self.name = name
        self.input = text
        self.call_id: str | None = None
        self.is_over = False
        self.is_correction = False
        self._is_patient = is_patient
        self._before = ""  # what a first try told, as long as this one has not said it again
        self._departs = False  # it will never have
        self._told = 0  # so many characters

    def again(self, text: _Input) -> _Call:
        """A second try, in the place of this one."""
        call = _Call(self.index, self.name, text, is_patient=False)
        call.call_id = self.call_id
        call.is_correction = True
        call._before = self.input.text[: self._told]
        return call

    def feed(self, arguments: str) -> list[Delta]:
        return self._deltas(self._sound(self.input.feed(arguments)))

    def close(self) -> list[Delta]:
        self.is_over = True
        return self._deltas(self._sound(self.input.close()))

    def rest(self) -> list[Delta]:
        """What makes the input whole that was told so far."""
        if self._before:
            return [ToolRevision(self.index, self.input.text)]
        return self._deltas(self.input.text[self._told :])

    def _deltas(self, piece: str) -> list[Delta]:
        return [ToolCall(self.index, arguments=piece, kind="custom")] if piece else []

    def _sound(self, piece: str) -> str:
        """What may be told of the newest piece, or now of earlier ones."""
        start = self.input.length - len(piece)
        if self._before:
            return self._catch_up()
        if self._told < start:  # it has stopped
            return ""
        if self._is_patient and self.input.problem is not None:
            piece = piece[: self.input.problem.offset - start]
        self._told += len(piece)
        return piece

    def _catch_up(self) -> str:
        """Go on where the first try was left, if this one begins like it."""
        if self._departs or self.input.length < len(self._before):
            return ""
        text, before = self.input.text, self._before
        self._departs = not text.startswith(before)
        if self._departs:
            return ""
        self._before = ""
        self._told = len(text)
        return text[len(before) :]
