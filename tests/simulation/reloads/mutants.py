"""Planted defects of reloads."""

from __future__ import annotations

from typing import Any

from antiphon.config import Config
from antiphon.engine.health import HealthRegistry
from antiphon.server.gateway import GatewayProcess
from tests.simulation.mutant import Mutant


def _forget_health(original: Any) -> Any:
    return lambda self, config, unchanged: original(self, config, ())


def _change_nothing(_: Any) -> Any:
    async def reconfigure(self: GatewayProcess, config: Config) -> None:
        return

    return reconfigure


RELOAD_MUTANTS: tuple[Mutant, ...] = (
    Mutant("a reload changes nothing", GatewayProcess, "reconfigure", _change_nothing),
    Mutant("a reload forgets which keys rest", HealthRegistry, "carry_over", _forget_health),
)
