"""The desk for answers that never come: a model that only thought is asked once more.

Some models end their turn with nothing but reasoning. A client would see a turn that is complete
and empty, so the model is reminded, once; if it still says nothing, the client is told so.
"""

from __future__ import annotations

from antiphon.core.deltas import Delta, RawItem, Reasoning, Refusal, Text, ToolCall
from antiphon.core.desk import Again
from antiphon.core.diagnostic import Code, Decision, Diagnostic
from antiphon.core.history import Said, TextPart

_REMINDER = "You have thought, but neither answered nor called a tool. Please answer now."


class SilenceDesk:
    """The first desk: what another one keeps back was said all the same."""

    def __init__(self) -> None:
        self.again: Again | None = None
        self.diagnostics: list[Diagnostic] = []
        self._thought = False
        self._spoke = False
        self._reminded = False

    def feed(self, delta: Delta) -> list[Delta]:
        if isinstance(delta, Reasoning):
            self._thought = True
        elif isinstance(delta, ToolCall | RawItem):
            self._spoke = True
        elif isinstance(delta, Text | Refusal):
            self._spoke = self._spoke or bool(delta.text)
        return [delta]

    def close(self, *, final: bool) -> list[Delta]:
        silent = self._thought and not self._spoke
        self._thought = self._spoke = False
        if silent and self._reminded:
            self._note(Code.ANSWER_EMPTY, "The model thought, but it did not answer.")
        elif silent:
            self._thought = self._reminded = True
            self._note(Code.ANSWER_REMINDED, "The model only thought; it was asked to answer.")
            self.again = Again(steps=(Said("user", (TextPart(_REMINDER),)),))
        return []

    def _note(self, code: Code, message: str) -> None:
        self.diagnostics.append(
            Diagnostic(code=code, decision=Decision.DEGRADED, param="output", message=message)
        )
