"""What becomes of every field of a request: one table, and the few lines that read it.

A field is done by the gateway itself, taken to the provider, merely repeated in the response, or
refused. What a provider does not take is ignored, and said to be, unless its value asks for nothing
that would not have happened anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from math import inf
from typing import Any

from msgspec import Struct

from antiphon.core.diagnostic import Code, Decision, Diagnostic
from antiphon.core.plan.plan import Capabilities
from antiphon.errors import InvalidRequest
from antiphon.wire.request import Request


class Rule(StrEnum):
    """Who does something about a field."""

    OWN = "own"
    """The gateway, elsewhere: nothing is lost."""
    TAKE = "take"
    """The provider, if it takes it; otherwise it is ignored, visibly."""
    ECHO = "echo"
    """The provider, if it takes it; otherwise the response repeats it, and nothing is lost."""
    REFUSE = "refuse"
    """Nobody, and to answer without it would be to answer another question."""


class ParameterRow(Struct, frozen=True):
    path: str
    rule: Rule
    why: str
    """For a client to read, where the field is ignored or refused."""
    plain: tuple[Any, ...] = ()
    """Values that ask for nothing special."""

    @property
    def name(self) -> str:
        """What capabilities and plans call it."""
        return self.path.rpartition(".")[2]


_OWN = """
    model input instructions previous_response_id stream stream_options store background include
    tools tool_choice text.format reasoning.effort type generate stream_id
""".split()

PARAMETERS: tuple[ParameterRow, ...] = (
    *(ParameterRow(path, Rule.OWN, "the gateway does it") for path in _OWN),
    ParameterRow("max_output_tokens", Rule.TAKE, "the model decides how much it writes"),
    ParameterRow("temperature", Rule.TAKE, "the model samples in its own way", (1,)),
    ParameterRow("top_p", Rule.TAKE, "the model samples in its own way", (1,)),
    ParameterRow("presence_penalty", Rule.TAKE, "the model repeats itself as it likes", (0,)),
    ParameterRow("frequency_penalty", Rule.TAKE, "the model repeats itself as it likes", (0,)),
    ParameterRow("top_logprobs", Rule.TAKE, "the model tells no probabilities", (0,)),
    ParameterRow(
        "parallel_tool_calls", Rule.ECHO, "whatever the model does, one call at a time is told"
    ),
    ParameterRow("text.verbosity", Rule.TAKE, "the model decides how much it says", ("medium",)),
    # `auto` asks for whatever there is, and whatever there is gets sent.
    ParameterRow(
        "reasoning.summary", Rule.TAKE, "reasoning comes as the model tells it", ("auto",)
    ),
    ParameterRow(
        "reasoning.generate_summary", Rule.TAKE, "reasoning comes as it is told", ("auto",)
    ),
    ParameterRow("reasoning.context", Rule.TAKE, "the model decides what it remembers", ("auto",)),
    ParameterRow("reasoning.mode", Rule.TAKE, "the model has one way to think", ("standard",)),
    ParameterRow("max_tool_calls", Rule.TAKE, "calls of built-in tools are not counted"),
    ParameterRow(
        "truncation", Rule.TAKE, "nothing is cut from a prompt that is too long", ("disabled",)
    ),
    # The tier decides price and speed, so a client has to know that it did not get it.
    ParameterRow("service_tier", Rule.TAKE, "the provider has no such tiers", ("auto", "default")),
    ParameterRow("access_programs", Rule.TAKE, "the provider has no such programmes"),
    ParameterRow("multi_agent", Rule.TAKE, "agents are the client's to run"),
    # Labels and hints: the answer is the same without them.
    ParameterRow("metadata", Rule.ECHO, "a label for the client's own use"),
    ParameterRow("client_metadata", Rule.ECHO, "a label for the client's own use"),
    ParameterRow("user", Rule.ECHO, "a label for the operator's own use"),
    ParameterRow("safety_identifier", Rule.ECHO, "a label for the operator's own use"),
    ParameterRow("prompt_cache_key", Rule.ECHO, "a hint; caches work without it"),
    ParameterRow("prompt_cache_options", Rule.ECHO, "a hint; caches work without it"),
    ParameterRow("prompt_cache_retention", Rule.ECHO, "a hint; caches work without it"),
    ParameterRow("image", Rule.ECHO, "a hint; images are sent as they are"),
    ParameterRow(
        "conversation", Rule.REFUSE, "conversations are not kept here; use previous_response_id"
    ),
    ParameterRow("prompt", Rule.REFUSE, "prompt templates are not kept here"),
    ParameterRow("moderation", Rule.REFUSE, "nothing is moderated here"),
    ParameterRow("context_management", Rule.REFUSE, "contexts are not compacted during a run"),
)

KNOWN = frozenset(row.path.partition(".")[0] for row in PARAMETERS)
_FIELDS = tuple((row.path.partition(".")[0], row) for row in PARAMETERS if row.rule is not Rule.OWN)


def decide(
    request: Request, capabilities: Capabilities, *, moot: frozenset[str] = frozenset()
) -> tuple[dict[str, Any], list[Diagnostic]]:
    """The values that go to the provider, and what is said about the others but the moot ones."""
    parameters: dict[str, Any] = {}
    diagnostics: list[Diagnostic] = []
    for field, row in _FIELDS:
        if field not in request.raw:  # as nearly always
            continue
        name, value = row.name, _given(request.raw, row.path)
        if value is None or name in moot:
            continue
        if row.rule is Rule.REFUSE:
            _refuse(row, value)
        elif name in capabilities.parameters:
            parameters[name] = value
        elif row.rule is Rule.TAKE and value not in row.plain:
            diagnostics.append(_ignored(row.path, row.why))
    diagnostics += _give_way(parameters, capabilities)
    diagnostics += _clamp(parameters, capabilities)
    diagnostics += _unsaid(parameters, capabilities)
    diagnostics += [_unknown(name) for name in request.unknown if name not in KNOWN]
    return parameters, diagnostics


def _given(raw: Mapping[str, Any], path: str) -> Any:
    outer, _, inner = path.partition(".")
    value = raw.get(outer)
    if not inner:
        return value
    return value.get(inner) if isinstance(value, Mapping) else None


def _refuse(row: ParameterRow, value: object) -> None:
    if value:
        raise InvalidRequest(
            f"`{row.path}` is not supported: {row.why}.",
            param=row.path,
            code="unsupported_parameter",
        )


def _ignored(path: str, why: str) -> Diagnostic:
    return Diagnostic(
        code=Code.PARAM_IGNORED,
        decision=Decision.IGNORED,
        param=path,
        message=f"`{path}` has no effect: {why}.",
    )


def _unknown(name: str) -> Diagnostic:
    return Diagnostic(
        code=Code.PARAM_UNKNOWN,
        decision=Decision.IGNORED,
        param=name,
        message=f"`{name}` is not a field of the API, and has no effect.",
    )


def _clamp(parameters: dict[str, Any], capabilities: Capabilities) -> Iterator[Diagnostic]:
    """A provider refuses to be asked for more than it has, or for less."""
    ranges = {**capabilities.ranges}
    if capabilities.max_output_tokens is not None:
        ranges["max_output_tokens"] = (0, capabilities.max_output_tokens)
    for name, (least, most) in ranges.items():
        asked = parameters.get(name)
        if isinstance(asked, int | float) and not least <= asked <= most:
            parameters[name] = taken = min(max(asked, least), most)
            yield Diagnostic(
                code=Code.PARAM_DEGRADED,
                decision=Decision.DEGRADED,
                param=name,
                message=f"`{name}` is {taken}, not {asked}: that is as far as the provider goes.",
            )


def _unsaid(parameters: dict[str, Any], capabilities: Capabilities) -> Iterator[Diagnostic]:
    """A text that the provider would refuse; half of it would say something else."""
    for name, value in [*parameters.items()]:
        least, most = capabilities.ranges.get(name, (0, inf))
        if isinstance(value, str) and not least <= len(value) <= most:
            yield _ignored(name, f"the provider takes {least:g} to {most:g} characters")
            del parameters[name]
        elif value not in capabilities.words.get(name, (value,)):
            yield _ignored(name, "the provider has nothing of that name")
            del parameters[name]


def _give_way(parameters: dict[str, Any], capabilities: Capabilities) -> Iterator[Diagnostic]:
    """Of two parameters that the provider refuses beside each other, one counts."""
    for name, other in capabilities.conflicting_parameters.items():
        if name in parameters and other in parameters:
            del parameters[name]
            yield _ignored(name, f"the provider takes it only without `{other}`")


# Extra output

_SERVED = "reasoning.encrypted_content"
_LOGPROBS = "message.output_text.logprobs"
SOURCES = "web_search_call.action.sources"


def decide_include(
    request: Request, capabilities: Capabilities, *, searches: bool = False
) -> tuple[bool, list[Diagnostic]]:
    """Whether probabilities are told, and what else of the extra output cannot be.

    `searches` says that the gateway searches the web itself, and so knows what was found."""
    logprobs = _LOGPROBS in request.include and "top_logprobs" in capabilities.parameters
    served = {_SERVED, *([_LOGPROBS] if logprobs else []), *([SOURCES] if searches else [])}
    return logprobs, [
        Diagnostic(
            code=Code.INCLUDE_IGNORED,
            decision=Decision.IGNORED,
            param="include",
            message=f"`{each}` cannot be included.",
            subject=each,
        )
        for each in sorted(request.include - served)
    ]
