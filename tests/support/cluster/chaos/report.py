"""The report of a chaos run, as a table."""

from __future__ import annotations

from statistics import quantiles

from tests.support.cluster.chaos.records import Records
from tests.support.cluster.chaos.verdict import Verdict

MAX_SHOWN = 20


def make_report(records: Records, verdict: Verdict, seconds: float, seed: int) -> str:
    timeline = records.timeline
    head = [
        ("duration", f"{seconds:.0f} s, seed {seed}"),
        ("gateways killed", str(timeline.kills)),
        ("PostgreSQL restarted", str(len(timeline.outages))),
        ("Redis killed", str(timeline.redis_kills)),
    ]
    rows = [*head, *_kind_rows(verdict, True), *_kind_rows(verdict, False)]
    resumed = sum(outcome.cuts for outcome in records.outcomes)
    rows += [
        ("streams resumed on another gateway", str(resumed)),
        ("kill to end of its responses", _describe_delays(verdict)),
        ("responses found as their clients knew them", str(verdict.stored)),
        ("calls of the provider", str(sum(map(len, records.calls.values())))),
        ("violations", str(len(records.violations))),
    ]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {value}" for name, value in rows]
    lines += [f"violation: {each[:600]}" for each in records.violations[:MAX_SHOWN]]
    return "\n".join(lines) + "\n"


def _kind_rows(verdict: Verdict, is_background: bool) -> list[tuple[str, str]]:
    name = "background" if is_background else "foreground"
    kinds = sorted((kind, n) for (each, kind), n in verdict.kinds.items() if each == is_background)
    total = sum(number for _, number in kinds) or 1
    rows = [(f"{name} responses", str(total))]
    rows += [(f"  {kind}", f"{number} ({number / total:.1%})") for kind, number in kinds]
    undisturbed, completed = verdict.undisturbed[is_background], verdict.completed[is_background]
    share = completed / undisturbed if undisturbed else 1.0
    return [*rows, ("  undisturbed, of these completed", f"{undisturbed}, {share:.2%}")]


def _describe_delays(verdict: Verdict) -> str:
    if len(verdict.delays) < 2:
        return "none"
    cuts = quantiles(verdict.delays, n=100)
    limit = verdict.lease_s + 5
    return (
        f"median {cuts[49]:.1f} s, 99 % {cuts[98]:.1f} s, most {max(verdict.delays):.1f} s"
        f" (limit {limit:g} s)"
    )
