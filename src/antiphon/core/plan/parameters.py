"""Request parameters: one table of what becomes of each field, and the functions that apply it.

A field is handled by the gateway, forwarded to the provider, echoed in the response, or rejected.
A field that the provider does not support is ignored with a diagnostic, unless its value is the
API's default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import inf
from operator import attrgetter
from typing import Any

from msgspec import Struct

from antiphon.core.capabilities import Capabilities
from antiphon.core.diagnostic import Code, Diagnostic, degraded, ignored
from antiphon.core.plan.plan import Notes
from antiphon.core.request import Request
from antiphon.errors import InvalidRequest

_NONE = frozenset[str]()


class Rule(StrEnum):
    """What becomes of a request field."""

    HANDLE = "handle"
    """The gateway implements it, elsewhere."""
    FORWARD = "forward"
    """Sent to a provider that supports it; otherwise ignored with a diagnostic."""
    ECHO = "echo"
    """Sent to a provider that supports it; otherwise only repeated in the response. A label or a
    hint: without it the response is the same, so there is no diagnostic."""
    REQUIRE = "require"
    """Sent to a provider that supports it; otherwise as `REJECT`."""
    REJECT = "reject"
    """Status 400: without it the request would have another meaning."""


class ParameterRow(Struct, frozen=True):
    path: str
    rule: Rule
    defaults: tuple[Any, ...] = ()
    """Values that are the same as leaving the field out."""
    reason: str = ""
    """Why it is rejected, for the client."""

    @property
    def name(self) -> str:
        """Its name in capabilities and plans."""
        return self.path.rpartition(".")[2]


_HANDLED = """
    model input instructions previous_response_id conversation stream stream_options store
    background include shows_searches tools inherits_tools tool_choice text.format reasoning.effort
    context_management type
    generate stream_id state_carrier client_format
""".split()

_ECHOED = """
    metadata client_metadata user safety_identifier prompt_cache_key prompt_cache_options
    prompt_cache_retention image thinking prompt_caching cache_control betas extra
""".split()
_KEEP_ALL_THINKING = {"type": "clear_thinking_20251015", "keep": "all"}

PARAMETERS: tuple[ParameterRow, ...] = (
    *(ParameterRow(path, Rule.HANDLE) for path in _HANDLED),
    ParameterRow("max_output_tokens", Rule.FORWARD),
    ParameterRow("stop", Rule.FORWARD, ((),)),
    ParameterRow("temperature", Rule.FORWARD, (1,)),
    ParameterRow("top_p", Rule.FORWARD, (1,)),
    ParameterRow("top_k", Rule.FORWARD),
    ParameterRow("seed", Rule.FORWARD),
    ParameterRow("logit_bias", Rule.FORWARD, ({},)),
    ParameterRow("presence_penalty", Rule.FORWARD, (0,)),
    ParameterRow("frequency_penalty", Rule.FORWARD, (0,)),
    ParameterRow("top_logprobs", Rule.FORWARD, (0,)),
    # The gateway itself drops parallel calls where the client allows only one.
    ParameterRow("parallel_tool_calls", Rule.ECHO),
    ParameterRow("text.verbosity", Rule.FORWARD, ("medium",)),
    # `auto` requests whatever summary there is, and that is sent in any case.
    ParameterRow("reasoning.summary", Rule.FORWARD, ("auto",)),
    ParameterRow("reasoning.generate_summary", Rule.FORWARD, ("auto",)),
    ParameterRow("reasoning.context", Rule.FORWARD, ("auto",)),
    ParameterRow("reasoning.mode", Rule.FORWARD, ("standard",)),
    ParameterRow("max_tool_calls", Rule.FORWARD),
    ParameterRow("truncation", Rule.FORWARD, ("disabled",)),
    # The tier decides price and speed, so a client has to know that it did not get it.
    ParameterRow("service_tier", Rule.FORWARD, ("auto", "default")),
    ParameterRow("access_programs", Rule.FORWARD),
    ParameterRow("multi_agent", Rule.FORWARD),
    # Without any edits, all of the thinking is kept.
    ParameterRow("context_edits", Rule.FORWARD, ((), (_KEEP_ALL_THINKING,))),
    *(ParameterRow(path, Rule.ECHO) for path in _ECHOED),
    ParameterRow(
        "prefill",
        Rule.REQUIRE,
        reason="this model does not continue a message of the assistant; end with one of the user",
    ),
    ParameterRow(
        "prompt",
        Rule.REJECT,
        reason="the gateway does not store prompts; send the text in `instructions`",
    ),
    ParameterRow(
        "moderation", Rule.REJECT, reason="the gateway does not moderate content; leave it out"
    ),
)

KNOWN = frozenset(row.path.partition(".")[0] for row in PARAMETERS)
_ROWS = tuple(row for row in PARAMETERS if row.rule is not Rule.HANDLE)
_REASONING = "reasoning."


def _field_of(row: ParameterRow) -> str:
    """The field of `Request` that holds the value of a parameter, or the object that it is in."""
    return "reasoning" if row.path.startswith(_REASONING) else row.name


_read_fields = attrgetter(*map(_field_of, _ROWS))


def decide_parameters(
    request: Request,
    capabilities: Capabilities,
    notes: Notes,
    *,
    fixed: frozenset[str] = _NONE,
    not_applicable: frozenset[str] = _NONE,
) -> dict[str, Any]:
    """Choose the values that are sent to the provider, and report the others.

    `fixed` parameters are not supported at the effort of this request. `not_applicable` ones have
    no meaning in it: they are neither sent nor reported.
    """
    parameters: dict[str, Any] = {}
    for row, field in zip(_ROWS, _read_fields(request), strict=True):
        if field is None:  # the usual case
            continue
        name = row.name
        value = field.get(name) if row.path.startswith(_REASONING) else field
        if value is None or name in not_applicable:
            continue
        if row.rule is Rule.REJECT:
            _reject(row, value)
        elif name in capabilities.parameters and name not in fixed:
            parameters[name] = value
        elif row.rule is Rule.REQUIRE:
            _reject(row, value)
        elif row.rule is Rule.FORWARD and value not in row.defaults:
            when = " at this reasoning effort" if name in fixed else ""
            problem = f"is not supported by {capabilities.model_name}{when}"
            notes.append(_ignored(row.path, problem))
    if parameters:
        _drop_conflicts(parameters, capabilities, notes)
        _drop_blank_stops(parameters, capabilities, notes)
        _clamp_numbers(parameters, capabilities, notes)
        _shorten_lists(parameters, capabilities, notes)
        _drop_invalid_strings(parameters, capabilities, notes)
    if "extra" not in parameters:
        _report_unknown(request, notes)
    return parameters


def _reject(row: ParameterRow, value: object) -> None:
    if value:
        raise InvalidRequest(
            f"`{row.path}` is not supported: {row.reason}.",
            param=row.path,
            code="unsupported_parameter",
        )


def _ignored(path: str, problem: str) -> Diagnostic:
    return ignored(Code.PARAM_IGNORED, path, f"`{path}` {problem}; ignored.")


def _report_unknown(request: Request, notes: Notes) -> None:
    notes.extend(_unknown(name, request.similar.get(name)) for name in request.unknown)
    if request.unknown_more:
        notes.append(_more_unknown(request.unknown_more))


def _unknown(name: str, similar: str | None) -> Diagnostic:
    hint = f" Did you mean '{similar}'?" if similar is not None else ""
    message = f"`{name}` is not a field of the API; ignored.{hint}"
    return ignored(Code.PARAM_UNKNOWN, name, message)


def _more_unknown(count: int) -> Diagnostic:
    message = f"{count:,} more fields are not of the API; ignored."
    return ignored(Code.PARAM_UNKNOWN, "", message, f"{count}_more")


def _clamp_numbers(parameters: dict[str, Any], capabilities: Capabilities, notes: Notes) -> None:
    """Bring numbers into the provider's range: it would reject the request otherwise."""
    ranges = {**capabilities.ranges}
    if capabilities.max_output_tokens is not None:
        ranges["max_output_tokens"] = (0, capabilities.max_output_tokens)
    for name, (least, most) in ranges.items():
        value = parameters.get(name)
        if isinstance(value, int | float) and not least <= value <= most:
            bound, limit = ("maximum", most) if value > most else ("minimum", least)
            parameters[name] = limit
            message = (
                f"`{name}` {value} is out of range for {capabilities.model_name};"
                f" clamped to its {bound} of {limit}."
            )
            notes.append(degraded(Code.PARAM_DEGRADED, name, message))


def _shorten_lists(parameters: dict[str, Any], capabilities: Capabilities, notes: Notes) -> None:
    """Cut lists to the length that the provider accepts."""
    for name, (_, most) in capabilities.ranges.items():
        value = parameters.get(name)
        if isinstance(value, tuple) and len(value) > most:
            parameters[name] = value[: int(most)]
            message = (
                f"`{name}` has {len(value)} elements, and {capabilities.model_name} accepts"
                f" {most:g}; the others are ignored."
            )
            notes.append(degraded(Code.PARAM_DEGRADED, name, message))


def _drop_invalid_strings(
    parameters: dict[str, Any], capabilities: Capabilities, notes: Notes
) -> None:
    """Drop strings that the provider would reject; a part of one would mean something else."""
    for name, value in [*parameters.items()]:
        least, most = capabilities.ranges.get(name, (0, inf))
        if isinstance(value, str) and not least <= len(value) <= most:
            length = f"{least:g} to {most:g} characters"
            notes.append(_ignored(name, f"must have {length} for {capabilities.model_name}"))
            del parameters[name]
        elif value not in capabilities.allowed_values.get(name, (value,)):
            problem = f"has a value that is not supported by {capabilities.model_name}"
            notes.append(_ignored(name, problem))
            del parameters[name]


def _drop_conflicts(parameters: dict[str, Any], capabilities: Capabilities, notes: Notes) -> None:
    """Drop one of two parameters that the provider rejects together."""
    for name, other in capabilities.conflicting_parameters.items():
        if name in parameters and other in parameters:
            del parameters[name]
            problem = f"is not supported by {capabilities.model_name} together with `{other}`"
            notes.append(_ignored(name, problem))


def _drop_blank_stops(parameters: dict[str, Any], capabilities: Capabilities, notes: Notes) -> None:
    """Drop stop sequences that are nothing but white space, where the provider rejects them."""
    stops = parameters.get("stop", ())
    visible = tuple(stop for stop in stops if stop.strip())
    if capabilities.blank_stops or len(visible) == len(stops):
        return
    parameters["stop"] = visible
    message = (
        "`stop` sequences without a visible character are not supported by"
        f" {capabilities.model_name}; ignored."
    )
    notes.append(degraded(Code.PARAM_DEGRADED, "stop", message))


# Additional output: `include`

_ENCRYPTED = "reasoning.encrypted_content"
_LOGPROBS = "message.output_text.logprobs"
SOURCES = "web_search_call.action.sources"
# Parts of the input: they are stored, and listed, as they were sent.
_INPUT_PARTS = frozenset({"message.input_image.image_url", "computer_call_output.output.image_url"})


def decide_include(
    request: Request,
    capabilities: Capabilities,
    notes: Notes,
    *,
    fixed: frozenset[str] = _NONE,
    searches: bool = False,
) -> bool:
    """Decide whether log probabilities are included, and report what cannot be.

    `searches`: the gateway runs the web search itself, and so knows its sources."""
    supported = "top_logprobs" in capabilities.parameters - fixed
    logprobs = _LOGPROBS in request.include and supported
    served = {_ENCRYPTED, *_INPUT_PARTS, *capabilities.include}
    if logprobs:
        served.add(_LOGPROBS)
    if searches:
        served.add(SOURCES)
    for each in sorted(request.include - served):
        message = f"`include` of `{each}` is not supported by {capabilities.model_name}; ignored."
        notes.append(ignored(Code.INCLUDE_IGNORED, "include", message, each))
    return logprobs


# Settings that items of the input change

_UPDATE = "configuration_update"


def find_update(
    items: Sequence[Mapping[str, Any]], outer: str, inner: str
) -> tuple[str, Any] | None:
    """Find the last item that changed a setting: its path and value. It holds for the rest of the
    thread."""
    for index in reversed(range(len(items))):
        setting = items[index].get(outer)
        if items[index].get("type") == _UPDATE and isinstance(setting, Mapping):
            value = setting.get(inner)
            if value is not None:
                return f"input[{index}].{outer}.{inner}", value
    return None


def subject_of(param: str) -> str:
    """A parameter's path without the item that set it: `input[3].text.format` → `text.format`."""
    return param.rpartition("].")[2]
