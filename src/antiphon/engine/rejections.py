"""What providers have rejected of requests: parameters, output formats and tool choices.

A provider that answers 400 and names a parameter gets the request once more without it, and from
then on no request with it. A complaint about a value concerns one request only. The dialect knows
which parameters can be left out, and how.

A mode is an output format (`json_schema`, `json_object`) or a forced tool choice (`required`,
`function`). A request whose mode was rejected is planned again without it: the plan then requests
the format or the call in the next weaker way. A mode is remembered only once the request without it
has succeeded, and not if the fault is about this request alone, such as its schema.

Some servers fail with a 500 that says nothing. If it repeats for a request with a forced call or a
schema, or if one attempt only is left, the request is sent once without them: the mode was the
reason only if that succeeds. One such 500 may be an accident, so that the mode is remembered when a
second request has met the same. A request that has no attempt left counts as well, but what was
never tried is remembered for a minute only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TypeAlias

from msgspec import Struct, structs

from antiphon.core.diagnostic import Code, Decision, Diagnostic
from antiphon.core.faults.fault import FaultType, ProviderFault
from antiphon.core.plan.plan import Outbound, Plan
from antiphon.core.plan.planner import Modes, TargetName
from antiphon.dialects.dialect import Dialect
from antiphon.engine.routing import Target

# Parameters

# Parameter names that are also words of prose: 'roles must alternate between "user" and …'.
_PROSE_WORDS = frozenset(
    "user stop seed n k p store include metadata reasoning think format".split()
)
_PARAMETER_NOUN = r"(?:parameter|argument|field|propert|option|key|input)\w*(?: supplied)?"
_ABOUT_VALUE = re.compile(
    r"\b(?:must|should) be\b|\bbetween\b|\brange\b|\bat (?:most|least)\b|\b(?:less|greater) than\b"
    r"|\btoo (?:large|small|high|low|long|short|big|many)\b|\bexceeds?\b|\bmax(?:imum)?\b",
    re.I,
)


OnRejection: TypeAlias = Callable[[str, str, str], None]


def keep_to_itself(provider: str, model: str, name: str) -> None:
    """Tell no other process."""


class RejectedParameters:
    """Registry of rejected parameters by provider and model, for the lifetime of the process."""

    def __init__(self, on_learn: OnRejection = keep_to_itself) -> None:
        """`on_learn` is called with the names of provider, model and what it rejects."""
        self.known: dict[tuple[str, str], dict[str, None]] = {}
        """Parameter names by the names of provider and model."""
        self._on_learn = on_learn

    def forget(self, provider: str) -> None:
        """Forget what a provider has rejected: another server has its name now."""
        self.known = {
            target: names for target, names in self.known.items() if target[0] != provider
        }

    def learn(self, provider: str, model: str, parameter: str) -> None:
        """Remember a parameter that was rejected here, and tell other processes."""
        self.remember((provider, model), parameter)
        self._on_learn(provider, model, parameter)

    def remember(self, target: tuple[str, str], parameter: str) -> None:
        """Remember a parameter, and tell no other process."""
        self.known.setdefault(target, {})[parameter] = None

    def apply(
        self,
        dialect: Dialect,
        provider: str,
        model: str,
        outbound: Outbound,
        also: Collection[str] = (),
    ) -> tuple[Outbound, list[Diagnostic]]:
        """Leave out what this model is known to reject, with a diagnostic for each parameter.

        `also` names parameters whose values were rejected in this very request; a newer name of
        such a parameter would carry the same value, so it is not used either.
        """
        rejected = dict.fromkeys([*self.known.get((provider, model), ()), *also])
        diagnostics: list[Diagnostic] = []
        for name in rejected:
            changed = dialect.without(outbound, name, rename=name not in also)
            if changed is not None:
                outbound = changed
                diagnostics.append(_diagnostic(name, f"{provider}/{model}"))
        return outbound, diagnostics


def named_parameter(dialect: Dialect, fault: ProviderFault, outbound: Outbound) -> str | None:
    """The removable parameter of this request that a fault names, if it names one."""
    param = (fault.upstream.param or "").rpartition(".")[2]
    words = set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", fault.message))
    named = {word for word in words if word not in _PROSE_WORDS or _is_named(word, fault.message)}
    removable = dialect.removable_parameters(outbound)
    return next((name for name in removable if name in named | {param}), None)


def is_about_value(fault: ProviderFault) -> bool:
    """Whether the fault rejects the value of a parameter rather than the parameter itself."""
    return _ABOUT_VALUE.search(fault.message) is not None


def _is_named(word: str, message: str) -> bool:
    """Whether a message calls an ambiguous word a parameter: "Unsupported parameter: 'user'"."""
    pattern = rf"\b{_PARAMETER_NOUN}\W{{1,4}}{word}\b|\b{word}\W{{1,3}}{_PARAMETER_NOUN}"
    return re.search(pattern, message, re.I) is not None


def _diagnostic(parameter: str, target: str) -> Diagnostic:
    return Diagnostic(
        code=Code.PARAM_REFUSED,
        decision=Decision.DEGRADED,
        param=parameter,
        message=f"`{parameter}` was rejected by {target}; the request is sent without it.",
    )


# Modes

UNTRIED_S = 60.0
REMEMBERED_S = 3600.0  # a server may be updated, and a 500 may have had another reason
_MAX_TARGETS = 256  # names of models come from clients
_FORCED: Modes = frozenset({"required", "function"})
_FORMATS: Modes = frozenset({"json_schema", "json_object"})

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
    is_first: bool = False
    """Whether it is a guess by a single fault, which may have had another reason."""


class RejectedModes:
    """Registry of rejected modes by provider and model; each is forgotten after a while."""

    def __init__(self, on_learn: OnRejection = keep_to_itself) -> None:
        """`on_learn` is called with the names of provider, model and what it rejects."""
        self.known: dict[TargetName, dict[str, float]] = {}
        """Modes, and until when each is avoided."""
        self._on_learn = on_learn
        self.suspected: dict[TargetName, str] = {}
        """The mode of each target with which one request has failed."""

    def forget(self, provider: str) -> None:
        """Forget what a provider has rejected: another server has its name now."""
        self.known = {
            target: modes for target, modes in self.known.items() if target[0] != provider
        }
        self.suspected = {
            target: mode for target, mode in self.suspected.items() if target[0] != provider
        }

    def learn(self, target: TargetName, mode: str, now: float) -> None:
        """Remember a mode that was rejected here, and tell other processes."""
        self.suspected.pop(target, None)
        self.remember(target, mode, now + REMEMBERED_S)
        self._on_learn(*target, mode)

    def suspect(self, target: TargetName, mode: str, now: float, *, is_tried: bool) -> None:
        """Note that a request with a mode has failed; avoid it when the next one has, too.
        `is_tried`: the same request without the mode has succeeded."""
        if self.suspected.get(target) == mode:
            if is_tried:
                self.learn(target, mode, now)
            else:
                self.remember(target, mode, now + UNTRIED_S)
            return
        if len(self.suspected) >= _MAX_TARGETS:
            del self.suspected[next(iter(self.suspected))]
        self.suspected[target] = mode

    def accept(self, target: TargetName, modes: Modes) -> None:
        """Note that a request with these modes has succeeded."""
        if self.suspected.get(target) in modes:
            del self.suspected[target]

    def remember(self, target: TargetName, mode: str, until: float) -> None:
        """Avoid a mode until then, and tell no other process."""
        modes = self.known.pop(target, {})
        if len(self.known) >= _MAX_TARGETS:
            del self.known[next(iter(self.known))]
        self.known[target] = {**modes, mode: until}

    def of(self, target: TargetName, now: float) -> Modes:
        """The modes that a target is known to reject."""
        modes = self.known.get(target, {})
        return frozenset(mode for mode, until in modes.items() if now < until)


@dataclass(slots=True)
class ModeFallback:
    """Finds the modes of one request that its targets reject."""

    rejected: RejectedModes
    clock: Callable[[], float]
    to_remember: dict[TargetName, list[ModeRejection]] = field(default_factory=dict)
    """What was rejected in this request and may be remembered."""
    _last: tuple[TargetName, str] | None = None
    """The last fault that named no mode."""
    _has_guessed: bool = False

    def find(
        self, target: Target, plan: Plan, fault: ProviderFault, *, is_last: bool = False
    ) -> ModeRejection | None:
        """Find the mode of the target's plan that a fault is about, if it seems to be about one.
        `is_last`: at most one attempt is left."""
        if (named := find_named_mode(plan, fault)) is not None:
            return named
        before, self._last = self._last, (target.name, fault.message)
        repeats = before == self._last
        if self._has_guessed or not says_nothing(fault) or not (repeats or is_last):
            return None
        guess = guess_mode(plan)
        if guess is not None and is_last:  # there is no second step
            guess = structs.replace(guess, without=guess.without | _FORMATS, is_first=not repeats)
        return guess

    def avoid(self, target: Target, rejection: ModeRejection) -> Modes:
        """Return the modes that the request must do without from now on: the rejected one, and
        those that other requests have learned of."""
        self._has_guessed = self._has_guessed or rejection.is_guess
        if rejection.is_lasting:
            self.to_remember.setdefault(target.name, []).append(rejection)
        return rejection.without | self.rejected.of(target.name, self.clock())

    def remember(self, target: Target) -> None:
        """Remember what the target has rejected: it accepts the request without that."""
        for each in self.to_remember.pop(target.name, ()):
            if each.is_first:
                self.rejected.suspect(target.name, each.mode, self.clock(), is_tried=True)
            else:
                self.rejected.learn(target.name, each.mode, self.clock())

    def give_up(self, target: Target, rejection: ModeRejection) -> None:
        """Remember what the target seems to reject, though no attempt is left to go without it."""
        if rejection.is_guess:
            self.rejected.suspect(target.name, rejection.mode, self.clock(), is_tried=False)
        elif rejection.is_lasting:
            self.rejected.learn(target.name, rejection.mode, self.clock())

    def accept(self, target: Target, plan: Plan) -> None:
        """Note that the target has accepted a request by this plan."""
        self.rejected.accept(target.name, frozenset({plan.contract.asked, plan.tool_choice.mode}))


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
    choice = plan.tool_choice.mode
    has_answer_tool = plan.contract.tool is not None
    is_named = _CHOICE.search(text) or (has_answer_tool and _TOOL.search(text))
    if choice not in _FORCED or not is_named:
        return None
    # An answer tool is worth one rejection: there are other ways to request the format.
    without = _FORCED if has_answer_tool else frozenset({choice})
    lasting = _THIS_CHOICE.search(text) is None
    return ModeRejection(mode=choice, without=without, is_lasting=lasting)


def says_nothing(fault: ProviderFault) -> bool:
    """Whether a fault is a 500 without a reason, as of an unhandled exception in a server."""
    text = fault.message.strip() if fault.original else ""  # without a body, it is our own text
    return fault.status == 500 and _SAYS_NOTHING.fullmatch(text) is not None


def guess_mode(plan: Plan) -> ModeRejection | None:
    """The mode of a plan that a server without support for it is most likely to fail on."""
    choice = plan.tool_choice.mode
    mode = choice if choice in _FORCED else plan.contract.asked
    if mode not in _FORCED | _FORMATS:
        return None
    return ModeRejection(mode=mode, without=_FORCED | {mode}, is_guess=True)
