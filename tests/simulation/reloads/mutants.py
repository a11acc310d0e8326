"""Planted defects of reloads."""

from __future__ import annotations

from typing import Any

from antiphon.engine.health import HealthRegistry
from antiphon.server.application import Application
from tests.simulation.mutant import Mutant, do_nothing


def _forget_health(original: Any) -> Any:
    return lambda self, config, unchanged: original(self, config, ())


RELOAD_MUTANTS: tuple[Mutant, ...] = (
    Mutant("a reload changes nothing", Application, "reconfigure", do_nothing),
    Mutant("a reload forgets which keys rest", HealthRegistry, "carry_over", _forget_health),
)
