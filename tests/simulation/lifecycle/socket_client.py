"""Client of a WebSocket: several lanes with requests one after another, and any kind of end."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from tests.simulation.clients import connect_client
from tests.simulation.lifecycle.socket_connection import SocketConnection
from tests.simulation.plan import TENANTS
from tests.simulation.records import Exchange

if TYPE_CHECKING:
    from tests.simulation.world import World

_LANES = (None, "left", "right")
_CONNECTIONS = 2
_TURNS = 3


async def run_socket_client(world: World, rng: random.Random) -> None:
    tenant = rng.choice([*TENANTS])
    for _ in range(_CONNECTIONS):
        await asyncio.sleep(rng.uniform(0.0, 12.0))
        connection = SocketConnection(world, tenant)
        handshake = Exchange(
            number=len(world.history.visits),
            tenant=tenant,
            process="",
            request={},
            began=world.loop.time(),
            method="GET",
        )
        world.history.visits.append(handshake)
        connection.handshake = handshake
        address = rng.choice(world.plan.addresses)
        if await connect_client(world.loop, address, connection, handshake):
            await _use(world, rng, connection)


async def _use(world: World, rng: random.Random, connection: SocketConnection) -> None:
    connection.shake_hands(TENANTS[connection.tenant])
    await connection.opened
    if connection.is_over:
        return
    if rng.random() < 0.3:
        world.history.count("client loses its WebSocket")
        late = rng.choice((0.01, 0.3, 2.0, 8.0))
        connection.later(late, connection.vanish)
    names = _LANES[: rng.randint(1, 3)]
    await asyncio.gather(*(_use_lane(world, rng, connection, name) for name in names))
    await connection.close()


async def _use_lane(
    world: World, rng: random.Random, connection: SocketConnection, lane: str | None
) -> None:
    from tests.simulation.world import draw_request

    previous: str | None = None
    for _ in range(_TURNS):
        if connection.is_over:
            return
        request = draw_request(rng, previous)
        exchange = world.new_exchange(connection.tenant, {**request, "stream": True})
        world.history.count("WebSocket request")
        ended = connection.send_request(exchange, lane)
        if rng.random() < 0.3:
            continue  # the next one waits in the lane
        await ended
        if exchange.response is not None and exchange.response["status"] == "completed":
            previous = exchange.response_id
        await asyncio.sleep(rng.choice((0.0, 0.5, 4.0)))
    await connection.wait_idle()
