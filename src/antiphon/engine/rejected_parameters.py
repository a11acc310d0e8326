"""What providers refused, and how to ask without it.

An upstream that answers 400 and names a parameter is asked once more without it, and from then on
never with it; but a complaint about a value is about one request alone. Only what can be left out
is: a question without messages is no question.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, TypeAlias

import msgspec

from antiphon.core.diagnostic import Code, Decision, Diagnostic
from antiphon.core.faults.fault import ProviderFault
from antiphon.core.plan.plan import Outbound

Body: TypeAlias = dict[str, Any]

# Without these there is nothing to ask, or something else would be asked.
_ESSENTIAL = frozenset(
    "model messages contents input system systemInstruction instructions stream tools tool_choice "
    "toolConfig response_format text prompt".split()
)
# Objects that hold parameters, in the dialects that group them.
_GROUPS = ("generationConfig", "options", "inferenceConfig", "stream_options", "reasoning")
# The same thing by a newer name, which some servers insist on.
_RENAMED = {"max_tokens": "max_completion_tokens"}
_STRICT = "strict"  # stands in every tool
# Names that are words, too: roles must alternate between user and assistant.
_WORDS = frozenset("user stop seed n k p store include metadata reasoning think format".split())
_A_PARAMETER = r"(?:parameter|argument|field|propert|option|key|input)\w*(?: supplied)?"
_VALUE = re.compile(
    r"\b(?:must|should) be\b|\bbetween\b|\brange\b|\bat (?:most|least)\b|\b(?:less|greater) than\b"
    r"|\btoo (?:large|small|high|low|long|short|big|many)\b|\bexceeds?\b|\bmax(?:imum)?\b",
    re.I,
)


class RejectedParameters:
    """Refused parameters, by provider and model, for as long as the process lives."""

    def __init__(self) -> None:
        self._refused: dict[tuple[str, str], dict[str, None]] = {}

    def learn(self, provider: str, model: str, parameter: str) -> None:
        self._refused.setdefault((provider, model), {})[parameter] = None

    def applied(
        self, provider: str, model: str, outbound: Outbound, also: Collection[str] = ()
    ) -> tuple[Outbound, list[Diagnostic]]:
        """The request as this provider takes it, and what the client should know of that.

        `also` is what was refused of this very request."""
        refused = dict.fromkeys([*self._refused.get((provider, model), ()), *also])
        if not refused:
            return outbound, []
        body = _opened(outbound)
        dropped = [name for name in refused if _drop(body, name, renaming=name not in also)]
        changed = msgspec.structs.replace(outbound, body=msgspec.json.encode(body))
        return changed, [_diagnostic(name) for name in dropped]


def named_parameter(fault: ProviderFault, outbound: Outbound) -> str | None:
    """The parameter of this request that a fault complains of, if it can be left out."""
    body = _opened(outbound)
    blamed = (fault.upstream.param or "").rpartition(".")[2]
    words = set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", fault.message))
    named = {word for word in words if word not in _WORDS or _is_parameter(word, fault.message)}
    return next((name for name in _droppable(body) if name in named | {blamed}), None)


def is_about_value(fault: ProviderFault) -> bool:
    """Whether another value of the parameter would have been taken."""
    return _VALUE.search(fault.message) is not None


def _is_parameter(word: str, message: str) -> bool:
    """Whether a message means a parameter by a word that has another meaning as well."""
    pattern = rf"\b{_A_PARAMETER}\W{{1,4}}{word}\b|\b{word}\W{{1,3}}{_A_PARAMETER}"
    return re.search(pattern, message, re.I) is not None


_open = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def _opened(outbound: Outbound) -> Body:
    """The body as far as parameters may stand in it. What was said stays as it is, to the byte."""
    return {
        name: msgspec.json.decode(raw) if name in (*_GROUPS, "tools") else raw
        for name, raw in _open(outbound.body).items()
    }


def _droppable(body: Body) -> list[str]:
    inner = [name for group in _GROUPS if isinstance(body.get(group), dict) for name in body[group]]
    outer = [name for name in body if name not in _ESSENTIAL]
    return [*outer, *inner, *([_STRICT] if _holders(body) else [])]


def _holders(body: Body) -> list[Body]:
    """The declarations that say whether they are strict."""
    tools = body.get("tools")
    declared = [tool.get("function", tool) for tool in tools] if isinstance(tools, list) else []
    return [each for each in declared if isinstance(each, dict) and _STRICT in each]


def _drop(body: Body, name: str, *, renaming: bool) -> bool:
    """Leave a parameter out, wherever it stands; False if it is not there."""
    if name == _STRICT:
        holders = _holders(body)
        for holder in holders:
            del holder[_STRICT]
        return bool(holders)
    groups = [body, *(body[group] for group in _GROUPS if isinstance(body.get(group), dict))]
    for group in groups:
        if name in group:
            value = group.pop(name)
            if renaming and name in _RENAMED:
                group.setdefault(_RENAMED[name], value)
            _restore_order(body)
            return True
    return False


def _restore_order(body: Body) -> None:
    """Messages stay last, so that prompt caches survive what was learned."""
    for last in ("messages", "contents", "input"):
        if last in body:
            body[last] = body.pop(last)


def _diagnostic(name: str) -> Diagnostic:
    return Diagnostic(
        code=Code.PARAM_REFUSED,
        decision=Decision.DEGRADED,
        param=name,
        message=f"The provider refuses `{name}`; it is asked without it.",
    )
