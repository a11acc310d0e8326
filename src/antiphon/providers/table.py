"""Generates `docs/providers.md` from the provider data.

Run `python -m antiphon.providers.table > docs/providers.md` after a change.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence

from antiphon.core.capabilities import Capabilities
from antiphon.core.plan.effort import EFFORTS
from antiphon.providers.registry import SPECS
from antiphon.providers.spec import Model, Spec

_HEAD = """\
# Providers

What each built-in provider supports. This page is generated from the data in
`src/antiphon/providers` by `python -m antiphon.providers.table`; a test compares the two.

The facts are from the provider's documentation, as of the month given. A table in `antiphon.toml`,
`[providers.<name>.models."<model>"]`, overrides any of them. What a provider does not support is
degraded or ignored, with a diagnostic for the client. The columns from `none` to `max` show the
provider's value for each reasoning effort. A name with `…` is the prefix of a family of names.
Plugins add further providers: [add-a-provider.md](add-a-provider.md).

"""
_REPLAY: Mapping[str, str] = {
    "never": "not replayed as text",
    "tool_turns": "replayed with the tool calls it led to",
    "always": "replayed",
}
_SEARCH: Mapping[str, str] = {
    "native": "by the provider",
    "refuse": "rejected",
    "ignore": "ignored",
    "none": "by the gateway, if it has a search engine",
}


def render() -> str:
    """Return the whole page."""
    head = ("provider", "dialect", "base URL", "key", "facts as of")
    return (
        _HEAD
        + _render_table(head, map(_summary_row, SPECS.values()))
        + "".join(map(_render_section, SPECS.values()))
    )


def _summary_row(spec: Spec) -> Sequence[str]:
    key = _format_code(spec.api_key_env) or ("none" if spec.in_process else "optional")
    if spec.ambient_key:
        key += ", only if configured"
    address = _format_code([spec.base_url]) if spec.base_url else "set `base_url`"
    return f"`{spec.name}`: {spec.title}", spec.dialect, address, key, spec.as_of or "–"


def _render_section(spec: Spec) -> str:
    can = spec.capabilities
    listed = "".join(f"- {name}: {value}\n" for name, value in _list_facts(can).items() if value)
    rows = [_model_row(_format_name(model), model.capabilities or can) for model in spec.models]
    if spec.any_model:
        rows.append(_model_row("any other" if rows else "any", can))
    head = ("model", "context window", "max output", "input", *EFFORTS)
    return f"\n## {spec.title}\n\n{listed}\n{_render_table(head, rows)}"


def _list_facts(can: Capabilities) -> Mapping[str, str]:
    """Return the facts about the provider's default capabilities."""
    strict = "" if can.strict_tools else "; `strict` is ignored"
    closed = "" if can.closed_objects else "; `additionalProperties: false` is removed"
    ranges = [f"`{name}` {least:g} to {most:g}" for name, (least, most) in can.ranges.items()]
    forced = "disables thinking" if can.forced_choice_stops_thinking else ""
    return {
        "Parameters": _format_code(sorted(can.parameters)),
        "Ranges": ", ".join(ranges),
        "Ignored while thinking": _format_code(sorted(can.fixed_by_thinking)),
        "Tool choice": _format_code(sorted(can.tool_choice)) if can.tools else "",
        "A forced tool call": forced if can.tools else "",
        "Formats": _format_code(sorted(can.formats))
        + ("" if can.formats_beside_tools else "; only without tools"),
        "Tools": f"{can.max_tools} at most{strict}{closed}" if can.tools else "none",
        "Web search": _SEARCH[can.web_search],
        "Other hosted tools": _format_code(sorted(can.hosted_tools)),
        "Reasoning of earlier turns": _REPLAY[can.replay_reasoning],
        "Markup leaked into text": _format_code(can.guards),
    }


def _format_name(model: Model) -> str:
    return f"`{model.id}`…" if model.family else f"`{model.id}`"


def _model_row(name: str, can: Capabilities) -> Sequence[str]:
    sizes = [f"{size:,}" if size else "–" for size in (can.context_window, can.max_output_tokens)]
    efforts = [can.efforts.get(effort) or "–" for effort in EFFORTS]
    return name, *sizes, ", ".join(sorted(can.inputs)), *efforts


def _format_code(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _render_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(render())
