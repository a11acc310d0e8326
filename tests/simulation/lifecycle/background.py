"""Client of background responses: starts them, loses its connection, polls, resumes from any
number, cancels and deletes; another client tries to see them."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from tests.simulation.lifecycle.records import BackgroundResponse, has_ended
from tests.simulation.lifecycle.visits import draw_reader, other_tenant, visit
from tests.simulation.plan import TENANTS
from tests.simulation.records import Exchange

if TYPE_CHECKING:
    from tests.simulation.world import World

_RESPONSES = 3
_STEPS = 6


async def run_background_client(world: World, rng: random.Random) -> None:
    tenant = rng.choice([*TENANTS])
    for _ in range(_RESPONSES):
        await asyncio.sleep(rng.uniform(0.0, 10.0))
        response = await _begin(world, rng, tenant)
        if response is not None:
            await follow(world, rng, response)


async def _begin(world: World, rng: random.Random, tenant: str) -> BackgroundResponse | None:
    from tests.simulation.world import draw_request

    request = {**draw_request(rng, None), "background": True, "store": True}
    exchange = world.new_exchange(tenant, {**request, "stream": rng.random() < 0.7})
    await world.perform(exchange, draw_reader(rng), rng.choice(world.plan.addresses))
    if not (response_id := exchange.response_id):
        return None
    response = BackgroundResponse(response_id, exchange)
    world.lifecycle.background[response_id] = response
    return response


async def follow(world: World, rng: random.Random, response: BackgroundResponse) -> None:
    """Do with a response what its client may do with it."""
    await _Follower(world, rng, response).run()


class _Follower:
    """What its client does with a response that it has begun."""

    def __init__(self, world: World, rng: random.Random, response: BackgroundResponse) -> None:
        self._world = world
        self._rng = rng
        self._response = response
        self._path = f"/v1/responses/{response.id}"
        self._tenant = response.exchange.tenant

    async def run(self) -> None:
        rng = self._rng
        steps = (self._poll, self._resume, self._cancel, self._delete, self._spy)
        for _ in range(_STEPS):
            await asyncio.sleep(rng.choice((0.0, 0.05, 0.5, 2.0)))
            step = rng.choices(steps, (6, 8, 2, 1, 1))[0]
            if await step():
                return

    async def _visit(self, method: str, path: str, tenant: str = "") -> Exchange:
        address = self._rng.choice(self._world.plan.addresses)
        return await visit(self._world, tenant or self._tenant, method, path, address)

    async def _poll(self) -> bool:
        found = await self._visit("GET", self._path)
        self._response.visits.append(found)
        return has_ended(found.response or {}) and self._rng.random() < 0.5

    async def _resume(self) -> bool:
        """Go on after the last event, or repeat some."""
        rng, response = self._rng, self._response
        if not response.exchange.is_stream:
            return await self._poll()
        last = response.last_seen
        after = last if rng.random() < 0.5 else rng.randint(-1, last)
        found = await visit(
            self._world,
            self._tenant,
            "GET",
            self._path,
            rng.choice(self._world.plan.addresses),
            behaviour=draw_reader(rng),
            after=after,
        )
        response.visits.append(found)
        self._world.history.count("client resumes")
        return False

    async def _cancel(self) -> bool:
        found = await self._visit("POST", f"{self._path}/cancel")
        self._response.cancels.append(found)
        self._world.history.count("client cancels")
        return False

    async def _delete(self) -> bool:
        response, world = self._response, self._world
        world.lifecycle.deleted.add(response.id)
        response.delete_began = world.loop.time()
        found = await self._visit("DELETE", self._path)
        world.history.count("client deletes")
        if found.status != 200:
            return True
        response.delete = found
        response.visits.append(await self._visit("GET", self._path))
        return True

    async def _spy(self) -> bool:
        method, suffix = self._rng.choice(
            (("GET", ""), ("GET", "?stream=true"), ("DELETE", ""), ("POST", "/cancel"))
        )
        found = await self._visit(method, self._path + suffix, other_tenant(self._tenant))
        self._response.foreign_visits.append(found)
        self._world.history.count("client asks for a response of another")
        return False


async def audit_background(world: World) -> None:
    """Retrieve every background response when everything works again, and read it twice."""
    rng = world.derive("audit")
    for response in world.lifecycle.background.values():
        path, tenant = f"/v1/responses/{response.id}", response.exchange.tenant
        address = rng.choice(world.plan.addresses)
        response.audits.append(await visit(world, tenant, "GET", path, address))
        if response.exchange.is_stream and response.id not in world.lifecycle.deleted:
            for after in (-1, rng.randint(-1, max(response.last_seen, -1))):
                found = await visit(world, tenant, "GET", path, address, after=after)
                response.audits.append(found)
