"""Client of conversations: turns one after another, sometimes two at once, with any process."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from tests.simulation.clients import draw_behaviour
from tests.simulation.lifecycle.records import Conversation
from tests.simulation.lifecycle.visits import visit
from tests.simulation.plan import TENANTS

if TYPE_CHECKING:
    from tests.simulation.world import World

_TURNS = 4


async def run_conversation_client(world: World, rng: random.Random) -> None:
    tenant = rng.choice([*TENANTS])
    await asyncio.sleep(rng.uniform(0.0, 10.0))
    address = rng.choice(world.plan.addresses)
    created = await visit(world, tenant, "POST", "/v1/conversations", address)
    if created.status != 200 or created.outcome != "complete":
        return
    conversation = Conversation(str((created.response or {})["id"]), tenant)
    world.lifecycle.conversations.append(conversation)
    for _ in range(_TURNS):
        count = 2 if rng.random() < 0.25 else 1
        await asyncio.gather(*(_take_turn(world, rng, conversation) for _ in range(count)))
        await asyncio.sleep(rng.choice((0.0, 0.1, 3.0, 12.0)))


async def _take_turn(world: World, rng: random.Random, conversation: Conversation) -> None:
    from tests.simulation.world import draw_request

    request = {**draw_request(rng, None), "conversation": conversation.id}
    if rng.random() < 0.2:
        request |= {"background": True, "store": True}
    exchange = world.new_exchange(conversation.tenant, request)
    conversation.turns.append(exchange)
    await world.perform(exchange, draw_behaviour(rng), rng.choice(world.plan.addresses))


async def audit_conversations(world: World) -> None:
    """List the items of every conversation when everything works again."""
    address = world.plan.addresses[-1]
    for conversation in world.lifecycle.conversations:
        path = f"/v1/conversations/{conversation.id}/items?order=asc&limit=100"
        conversation.audit = await visit(world, conversation.tenant, "GET", path, address)
