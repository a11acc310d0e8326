"""Run one seed and check it against every oracle."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.simulation.bounds.oracles import BOUNDS
from tests.simulation.formats.oracles import FORMATS
from tests.simulation.lifecycle.oracles import LIFECYCLE
from tests.simulation.limits.oracles import LIMITS
from tests.simulation.liveness import LIVENESS
from tests.simulation.mcp.oracles import MCP
from tests.simulation.reloads.oracles import RELOADS
from tests.simulation.safety import SAFETY, Oracle
from tests.simulation.world import World, simulated

ORACLES: tuple[Oracle, ...] = (
    *SAFETY,
    *LIVENESS,
    *LIFECYCLE,
    *LIMITS,
    *RELOADS,
    *BOUNDS,
    *FORMATS,
    *MCP,
)


@dataclass(frozen=True)
class Report:
    """The result of one seed."""

    seed: int
    streams: int
    virtual_s: float
    digest: str
    violations: tuple[str, ...] = ()
    faults: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    formats: Counter[str] = field(default_factory=Counter)
    """Requests by the format of their client."""
    lines: tuple[tuple[float, str, str], ...] = ()
    """The time line, where it was asked for."""


def violations_of(world: World) -> list[str]:
    return [f"{oracle.__name__}: {each}" for oracle in ORACLES for each in oracle(world)]


def run_seed(seed: int, *, use_corpus: bool = False, keep_lines: bool = False) -> Report:
    with simulated(seed, use_corpus=use_corpus) as world:
        history = world.history
        violations = tuple(violations_of(world))
        return Report(
            seed=seed,
            streams=len(history.exchanges) + sum(each.is_stream for each in history.visits),
            virtual_s=world.loop.time(),
            digest=world.digest(),
            violations=violations,
            faults=Counter(history.faults) + Counter(world.disk.faults),
            outcomes=Counter(exchange.result for exchange in history.exchanges),
            formats=Counter(exchange.format for exchange in history.exchanges),
            lines=tuple(history.lines) if keep_lines or violations else (),
        )
