"""Client with limits: several requests at once, more than its limits allow, some of them in the
background and cancelled at once."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from tests.simulation.clients import draw_behaviour
from tests.simulation.formats.clients import draw_format
from tests.simulation.lifecycle.records import BackgroundResponse
from tests.simulation.lifecycle.visits import visit
from tests.simulation.plan import LIMITED

if TYPE_CHECKING:
    from tests.simulation.world import World

_BURSTS = 3
_AGENT = "simulation/1.0"


async def run_limited_client(world: World, rng: random.Random) -> None:
    for _ in range(_BURSTS):
        await asyncio.sleep(rng.uniform(0.0, 12.0))
        await asyncio.gather(*(_send(world, rng) for _ in range(rng.randint(2, 6))))


async def _send(world: World, rng: random.Random) -> None:
    from tests.simulation.world import draw_request

    request = draw_request(rng, None)
    is_background, cancels = rng.random() < 0.3, rng.random() < 0.5
    if is_background:
        request |= {"background": True, "store": True, "stream": False}
    format = "responses" if is_background else draw_format(rng)
    if format != "responses":
        request = {name: request[name] for name in ("model", "stream")}
    exchange = world.new_exchange(LIMITED, request, format)
    exchange.agent = _AGENT
    address = rng.choice(world.plan.addresses)
    await world.perform(exchange, draw_behaviour(rng), address)
    world.history.count("request of a limited client")
    if is_background and (response_id := exchange.response_id):
        response = BackgroundResponse(response_id, exchange)
        world.lifecycle.background[response_id] = response
        if cancels:
            path = f"/v1/responses/{response_id}/cancel"
            response.cancels.append(await visit(world, LIMITED, "POST", path, address))
