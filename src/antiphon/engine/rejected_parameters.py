"""Parameters that providers have rejected, and how to recognise one in a fault.

A provider that answers 400 and names a parameter gets the request once more without it, and from
then on no request with it. A complaint about a value concerns one request only. The dialect knows
which parameters can be left out, and how.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from antiphon.core.diagnostic import Code, Decision, Diagnostic
from antiphon.core.faults.fault import ProviderFault
from antiphon.core.plan.plan import Outbound
from antiphon.dialects.dialect import Dialect

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


class RejectedParameters:
    """Registry of rejected parameters by provider and model, for the lifetime of the process."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], dict[str, None]] = {}
        """Parameter names by the names of provider and model."""
        self.on_learn: Callable[[str, str, str], None] = lambda provider, model, name: None

    def forget(self, provider: str) -> None:
        """Forget what a provider has rejected: another server has its name now."""
        self.known = {
            target: names for target, names in self.known.items() if target[0] != provider
        }

    def learn(self, provider: str, model: str, parameter: str) -> None:
        self.remember((provider, model), parameter)
        self.on_learn(provider, model, parameter)

    def remember(self, target: tuple[str, str], parameter: str) -> None:
        """Remember what another process has learned."""
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
