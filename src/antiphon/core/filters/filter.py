"""Delta filters: they change, hold back or add deltas between the decoder and the state machine.

A *round* is one request to the provider and its output; most responses take one. A filter takes
deltas and gives deltas, over all rounds of one response. When a round is over, a filter may want a
further one: the response then goes on, with the filter's steps added to the history. `Start`,
`Usage`, `ServiceTier`, `ResponseMembers` and `Extra` bypass the filters: they say who answers and
what it costs, and have no position among the output items.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

from antiphon.core.deltas import (
    Delta,
    Extra,
    Finish,
    ResponseMembers,
    ServiceTier,
    Start,
    Usage,
)
from antiphon.core.diagnostic import Code, Diagnostic, degraded
from antiphon.core.history.steps import Step
from antiphon.core.stream.finish import map_finish_reason
from antiphon.core.tools.declaration import ToolChoice

BYPASS = frozenset({Start, Usage, ServiceTier, ResponseMembers, Extra})
"""Deltas that pass no filter: who answers, what it costs, and notes for the trace."""


class FollowUp(Struct, frozen=True, kw_only=True):
    """The request for a further round, made by a delta filter: what it adds to the history, after
    the items of the round that has ended.

    Tool calls in `steps` have the provider's tool names; `tool_choice` holds for this round only.
    """

    steps: tuple[Step, ...]
    tool_choice: ToolChoice | None = None


class Wish(Struct, frozen=True):
    """What a filter wants before the response may end."""


class RoundWish(Wish, frozen=True):
    """A further request to the provider."""

    follow_up: FollowUp
    is_required: bool = False
    """Whether the response fails without this round: the model would never see the results of its
    calls. Otherwise `give_up` releases the deltas held back."""


class RoundEnd(Struct, frozen=True):
    """The end of a round for one filter: what it releases, and what it wants."""

    deltas: Sequence[Delta] = ()
    wish: Wish | None = None
    """None: as far as this filter is concerned, the response may end."""


class FinishReason:
    """The finish reason of a round: the last one that is not empty counts."""

    def __init__(self) -> None:
        self._reason: str | None = None

    def feed(self, delta: Finish) -> None:
        self._reason = delta.reason or self._reason

    @property
    def is_complete(self) -> bool:
        """Whether the round ended well: it was neither cut off nor blocked."""
        return map_finish_reason(self._reason).status == "completed"


class DeltaFilter(ABC):
    """One filter of one response. Only `feed` is required; most filters need no more."""

    unchanged: ClassVar[frozenset[type[Delta]]] = frozenset()
    """Kinds of deltas that always pass unchanged, and change nothing here."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """Changes to the response that the client should know of, until they are taken."""

    @abstractmethod
    def feed(self, delta: Delta) -> list[Delta]:
        """Return what takes the place of this delta: itself, nothing, or others."""

    def passes(self, delta: Delta) -> bool:
        """Whether pieces that continue the item of this delta, which was just fed, pass unchanged
        and change nothing here, until another delta comes. Then they need not be fed."""
        return type(delta) in self.unchanged

    def open(self) -> RoundEnd:
        """Want calls before the first request, if the plan says so (`Translation.open_calls`)."""
        return RoundEnd()

    def close(self, *, final: bool) -> RoundEnd:
        """End the round: release the deltas held back, or want something.

        `final` is False if another filter wants a further round already."""
        return RoundEnd()

    def give_up(self) -> Sequence[Delta]:
        """Release everything: what this filter wanted cannot be had."""
        return self.close(final=True).deltas

    def take_diagnostics(self) -> tuple[Diagnostic, ...]:
        """Return the diagnostics that were not taken yet."""
        taken, self.diagnostics = self.diagnostics, ()
        return taken

    def _note(self, code: Code, param: str, message: str, subject: str = "") -> None:
        """Add a diagnostic."""
        self.diagnostics = (*self.diagnostics, degraded(code, param, message, subject))
