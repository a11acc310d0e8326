"""Actors of reloads: an operator who changes the configuration, and clients of a model whose
provider each configuration changes."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tests.simulation.clients import READS
from tests.simulation.formats.clients import draw_format
from tests.simulation.lifecycle.records import Reload
from tests.simulation.plan import MODELS, MOVING, TENANTS

if TYPE_CHECKING:
    from tests.simulation.gateways import SimulatedGateway
    from tests.simulation.world import World

_RELOADS = 4
_REQUESTS = 6


async def run_reloading_operator(world: World, rng: random.Random) -> None:
    for _ in range(_RELOADS):
        await asyncio.sleep(rng.uniform(1.0, 10.0))
        gateway = rng.choice([*world.running.values()])
        provider = "" if rng.random() < 0.25 else rng.choice([*MODELS])
        if gateway.is_started and not gateway.is_stopping:
            await _reload(world, gateway, provider)


async def _reload(world: World, gateway: SimulatedGateway, provider: str) -> None:
    reload = Reload(gateway.process.name, provider, world.loop.time())
    world.lifecycle.reloads.append(reload)
    world.history.count("reload" if provider else "reload of a wrong file")
    world.note("operator", f"reloads {reload.process}: {provider or 'a wrong file'}")
    if provider:
        config = gateway.config
        models = {**config.models, MOVING: f"{provider}/{MODELS[provider]}"}
        await gateway.reload(replace(config, models=models))
    else:
        await gateway.reload(None)
    reload.ended = world.loop.time()


async def run_moving_client(world: World, rng: random.Random) -> None:
    tenant = rng.choice([*TENANTS])
    for _ in range(_REQUESTS):
        await asyncio.sleep(rng.uniform(0.0, 8.0))
        request = {"model": MOVING, "stream": rng.random() < 0.8}
        exchange = world.new_exchange(tenant, request, draw_format(rng))
        await world.perform(exchange, READS, rng.choice(world.plan.addresses))
