"""Output formats and tool choices that providers have rejected: recognised, avoided, remembered.

A mode is an output format (`json_schema`, `json_object`) or a forced tool choice (`required`,
`function`). A request whose mode was rejected is planned again without it: make_plan then requests
the format or the call in the next weaker way. A mode is remembered only once the request without it
has succeeded, and not if the fault is about this request alone, such as its schema.

Some servers fail with a 500 that says nothing. If it repeats for a request with a forced call or a
schema, the request is sent once without them: the mode was the reason only if that succeeds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from msgspec import Struct

from antiphon.core.faults.fault import FaultType, ProviderFault
from antiphon.core.plan.plan import Plan
from antiphon.engine.routing import Target

Modes: TypeAlias = frozenset[str]
TargetName: TypeAlias = tuple[str, str]
"""The names of provider and model."""

REMEMBERED_S = 3600.0  # a server may be updated, and a 500 may have had another reason
_MAX_TARGETS = 256  # names of models come from clients
_FORCED: Modes = frozenset({"required", "function"})

# Besides every fault of the type invalid_request. A router may find no server for a mode (404).
_STATUSES = frozenset({404, 500, 501})
_FORMAT = re.compile(
    r"response_?(?:json_?)?(?:format|schema)|response_?mime_?type|output_?(?:config|format)"
    r"|text\.format|response format|json[_ -](?:schema|object|mode)|structured[_ ]output",
    re.I,
)
_CHOICE = re.compile(r"tool_?(?:choice|config)|tool choice|function_?calling_?config", re.I)
_TOOL = re.compile(r"\b(?:tool|function)s?\b", re.I)
_THIS_FORMAT = re.compile(r"\bschemas?\b|\b(?:tool|function)s?\b|\bthinking\b|\breasoning\b", re.I)
_THIS_CHOICE = re.compile(r"\bthinking\b|\breasoning\b", re.I)
_SAYS_NOTHING = re.compile(r"|internal server error\.?|assertion ?(?:error|failed)\b.*", re.I)


class ModeRejection(Struct, frozen=True, kw_only=True):
    """A mode that a provider seems to reject."""

    mode: str
    """The mode that was sent."""
    without: Modes
    """The modes that this request does without from now on."""
    is_lasting: bool = True
    """Whether other requests will be rejected for it, too."""
    is_guess: bool = False
    """Whether the fault does not name the mode."""


class RejectedModes:
    """Registry of rejected modes by provider and model; each is forgotten after a while."""

    def __init__(self) -> None:
        self.known: dict[TargetName, dict[str, float]] = {}
        """Modes, and until when each is avoided."""
        self.on_learn: Callable[[str, str, str], None] = lambda provider, model, name: None

    def forget(self, provider: str) -> None:
        """Forget what a provider has rejected: another server has its name now."""
        self.known = {
            target: modes for target, modes in self.known.items() if target[0] != provider
        }

    def learn(self, target: TargetName, mode: str, now: float) -> None:
        self.remember(target, mode, now + REMEMBERED_S)
        self.on_learn(*target, mode)

    def remember(self, target: TargetName, mode: str, until: float) -> None:
        """Remember what another process has learned."""
        modes = self.known.pop(target, {})
        if len(self.known) >= _MAX_TARGETS:
            del self.known[next(iter(self.known))]
        self.known[target] = {**modes, mode: until}

    def of(self, target: TargetName, now: float) -> Modes:
        """The modes that a target is known to reject."""
        modes = self.known.get(target, {})
        return frozenset(mode for mode, until in modes.items() if now < until)


@dataclass
class ModeFallback:
    """The modes that one request does without, at each of its targets."""

    plans: dict[TargetName, Plan]
    replan: Callable[[Target, Modes], Plan]
    """Makes a plan for a target without these modes."""
    rejected: RejectedModes
    clock: Callable[[], float]
    to_remember: dict[TargetName, list[str]] = field(default_factory=dict)
    """Modes that were rejected in this request and may be remembered."""
    _without: dict[TargetName, Modes] = field(default_factory=dict)
    _last: tuple[TargetName, str] | None = None
    """The last fault that named no mode."""
    _has_guessed: bool = False

    def find(self, target: Target, fault: ProviderFault) -> ModeRejection | None:
        """Find the mode of the target's plan that a fault is about, if it seems to be about one."""
        plan = self.plans[target.name]
        if (named := find_named_mode(plan, fault)) is not None:
            return named
        before, self._last = self._last, (target.name, fault.message)
        repeats = before == self._last and says_nothing(fault)
        return guess_mode(plan) if repeats and not self._has_guessed else None

    def avoid(self, target: Target, rejection: ModeRejection) -> None:
        """Replace the target's plan by one that does without the rejected mode."""
        name = target.name
        self._has_guessed = self._has_guessed or rejection.is_guess
        self._without[name] = self._without.get(name, frozenset()) | rejection.without
        known = self.rejected.of(name, self.clock())
        self.plans[name] = self.replan(target, known | self._without[name])
        if rejection.is_lasting:
            self.to_remember.setdefault(name, []).append(rejection.mode)

    def remember(self, target: Target) -> None:
        """Remember what the target has rejected: it accepts the request without that."""
        for mode in self.to_remember.pop(target.name, ()):
            self.rejected.learn(target.name, mode, self.clock())


def find_named_mode(plan: Plan, fault: ProviderFault) -> ModeRejection | None:
    """The mode of a plan that a fault names: its output format or its forced tool choice."""
    if fault.type is not FaultType.invalid_request and fault.status not in _STATUSES:
        return None
    text = f"{fault.message} {fault.upstream.param or ''}"
    return _find_format(plan, text) or _find_choice(plan, text)


def _find_format(plan: Plan, text: str) -> ModeRejection | None:
    asked = plan.contract.asked
    if asked == "text" or not _FORMAT.search(text):
        return None
    lasting = _THIS_FORMAT.search(text) is None
    return ModeRejection(mode=asked, without=frozenset({asked}), is_lasting=lasting)


def _find_choice(plan: Plan, text: str) -> ModeRejection | None:
    choice, has_answer_tool = plan.tool_choice.mode, plan.contract.tool is not None
    is_named = _CHOICE.search(text) or (has_answer_tool and _TOOL.search(text))
    if choice not in _FORCED or not is_named:
        return None
    # An answer tool is worth one rejection: there are other ways to request the format.
    without = _FORCED if has_answer_tool else frozenset({choice})
    lasting = _THIS_CHOICE.search(text) is None
    return ModeRejection(mode=choice, without=without, is_lasting=lasting)


def says_nothing(fault: ProviderFault) -> bool:
    """Whether a fault is a 500 without a reason, as of an unhandled exception in a server."""
    return fault.status == 500 and _SAYS_NOTHING.fullmatch(fault.message.strip()) is not None


def guess_mode(plan: Plan) -> ModeRejection | None:
    """The mode of a plan that a server without support for it is most likely to fail on."""
    asked, choice = plan.contract.asked, plan.tool_choice.mode
    mode = choice if choice in _FORCED else asked
    if mode not in _FORCED and mode != "json_schema":
        return None
    return ModeRejection(mode=mode, without=_FORCED | {mode}, is_guess=True)
