"""Filter for answers without output: a model that only reasoned is asked once more to answer.

Some models end their turn with nothing but reasoning. A client would see a turn that is complete
and empty, so the model is reminded, once; if it still does not answer, a diagnostic says so.
Nothing is done about a model that was cut off while it reasoned: the response is `incomplete`.
"""

from __future__ import annotations

from antiphon.core.diagnostic import Code
from antiphon.core.filters.filter import DeltaFilter
from antiphon.core.history.steps import MessageStep, TextPart
from antiphon.core.plan.follow_up import FollowUp
from antiphon.core.stream.deltas import Delta, Finish, RawItem, Reasoning, Refusal, Text, ToolCall
from antiphon.core.stream.finish import map_finish_reason

_REMINDER = "You have thought, but neither answered nor called a tool. Please answer now."
_REMINDED = "The model sent only reasoning; the request was repeated with a reminder to answer."
_EMPTY = "The model sent reasoning, but no answer."


class EmptyAnswerFilter(DeltaFilter):
    """Stands before the filters that hold back output: what they hold back counts as an answer."""

    def __init__(self, *, reminds: bool = True) -> None:
        self._has_reasoning = False
        self._has_answer = False
        self._reminds = reminds
        self._reminded = False
        self._reason: str | None = None

    def feed(self, delta: Delta) -> list[Delta]:
        if not self._has_answer:  # after that, no delta changes anything
            self._note_output(delta)
        return [delta]

    def _note_output(self, delta: Delta) -> None:
        if isinstance(delta, Reasoning):
            self._has_reasoning = True
        elif isinstance(delta, ToolCall | RawItem):
            self._has_answer = True
        elif isinstance(delta, Text | Refusal):
            self._has_answer = bool(delta.text)
        elif isinstance(delta, Finish):
            self._reason = delta.reason or self._reason

    def close(self, *, final: bool) -> list[Delta]:
        is_empty = self._has_reasoning and not self._has_answer
        is_complete = map_finish_reason(self._reason).status == "completed"
        self.follow_up = None
        self._has_reasoning = self._has_answer = False
        self._reason = None
        if not is_empty:
            return []
        if self._reminded or (is_complete and not self._reminds):
            self._note(Code.ANSWER_EMPTY, "output", _EMPTY)
        elif is_complete:
            self._remind()
        return []

    def _remind(self) -> None:
        self._reminded = True
        self._has_reasoning = True  # the next round counts as empty even if it has no reasoning
        self._note(Code.ANSWER_REMINDED, "output", _REMINDED)
        self.follow_up = FollowUp(steps=(MessageStep("user", (TextPart(_REMINDER),)),))
