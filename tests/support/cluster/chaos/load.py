"""The clients of a chaos run: background streams that are read on other gateways, and others."""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing
from typing import Any

import aiohttp

from tests.support.cluster.chaos.disturbance import Disturbance
from tests.support.cluster.chaos.records import Outcome, Records, now
from tests.support.cluster.http_client import read_frames

CLIENTS = 64  # of each kind
PATIENCE_S = 60.0
PAUSE_S = 0.1
_CUT = (aiohttp.ClientError, ConnectionError, TimeoutError)


class Load:
    """Keeps so many responses of each kind going."""

    def __init__(
        self,
        http: aiohttp.ClientSession,
        disturbance: Disturbance,
        records: Records,
        rng: random.Random,
    ) -> None:
        self._http, self._choose, self._records = http, disturbance.choose, records
        self._rng = rng
        self._is_over = False

    def end(self) -> None:
        """Begin no more responses; those that were begun are read to their end."""
        self._is_over = True

    async def run(self, clients: int = CLIENTS) -> None:
        kinds = (self._background, self._foreground)
        loops = [self._repeat(kind, number) for kind in kinds for number in range(clients)]
        await asyncio.gather(*loops)

    async def _repeat(self, kind: Any, number: int) -> None:
        await asyncio.sleep(number * 0.04)  # not all at once
        while not self._is_over:
            await kind()

    async def _background(self) -> None:
        gateway = self._choose()
        outcome = self._records.begin(gateway.name, is_background=True)
        try:
            await self._post(outcome, gateway.url, self._rng.randint(1, 6), background=True)
            while outcome.id and outcome.response is None:
                await self._resume(outcome)
            if outcome.id:
                await self._compare(outcome)
        except AssertionError as error:
            self._records.violate(outcome, str(error))

    async def _foreground(self) -> None:
        gateway = self._choose()
        outcome = self._records.begin(gateway.name, is_background=False)
        try:
            await self._post(outcome, gateway.url)
        except AssertionError as error:
            self._records.violate(outcome, str(error))
        outcome.forget_frames()

    async def _post(self, outcome: Outcome, url: str, limit: int = 0, **fields: Any) -> None:
        """Send the request, and read its stream, or its first events."""
        body = {"model": "up/model", "input": f"Hi {outcome.marker}", "stream": True, **fields}
        try:
            async with self._http.post(f"{url}/responses", json=body) as answer:
                await self._read(outcome, answer, limit)
        except _CUT as error:
            outcome.error = f"cut: {type(error).__name__}"
        else:
            if outcome.response is None and not limit and not outcome.error:
                outcome.error = "cut: the stream ended without a terminal event"
        if outcome.error:
            outcome.ended_at = now()
            await asyncio.sleep(PAUSE_S)

    async def _read(self, outcome: Outcome, answer: aiohttp.ClientResponse, limit: int) -> None:
        if answer.status != 200:
            outcome.error = f"{answer.status} {(await answer.text())[:200]}"
            return
        async with aclosing(read_frames(answer)) as frames:  # type: ignore[type-var]
            async for frame in frames:
                if outcome.take(frame) or len(outcome.frames) == limit:
                    return

    async def _resume(self, outcome: Outcome) -> None:
        """Read on with another gateway, until the end or until that is cut, too."""
        assert now() < outcome.asked_at + PATIENCE_S, f"no end within {PATIENCE_S:g} s"
        outcome.cuts += 1
        gateway = self._choose(outcome.gateway)
        query = f"?stream=true&starting_after={len(outcome.frames) - 1}"
        outcome.error = ""
        try:
            async with self._http.get(f"{gateway.url}/responses/{outcome.id}{query}") as answer:
                assert answer.status != 404, "lost: 404 although its client knew it"
                await self._read(outcome, answer, 0)
        except _CUT:
            await asyncio.sleep(PAUSE_S)
        if outcome.error:  # the store is away
            await asyncio.sleep(PAUSE_S)

    async def _compare(self, outcome: Outcome) -> None:
        """Compare what was seen with the log, as a third reader gets it from another gateway."""
        replay = Outcome(outcome.marker, True, outcome.gateway, now(), outcome.id)
        while replay.response is None:
            replay.frames = []
            await self._resume(replay)
        assert replay.frames == outcome.frames, "another reader got other events"
        outcome.forget_frames()
