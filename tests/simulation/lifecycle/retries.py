"""Client that sends the same request again when its stream was cut, as Codex and Claude Code do;
and another client that sends a copy of it."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from tests.simulation.clients import READS, Behaviour
from tests.simulation.formats.reading import Format
from tests.simulation.lifecycle.records import Retry, has_ended
from tests.simulation.lifecycle.visits import other_tenant
from tests.simulation.plan import TENANTS
from tests.simulation.records import Exchange

if TYPE_CHECKING:
    from tests.simulation.virtual_loop import Address
    from tests.simulation.world import World

AGENTS: dict[Format, str] = {
    "responses": "codex_cli_rs/0.50.0 (simulation)",
    "messages": "claude-cli/2.1.326 (external, cli)",
}
NOTICED_S = 0.3
"""After which the gateway knows that its client is gone."""
_UNDERWAY_S = 0.05  # for which the loss of a connection is on its way
_REQUESTS = 3


async def run_retrying_client(world: World, rng: random.Random) -> None:
    tenant = rng.choice([*TENANTS])
    for _ in range(_REQUESTS):
        await asyncio.sleep(rng.uniform(0.0, 10.0))
        await _send_until_read(world, rng, tenant)


async def _send_until_read(world: World, rng: random.Random, tenant: str) -> None:
    from tests.simulation.world import draw_request

    request, format = draw_request(rng, None), rng.choice((*AGENTS,))
    if format != "responses":
        request = {"model": request["model"]}
    first = world.new_exchange(tenant, {**request, "stream": True}, format)
    first.agent, address = AGENTS[format], rng.choice(world.plan.addresses)
    await world.perform(first, _draw_loss(rng), address)
    if first.outcome != "vanished":
        return
    await _wait_for_notice(world, first)
    window_s = world.config.attach.window_s
    await asyncio.sleep(rng.choice((0.0, 0.0, 1.0, window_s - 2 * NOTICED_S, window_s + 2.0)))
    if rng.random() < 0.3:
        await _send_again(world, first, other_tenant(tenant), READS, address)
    behaviour = READS if rng.random() < 0.6 else _draw_loss(rng)
    again = await _send_again(world, first, tenant, behaviour, address)
    if again.outcome == "vanished":
        await _wait_for_notice(world, again)
        await _send_again(world, again, tenant, READS, address)


async def _wait_for_notice(world: World, lost: Exchange) -> None:
    """Wait until the gateway knows of the loss; note whether it had sent everything before."""
    await asyncio.sleep(_UNDERWAY_S)
    stored = world.disk.read_response(lost.response_id) if lost.response_id else None
    lost.was_over = stored is not None and has_ended(stored)
    await asyncio.sleep(NOTICED_S - _UNDERWAY_S)


def _draw_loss(rng: random.Random) -> Behaviour:
    resets = rng.random() < 0.5
    if rng.random() < 0.5:
        return Behaviour("vanishes", vanish_after_bytes=rng.randrange(2000), resets=resets)
    late = rng.choice((0.003, 0.01, 0.03, 0.1, 0.5, 2.0))
    return Behaviour("vanishes", vanish_after_s=late, resets=resets)


async def _send_again(
    world: World, first: Exchange, tenant: str, behaviour: Behaviour, address: Address
) -> Exchange:
    again = world.new_exchange(tenant, first.request, first.format)
    again.agent, again.question = first.agent, first.question
    if first.format == "messages" and first.tenant == tenant:
        again.request["stream"] = again.number % 2 == 0  # Claude Code may want the rest whole
    retry = Retry(first, again)
    world.history.count("client copies a request" if retry.is_copy else "client sends again")
    await world.perform(again, behaviour, address)
    world.lifecycle.retries.append(retry)
    return again
