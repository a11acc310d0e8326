"""Oracles of reloads."""

from __future__ import annotations

from collections.abc import Iterator

from tests.simulation.plan import FIRST_PROVIDER, MOVING
from tests.simulation.records import Exchange, UpstreamCall
from tests.simulation.safety import Oracle
from tests.simulation.world import World


def one_configuration(world: World) -> Iterator[str]:
    """A request uses one configuration: the one in effect when it came. A wrong file changes
    nothing."""
    calls = world.history.calls_of()
    for exchange in world.history.exchanges:
        made = calls.get(exchange.number, [])
        if exchange.request.get("model") != MOVING or not made:
            continue
        used = {call.provider for call in made}
        allowed = _list_providers(world, exchange, made[0])
        if len(used) > 1:
            yield f"exchange {exchange.number}: has used {sorted(used)}"
        elif not used <= allowed:
            yield f"exchange {exchange.number}: has used {used}, configured was {sorted(allowed)}"


def _list_providers(world: World, exchange: Exchange, call: UpstreamCall) -> set[str]:
    """The providers of the model between the request and its first call."""
    found = {FIRST_PROVIDER}
    for reload in world.lifecycle.reloads:
        if reload.process != exchange.process or not reload.provider:
            continue
        if reload.ended < exchange.began:
            found = {reload.provider}
        elif reload.began <= call.began:
            found.add(reload.provider)
    return found


RELOADS: tuple[Oracle, ...] = (one_configuration,)
