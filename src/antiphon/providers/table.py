"""`docs/providers.md`, written from the providers' own data.

Run `python -m antiphon.providers.table > docs/providers.md` after a change.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence

from antiphon.core.plan.plan import Capabilities
from antiphon.core.planning.make_plan import EFFORTS
from antiphon.providers.registry import SPECS
from antiphon.providers.spec import Model, Spec

_HEAD = """\
# Providers

What each built-in provider is asked for. This page is written from the data in
`src/antiphon/providers` by `python -m antiphon.providers.table`; a test compares the two.

The facts are the provider's own, as of the month given, and a table in `antiphon.toml`,
`[providers.<name>.models."<model>"]`, overrides any of them. What a provider does not take is
degraded or left out, and the client is told so. The columns from `none` to `max` say what becomes
of a requested effort: the provider's own word for it. A name with `…` is how those of a family
begin. Providers of other packages are found, too: [add-a-provider.md](add-a-provider.md).

"""
_REPLAY: Mapping[str, str] = {
    "never": "not sent back as text",
    "tool_turns": "sent back with the calls it led to",
    "always": "sent back",
}
_SEARCH: Mapping[str, str] = {
    "native": "by the provider",
    "refuse": "refused",
    "ignore": "left out",
}


def render() -> str:
    """The whole page."""
    head = ("provider", "dialect", "address", "key", "facts as of")
    return (
        _HEAD + _table(head, map(_summary, SPECS.values())) + "".join(map(_section, SPECS.values()))
    )


def _summary(spec: Spec) -> Sequence[str]:
    key = _code(spec.api_key_env) or ("none" if spec.in_process else "optional")
    if spec.ambient_key:
        key += ", if configured"
    address = _code([spec.base_url]) if spec.base_url else "yours (`base_url`)"
    return f"`{spec.name}`: {spec.title}", spec.dialect, address, key, spec.as_of or "–"


def _section(spec: Spec) -> str:
    can = spec.capabilities
    listed = "".join(f"- {name}: {value}\n" for name, value in _facts(can).items() if value)
    rows = [_row(_name(model), model.capabilities or can) for model in spec.models]
    if spec.any_model:
        rows.append(_row("any other" if rows else "any", can))
    head = ("model", "window", "output", "input", *EFFORTS)
    return f"\n## {spec.title}\n\n{listed}\n{_table(head, rows)}"


def _facts(can: Capabilities) -> Mapping[str, str]:
    """What holds of every model that says nothing else."""
    strict = "" if can.strict_tools else "; `strict` is not kept"
    closed = "" if can.closed_objects else "; nor is `additionalProperties: false`"
    ranges = [f"`{name}` {least:g} to {most:g}" for name, (least, most) in can.ranges.items()]
    forced = "made without thinking" if can.forced_choice_stops_thinking else ""
    return {
        "Parameters": _code(sorted(can.parameters)),
        "Ranges": ", ".join(ranges),
        "Not while it thinks": _code(sorted(can.fixed_by_thinking)),
        "Tool choice": _code(sorted(can.tool_choice)) if can.tools else "",
        "A call that has to be made": forced if can.tools else "",
        "Formats": _code(sorted(can.formats))
        + ("" if can.formats_beside_tools else "; only without tools"),
        "Tools": f"{can.max_tools} at most{strict}{closed}" if can.tools else "none",
        "Web search": _SEARCH[can.web_search],
        "Reasoning of earlier turns": _REPLAY[can.replay_reasoning],
        "Leaks into its text": _code(can.guards),
    }


def _name(model: Model) -> str:
    return f"`{model.id}`…" if model.family else f"`{model.id}`"


def _row(name: str, can: Capabilities) -> Sequence[str]:
    sizes = [f"{size:,}" if size else "–" for size in (can.context_window, can.max_output_tokens)]
    efforts = [can.efforts.get(rung) or "–" for rung in EFFORTS]
    return name, *sizes, ", ".join(sorted(can.inputs)), *efforts


def _code(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    sys.stdout.write(render())
