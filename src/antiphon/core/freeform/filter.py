"""Filter for freeform tools: their input is unwrapped, checked against its grammar, and corrected.

1. Input streams as it is written. From the first position where it breaks the grammar of its tool,
   it is held back, and its call stays open; everything else passes, in order.
2. When the round is over, the model gets the errors, once in a response. The next calls of the
   same tools are the corrections: they go on under the index and the call id of the first attempts.
3. Each call ends with one input. What was not corrected goes out as it was written, with a
   diagnostic. A call that was cut off ends as incomplete, without a correction.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from msgspec import structs

from antiphon.core.deltas import Delta, Finish, Reasoning, Text, ToolCall, ToolEnd, ToolRevision
from antiphon.core.diagnostic import Code
from antiphon.core.filters.call_watcher import CallDelta, CallWatcher, PartialCall
from antiphon.core.filters.filter import DeltaFilter, FinishReason, FollowUp, RoundEnd, RoundWish
from antiphon.core.freeform.grammar import (
    GrammarChecker,
    GrammarViolation,
    build_checker,
    requires_opening,
)
from antiphon.core.freeform.unwrap import Unwrapper
from antiphon.core.history.content import json_text
from antiphon.core.history.steps import Step, TextPart, ToolCallStep, ToolResultStep
from antiphon.core.tools.identity import Grammar, ToolIdentityMap

_INDICES_PER_ROUND = 1000
"""Providers count their calls from 0 in every round; the machine needs indices that are new. No
provider makes this many calls in a round."""

_TORN = "the arguments end before the text in them does"
_MESSAGES = {
    Code.INPUT_UNWRAPPED: "The wrapper that the model wrote around the input of `{tool}` was"
    " removed.",
    Code.INPUT_CORRECTED: "The input of `{tool}` broke its grammar; the model corrected it.",
    Code.INPUT_INVALID: "The input of `{tool}` breaks its grammar, and the model did not correct"
    " it.",
}


class FreeformInputFilter(DeltaFilter):
    """The freeform calls of one response, over all of its rounds.

    A call goes through these states: *partial* (its name is not complete), *open* (its input is
    being written), *ended*, and then either released or, if its input breaks the grammar,
    *rejected* until a later round corrects it.
    """

    unchanged: ClassVar[frozenset[type[Delta]]] = frozenset({Text, Reasoning})

    def __init__(self, tools: ToolIdentityMap) -> None:
        self._tools = tools
        self._grammars = _read_grammars(tools)
        self._has_asked = False
        self._awaiting: list[_FreeformCall] = []
        """Rejected in an earlier round, until they are corrected."""
        self._index_offset = 0
        self._round = self._new_round()

    @classmethod
    def of(cls, tools: ToolIdentityMap) -> FreeformInputFilter | None:
        """The filter for calls of these tools; None if no tool has a grammar."""
        return cls(tools) if _read_grammars(tools) else None

    def _new_round(self) -> _FreeformRound:
        return _FreeformRound(CallWatcher(self._tools, self._is_named))

    # During a round

    def feed(self, delta: Delta) -> list[Delta]:
        if isinstance(delta, ToolCall):
            return self._feed_call(delta)
        if isinstance(delta, ToolEnd):
            return self._end_call(delta)
        if isinstance(delta, Finish):
            self._round.finish.feed(delta)
        return [delta]

    def _feed_call(self, delta: ToolCall) -> list[Delta]:
        if delta.index in self._round.watcher.passed:
            return [self._renumber(delta)]
        call = self._round.calls.get(delta.index)
        return self._feed_partial(delta) if call is None else self._extend(call, delta)

    def _feed_partial(self, delta: ToolCall) -> list[Delta]:
        """The name may come in pieces: `{"name": "apply_"}`, then `{"name": "patch"}`."""
        watcher = self._round.watcher
        is_first = delta.index not in watcher
        call = watcher.add(delta)
        if call is not None:
            return self._identify(delta.index, call)
        if is_first and not self._awaiting:  # the call gets its position among the items now
            return [self._renumber(ToolCall(delta.index, delta.call_id))]
        return []

    def _is_named(self, call: PartialCall) -> bool:
        """Whether the name is complete: no further piece could make it that of another tool."""
        if not call.name or call.arguments:
            return bool(call.name)
        possible = [name for name in self._tools if name.startswith(call.name)]
        return possible == [call.name] or self._grammars.keys().isdisjoint(possible)

    def _identify(self, index: int, call: PartialCall) -> list[Delta]:
        """The name is complete: begin a freeform call, a correction, or pass another's call."""
        grammar = self._grammars.get(call.name)
        checker = None if grammar is None else build_checker(grammar)
        if grammar is None or checker is None:
            self._round.watcher.passed.add(index)
            return [self._renumber(delta) for delta in call.deltas]
        text = _FreeformInput(grammar, checker, declared=_is_declared(call))
        deltas = self._begin_call(index, call, text)
        arguments = ToolCall(index, arguments=call.arguments)
        return deltas + self._extend(self._round.calls[index], arguments)

    def _begin_call(self, index: int, call: PartialCall, text: _FreeformInput) -> list[Delta]:
        first = next((each for each in self._awaiting if each.name == call.name), None)
        if first is not None:  # its beginning has been sent, in an earlier round
            self._awaiting.remove(first)
            self._round.calls[index] = first.begin_correction(text)
            return []
        begun = _FreeformCall(
            index + self._index_offset,
            call.name,
            text,
            call_id=call.call_id,
            stops_at_problem=not self._has_asked,
        )
        self._round.calls[index] = begun
        return [ToolCall(begun.index, begun.call_id, begun.name, kind="custom")]

    def _extend(self, call: _FreeformCall, delta: ToolCall) -> list[Delta]:
        if call.ended:
            return []
        deltas = call.feed(delta.arguments)
        if delta.call_id and call.call_id is None:
            deltas = [call.take_id(delta.call_id), *deltas]
        is_complete = call.input.is_closed and call.call_id is not None
        return deltas + self._end_input(call) if is_complete else deltas

    def _end_call(self, delta: ToolEnd) -> list[Delta]:
        """The provider says that a call is complete. Many do not: then `close` ends the call."""
        before: list[Delta] = []
        watcher = self._round.watcher
        if delta.index in watcher:
            before = self._identify(delta.index, watcher.take(delta.index))
        call = self._round.calls.get(delta.index)
        if call is None:
            return [*before, self._renumber(delta)]
        return before + ([] if call.ended else self._end_input(call, complete=delta.complete))

    def _end_input(self, call: _FreeformCall, *, complete: bool = True) -> list[Delta]:
        """No more input comes: release the call, or reject it."""
        deltas = call.close()
        if complete and call.input.flaw and not self._has_asked:
            self._round.rejected.append(call)
            return deltas
        return deltas + self._release(call, complete=complete)

    def _release(self, call: _FreeformCall, *, complete: bool = True) -> list[Delta]:
        """Send the call with the input that it has now."""
        if complete:
            self._report(call)
        return [
            *call.send_rest(),
            ToolEnd(call.index, complete=complete and not call.input.is_torn),
        ]

    def _renumber(self, delta: CallDelta) -> Delta:
        return structs.replace(delta, index=delta.index + self._index_offset)

    # The end of a round

    def close(self, *, final: bool) -> RoundEnd:
        is_complete = self._round.finish.is_complete
        deltas = self._end_open_calls(is_complete=is_complete)
        wish = None
        if self._round.rejected and is_complete and not self._has_asked:
            wish = self._ask_for_corrections()
        elif final:  # nothing more comes
            deltas += self._release_all()
        else:  # another filter wants a round: it may bring the corrections that this one did not
            self._awaiting += self._round.rejected
        self._index_offset += _INDICES_PER_ROUND
        self._round = self._new_round()
        return RoundEnd(deltas, wish)

    def give_up(self) -> list[Delta]:
        return self._release_all()

    def _end_open_calls(self, *, is_complete: bool) -> list[Delta]:
        deltas: list[Delta] = []
        for waiting in self._round.watcher.take_all():
            deltas += self._identify(waiting.deltas[0].index, waiting)
        for call in self._round.calls.values():
            if not call.ended:
                deltas += self._end_input(call, complete=is_complete or call.input.is_closed)
        return deltas

    def _ask_for_corrections(self) -> RoundWish:
        self._has_asked = True
        self._awaiting += self._round.rejected
        return RoundWish(_make_follow_up(self._awaiting))

    def _release_all(self) -> list[Delta]:
        calls = [*self._awaiting, *self._round.rejected]
        self._awaiting.clear()
        self._round.rejected.clear()
        return [delta for call in calls for delta in self._release(call)]

    def _report(self, call: _FreeformCall) -> None:
        codes = [Code.INPUT_UNWRAPPED] if call.input.is_wrapped else []
        if call.input.flaw:
            codes.append(Code.INPUT_INVALID)
        elif call.is_correction:
            codes.append(Code.INPUT_CORRECTED)
        identity = self._tools.by_provider_name(call.name)
        name = identity.requested_name if identity else call.name
        for code in codes:
            self._note(code, name, _MESSAGES[code].format(tool=name))


def _read_grammars(tools: ToolIdentityMap) -> dict[str, Grammar]:
    """The grammars of the tools, by the provider's names for them."""
    identities = {name: tools.by_provider_name(name) for name in tools}
    return {name: each.grammar for name, each in identities.items() if each and each.grammar}


def _is_declared(call: PartialCall) -> bool:
    """Whether the input comes in a JSON object, as the tool was declared, and not as free text.

    Declared as a function: `{"name": "apply_patch", "arguments": "{\\"input\\": \\"*** Begin"}`.
    Declared as a custom tool: `{"name": "apply_patch", "input": "*** Begin"}`.
    """
    return not any(isinstance(each, ToolCall) and each.kind == "custom" for each in call.deltas)


def _make_follow_up(calls: list[_FreeformCall]) -> FollowUp:
    """The rejected calls, and after them an output for each that names the problem."""
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


class _FreeformRound:
    """What the current round has brought so far."""

    def __init__(self, watcher: CallWatcher) -> None:
        self.watcher = watcher
        self.finish = FinishReason()
        self.calls: dict[int, _FreeformCall] = {}
        """Open and ended calls of freeform tools, by the provider's index."""
        self.rejected: list[_FreeformCall] = []


class _FreeformInput:
    """The input of a call while the model writes it: unwrapped, and checked."""

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
        """The problem with it, for the model; empty if it is valid."""
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


class _FreeformCall:
    """A freeform call: how much of its input has been sent, and what may be sent next.

    A correction that begins with the input that was sent continues it: after `*** Begin\\n+one\\n`
    of a first attempt, the correction `*** Begin\\n+one\\n+two\\n` sends `+two\\n`. One that begins
    differently revises the whole input when it ends (`ToolRevision`).
    """

    def __init__(
        self,
        index: int,
        name: str,
        text: _FreeformInput,
        *,
        call_id: str | None,
        stops_at_problem: bool = False,
        first_attempt: str | None = None,
    ) -> None:
        """`first_attempt`: what was sent of the input that this one corrects."""
        self.index = index
        self.name = name
        self.input = text
        self.call_id = call_id
        self.ended = False
        self.is_correction = first_attempt is not None
        self._stops_at_problem = stops_at_problem
        self._sent_before = first_attempt or ""  # until this one has repeated it
        self._differs = False  # this one does not begin with it
        self._sent_length = 0

    def begin_correction(self, text: _FreeformInput) -> _FreeformCall:
        """Return a second attempt, under the index and the id of this one."""
        sent = self.input.text[: self._sent_length]
        return _FreeformCall(self.index, self.name, text, call_id=self.call_id, first_attempt=sent)

    def take_id(self, call_id: str) -> Delta:
        """Take the id that came after the beginning of the call."""
        self.call_id = call_id
        return ToolCall(self.index, call_id)

    def feed(self, arguments: str) -> list[Delta]:
        return self._make_deltas(self._sendable(self.input.feed(arguments)))

    def close(self) -> list[Delta]:
        self.ended = True
        return self._make_deltas(self._sendable(self.input.close()))

    def send_rest(self) -> list[Delta]:
        """Return what completes the input that has been sent."""
        if self._sent_before:
            return [ToolRevision(self.index, self.input.text)]
        return self._make_deltas(self.input.text[self._sent_length :])

    def _make_deltas(self, piece: str) -> list[Delta]:
        return [ToolCall(self.index, arguments=piece, kind="custom")] if piece else []

    def _sendable(self, piece: str) -> str:
        """Return what may be sent of the newest piece, or now of earlier ones."""
        start = self.input.length - len(piece)
        if self._sent_before:
            return self._continue_first_attempt()
        if self._sent_length < start:  # a problem has stopped it
            return ""
        if self._stops_at_problem and self.input.problem is not None:
            piece = piece[: self.input.problem.offset - start]
        self._sent_length += len(piece)
        return piece

    def _continue_first_attempt(self) -> str:
        """Return what a correction adds to the first attempt, as soon as it has repeated that."""
        if self._differs or self.input.length < len(self._sent_before):
            return ""
        text = self.input.text
        before = self._sent_before
        self._differs = not text.startswith(before)
        if self._differs:
            return ""
        self._sent_before = ""
        self._sent_length = len(text)
        return text[len(before) :]
