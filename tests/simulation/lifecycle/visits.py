"""Requests about what exists: retrieve, resume, cancel, delete, and conversations."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.simulation.clients import READS, Behaviour
from tests.simulation.plan import TENANTS
from tests.simulation.records import Document, Exchange

if TYPE_CHECKING:
    from tests.simulation.virtual_loop import Address
    from tests.simulation.world import World


def other_tenant(tenant: str) -> str:
    return next(each for each in TENANTS if each != tenant)


def draw_reader(rng: random.Random) -> Behaviour:
    """Draw how a client reads events that it can read again: it often loses its connection."""
    roll, resets = rng.random(), rng.random() < 0.5
    if roll < 0.4:
        return READS
    if roll < 0.6:
        return Behaviour("vanishes", vanish_after_bytes=rng.randrange(6000), resets=resets)
    if roll < 0.85:
        late = rng.choice((0.0, 0.01, 0.1, 0.5, 2.0))
        return Behaviour("vanishes", vanish_after_s=late, resets=resets)
    late = rng.choice((0.5, 5.0))
    return Behaviour("reads slowly", pause_after_bytes=rng.randrange(2000), pause_s=late)


async def visit(
    world: World,
    tenant: str,
    method: str,
    path: str,
    address: Address,
    *,
    behaviour: Behaviour = READS,
    after: int | None = None,
    body: Document | None = None,
) -> Exchange:
    """Send a request; `after` asks for the events after a number."""
    request: Document = body or {}
    if after is not None:
        request, path = {"stream": True}, f"{path}?stream=true"
        path += f"&starting_after={after}" if after >= 0 else ""
    exchange = Exchange(
        number=len(world.history.visits),
        tenant=tenant,
        process="",
        request=request,
        began=world.loop.time(),
        method=method,
        path=path,
        agent="OpenAI/Python 2.0",
        after=-1 if after is None else after,
    )
    world.history.visits.append(exchange)
    await world.perform(exchange, behaviour, address)
    return exchange
