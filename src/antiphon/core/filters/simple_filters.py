"""The filters that need little more than one class each."""

from __future__ import annotations

from typing import ClassVar

from msgspec import structs

from antiphon.core.client_profile import Profile
from antiphon.core.deltas import (
    Delta,
    Finish,
    ItemEnd,
    RawItem,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolEnd,
    ToolRevision,
)
from antiphon.core.diagnostic import Code
from antiphon.core.filters.filter import DeltaFilter, FollowUp, RoundEnd, RoundWish
from antiphon.core.history.steps import MessageStep, TextPart
from antiphon.core.stream.finish import map_finish_reason

_REMINDER = "You have thought, but neither answered nor called a tool. Please answer now."
_REMINDED = "The model sent only reasoning; the request was repeated with a reminder to answer."
_EMPTY = "The model sent reasoning, but no answer."
_DROPPED = (
    "The model made several calls at once, which `parallel_tool_calls: false` forbids; only the"
    " first one is kept."
)


class EmptyAnswerFilter(DeltaFilter):
    """For output that is nothing but reasoning: the model is asked once more to answer.

    Some models end their turn with nothing but reasoning. A client would see a turn that is
    complete and empty, so the model is reminded, once; if it still does not answer, a diagnostic
    says so. Nothing is done about a model that was cut off while it reasoned: the response is
    `incomplete`. The filter stands before those that hold back output: what they hold back counts
    as output.
    """

    def __init__(self, *, reminds: bool = True) -> None:
        self._has_reasoning = False
        self._has_answer = False
        self._reminds = reminds
        self._reminded = False
        self._finish_reason: str | None = None

    def feed(self, delta: Delta) -> list[Delta]:
        if not self._has_answer:  # after that, no delta changes anything
            self._note_output(delta)
        return [delta]

    def passes(self, delta: Delta) -> bool:
        return self._has_answer or isinstance(delta, Reasoning)

    def _note_output(self, delta: Delta) -> None:
        if isinstance(delta, Reasoning):
            self._has_reasoning = True
        elif isinstance(delta, (ToolCall, RawItem)):
            self._has_answer = True
        elif isinstance(delta, (Text, Refusal)):
            self._has_answer = bool(delta.text)
        elif isinstance(delta, Finish):
            self._finish_reason = delta.reason or self._finish_reason

    def close(self, *, final: bool) -> RoundEnd:
        is_empty = self._has_reasoning and not self._has_answer
        reason = self._finish_reason
        self._has_reasoning = self._has_answer = False
        self._finish_reason = None
        if not is_empty:
            return RoundEnd()
        is_complete = map_finish_reason(reason).status == "completed"
        if self._reminded or (is_complete and not self._reminds):
            self._note(Code.ANSWER_EMPTY, "output", _EMPTY)
        elif is_complete:
            return RoundEnd(wish=self._remind())
        return RoundEnd()

    def _remind(self) -> RoundWish:
        self._reminded = True
        self._has_reasoning = True  # the next round counts as empty even if it has no reasoning
        self._note(Code.ANSWER_REMINDED, "output", _REMINDED)
        return RoundWish(FollowUp(steps=(MessageStep("user", (TextPart(_REMINDER),)),)))


class ReasoningSummaryFilter(DeltaFilter):
    """For requests with `reasoning.summary`: raw reasoning is shown as a summary.

    Many clients show reasoning summaries only, and most models give raw reasoning only. The sealed
    state still says what it was, so that the provider gets its own reasoning back in the next turn.
    """

    unchanged: ClassVar[frozenset[type[Delta]]] = frozenset({Text, ToolCall})

    def feed(self, delta: Delta) -> list[Delta]:
        if isinstance(delta, Reasoning) and delta.kind == "raw":
            return [structs.replace(delta, kind="raw_as_summary")]
        return [delta]


class RefusalTextFilter(DeltaFilter):
    """For clients that drop a refusal part: a refusal becomes a message of its own.

    One of the last filters: the others recognize `Refusal`.
    """

    unchanged: ClassVar[frozenset[type[Delta]]] = frozenset({Text, Reasoning, ToolCall})

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._last_kind: type[Delta] | None = None
        self._noted = False

    def feed(self, delta: Delta) -> list[Delta]:
        if not isinstance(delta, Text | Refusal) or not delta.text:
            return [delta]
        changed = self._last_kind is not None and self._last_kind is not type(delta)
        self._last_kind = type(delta)
        before: list[Delta] = [ItemEnd()] if changed else []
        return [*before, self._as_text(delta) if isinstance(delta, Refusal) else delta]

    def _as_text(self, refusal: Refusal) -> Text:
        if not self._noted:
            self._noted = True
            name = self._profile.name
            message = f"The refusal is sent as text: {name} ignores refusal parts."
            self._note(Code.CLIENT_REFUSAL_AS_TEXT, "client", message, name)
        return Text(refusal.text)


class SingleCallFilter(DeltaFilter):
    """For `parallel_tool_calls: false`: the client gets one call at most.

    Some providers have no such parameter, and some models ignore it. The first call is kept; the
    model makes the others again when it has seen the output of the first. The filter stands behind
    those that take calls out of the stream or put calls into it.
    """

    def __init__(self) -> None:
        self._first: int | None = None

    def feed(self, delta: Delta) -> list[Delta]:
        if not isinstance(delta, ToolCall | ToolEnd | ToolRevision):
            return [delta]
        if self._first is None:
            self._first = delta.index
        if delta.index == self._first:
            return [delta]
        if not self.diagnostics:
            self._note(Code.CALL_DROPPED, "parallel_tool_calls", _DROPPED)
        return []

    def passes(self, delta: Delta) -> bool:
        return not isinstance(delta, ToolCall) or delta.index == self._first
