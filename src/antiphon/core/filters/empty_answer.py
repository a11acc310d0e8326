"""The desk for answers that never come: a model that only thought is asked once more.

Some models end their turn with nothing but reasoning. A client would see a turn that is complete
and empty, so the model is reminded, once; if it still says nothing, the client is told so. Of one
that was cut off while it thought, the response says so itself.
"""

from __future__ import annotations

from antiphon.core.diagnostic import Code
from antiphon.core.filters.filter import DeltaFilter
from antiphon.core.history.steps import MessageStep, TextPart
from antiphon.core.plan.follow_up import FollowUp
from antiphon.core.stream.deltas import Delta, Finish, RawItem, Reasoning, Refusal, Text, ToolCall
from antiphon.core.stream.finish import map_finish_reason

_REMINDER = "You have thought, but neither answered nor called a tool. Please answer now."
_ONLY_THOUGHT = "The model only thought; it was asked to answer."
_SILENT = "The model thought, but it did not answer."


class EmptyAnswerFilter(DeltaFilter):
    """The first desk: what another one keeps back was said all the same."""

    def __init__(self, *, reminds: bool = True) -> None:
        super().__init__()
        self._thought = False
        self._spoke = False
        self._reminds = reminds
        self._reminded = False
        self._reason: str | None = None

    def feed(self, delta: Delta) -> list[Delta]:
        if not self._spoke:  # then nothing else matters any more
            self._listen(delta)
        return [delta]

    def _listen(self, delta: Delta) -> None:
        if isinstance(delta, Reasoning):
            self._thought = True
        elif isinstance(delta, ToolCall | RawItem):
            self._spoke = True
        elif isinstance(delta, Text | Refusal):
            self._spoke = bool(delta.text)
        elif isinstance(delta, Finish):
            self._reason = delta.reason or self._reason

    def close(self, *, final: bool) -> list[Delta]:
        self.again = None
        silent = self._thought and not self._spoke
        whole = map_finish_reason(self._reason).status == "completed"
        self._thought = self._spoke = False
        self._reason = None
        if not silent:
            return []
        if self._reminded or (whole and not self._reminds):
            self._note(Code.ANSWER_EMPTY, "output", _SILENT)
        elif whole:
            self._thought = self._reminded = True
            self._note(Code.ANSWER_REMINDED, "output", _ONLY_THOUGHT)
            self.again = FollowUp(steps=(MessageStep("user", (TextPart(_REMINDER),)),))
        return []
