"""Clients that take as much as they can: a thread that grows beyond the limit of a history, and a
queue of background responses with another client behind it."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from tests.simulation.bounds.records import BackgroundQueue, LongThread
from tests.simulation.clients import READS
from tests.simulation.lifecycle.records import BackgroundResponse
from tests.simulation.plan import MAX_HISTORY_ITEMS, QUEUEING, TENANTS
from tests.simulation.records import Exchange

if TYPE_CHECKING:
    from tests.simulation.world import World

_TURNS = 8
_ITEMS = 40  # of one request


async def run_long_thread(world: World, rng: random.Random) -> None:
    """Continue a thread until its history is too large, and then once more."""
    tenant = rng.choice([*TENANTS])
    await asyncio.sleep(rng.uniform(0.0, 20.0))
    items = 0
    previous: dict[str, object] = {}
    for _ in range(_TURNS):
        exchange = world.new_exchange(tenant, {"model": "safe-chat", "stream": False, **previous})
        question = {"role": "user", "content": exchange.request["input"]}
        exchange.request["input"] = [question, *[{"role": "user", "content": "And?"}] * _ITEMS]
        if items > MAX_HISTORY_ITEMS:
            world.lifecycle.long_threads.append(LongThread(exchange.number, items))
        await world.perform(exchange, READS, rng.choice(world.plan.addresses))
        response = exchange.response
        if response is not None and response["store"] and response["status"] == "completed":
            previous = {"previous_response_id": response["id"]}
            items += 1 + _ITEMS + len(response["output"])
            world.history.count("turn of a long thread")


async def run_queueing_clients(world: World, rng: random.Random) -> None:
    """Fill the queue of one client; another one has a single response behind it. Many
    places leave no queue."""
    places = world.config.background.max_running * world.plan.processes
    if world.config.background.max_running > 2:
        return
    many, single = QUEUEING
    await asyncio.sleep(rng.uniform(0.0, 20.0))
    address = rng.choice(world.plan.addresses)
    queued = await asyncio.gather(
        *(_queue(world, rng, many, address) for _ in range(4 * places + 4))
    )
    behind = await _queue(world, rng, single, address)
    numbers = [each.number for each in queued]
    world.lifecycle.queues.append(BackgroundQueue(numbers, behind.number, places))


async def _queue(world: World, rng: random.Random, tenant: str, address: object) -> Exchange:
    request = {"model": "safe-chat", "background": True, "store": True, "stream": False}
    exchange = world.new_exchange(tenant, request)
    await world.perform(exchange, READS, address)  # type: ignore[arg-type]
    if response_id := exchange.response_id:
        world.lifecycle.background[response_id] = BackgroundResponse(response_id, exchange)
        world.history.count("response in a long queue")
    return exchange
