"""Reported settings: the fields of a response that tell what was used, not what was requested.

A setting that was not sent to the provider, and that the gateway does not apply itself, has the
API's default in the response. Labels of the client (`metadata`, `user`, `safety_identifier`,
`prompt_cache_key`) and `model` are repeated as they were sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from antiphon.core.plan.plan import ToolChoice
from antiphon.core.planning.declare_tools import DeclaredTools
from antiphon.core.web_search.rules import JSONObject, SearchRules
from antiphon.wire.request import Request
from antiphon.wire.response_from_request import repeat_tool_choice, repeat_tools, report_tier

_DEFAULTS: Mapping[str, Any] = {
    "max_output_tokens": None,
    "temperature": 1.0,
    "top_p": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "top_logprobs": 0,
    "truncation": "disabled",
    "service_tier": "default",
    "max_tool_calls": None,
}
"""Settings of the response that are parameters of the provider, with the API's defaults."""

_OTHER_NAMES: Mapping[str, str] = {
    "max_completion_tokens": "max_output_tokens",
    "logprobs": "top_logprobs",
    "reasoning_effort": "reasoning.effort",
    "effort": "reasoning.effort",
    "reasoning": "reasoning.effort",
    "summary": "reasoning.summary",
    "verbosity": "text.verbosity",
}
"""Names of these settings in the requests of providers, in snake case."""
_NESTED_DEFAULTS = {"effort": None, "summary": None, "verbosity": "medium"}


def report_settings(
    request: Request,
    parameters: Mapping[str, Any],
    tools: DeclaredTools,
    search: SearchRules | None,
    effort: str | None,
    text_format: Mapping[str, Any],
) -> dict[str, Any]:
    """The settings of a response by field: `parameters` are those that are sent."""
    reported = {name: parameters.get(name, default) for name, default in _DEFAULTS.items()}
    summary = parameters.get("summary", parameters.get("generate_summary"))
    if search is not None:
        reported["max_tool_calls"] = request.max_tool_calls  # the gateway counts its searches
    return reported | {
        "service_tier": report_tier(reported["service_tier"]),
        "reasoning": {
            "effort": effort,
            "summary": summary or ("auto" if request.summary else None),
        },
        "text": {"format": text_format, "verbosity": parameters.get("verbosity", "medium")},
        "tool_choice": repeat_tool_choice(_report_choice(request.tool_choice, tools.tool_choice)),
        "tools": repeat_tools(request.tools, tools.unused),
    }


def _report_choice(choice: str | JSONObject, sent: ToolChoice) -> str | JSONObject:
    """The choice, without the obligation to call a tool where the provider does not know it."""
    nested = {} if isinstance(choice, str) else choice
    is_list = nested.get("type") == "allowed_tools"
    mode = nested.get("mode") if is_list else choice
    if mode in ("auto", "none") or sent.mode in ("required", "function"):
        return choice
    if isinstance(choice, str):
        return "auto"
    if is_list:
        return {**choice, "mode": "auto"}
    return {"type": "allowed_tools", "mode": "auto", "tools": [choice]}


def remove_settings(reported: Mapping[str, Any], refused: Iterable[str]) -> dict[str, Any]:
    """The settings after a provider has refused some of its parameters, by its names for them."""
    changed = dict(reported)
    for name in refused:
        snake_case = re.sub(r"([A-Z])", lambda found: f"_{found[1].lower()}", name)
        outer, _, inner = _OTHER_NAMES.get(snake_case, snake_case).partition(".")
        if inner:
            changed[outer] = {**changed[outer], inner: _NESTED_DEFAULTS[inner]}
        elif outer in _DEFAULTS:
            changed[outer] = _DEFAULTS[outer]
    return changed
