"""Crashes (`make crashes`): a gateway on SQLite is killed at random moments under load.

    python -m tests.support.crashes [--kills N] [--seed N]

After each SIGKILL the gateway is started again on the same file, and everything that a client was
told before must still be true: nothing stored is lost or half-written, nothing is unfinished once
the lease has expired, and every event log is gapless, begins with the events that were sent, and
ends with one terminal event. The exit status is 1 after a violation.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.commands import COMMAND, environment

CONFIG = """
[background]
lease_s = 1
max_running = 6
[store]
url = "sqlite:///{home}/turns.sqlite"
"""
CLIENTS = 4  # of each kind
MAX_LOAD_S = 1.5
RECOVERY_S = 60
TERMINAL = {"response.completed", "response.failed", "response.incomplete"}
UNFINISHED = {"queued", "in_progress"}


@dataclass
class Seen:
    """What a client was told about one response."""

    is_logged: bool = False
    """In the background and streamed: its events can be read again."""
    is_durable: bool = False
    """The client was told that the response is stored."""
    frames: list[str] = field(default_factory=list)
    response: dict[str, Any] | None = None
    """As it ended."""


@dataclass
class Knowledge:
    """Everything that clients were told and that was not checked yet."""

    responses: dict[str, Seen] = field(default_factory=dict)
    turns: dict[str, int] = field(default_factory=dict)
    """Conversations, and the number of responses that have ended in them."""
    checked: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def expect(self, condition: object, violation: str) -> None:
        if not condition:
            self.violations.append(violation)


class Process:
    """A gateway in a process of its own."""

    def __init__(self, home: Path) -> None:
        self._process = subprocess.Popen(
            [*COMMAND, "serve", "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=home,
            env=environment(home),
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline().decode()
        found = re.search(r"http://[^\s/]+", line)
        assert found, f"the gateway did not start: {line!r}"
        self.url = f"{found[0]}/v1"

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class Load:
    """Clients of one gateway until it is killed."""

    def __init__(
        self, url: str, http: aiohttp.ClientSession, known: Knowledge, rng: random.Random
    ) -> None:
        self._url, self._http, self._known, self._rng = url, http, known, rng

    async def run_for(self, seconds: float, kill: Any) -> None:
        kinds = (self._stream(True), self._stream(False), self._poll(), self._converse())
        loops = [_repeat(kind) for kind in kinds for _ in range(CLIENTS)]
        tasks = [asyncio.create_task(loop) for loop in loops]
        await asyncio.sleep(seconds)
        kill()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    def _body(self, **fields: Any) -> dict[str, Any]:
        text = " ".join(f"word{number}" for number in range(self._rng.randint(1, 8)))
        return {"model": "echo/slow", "input": text, **fields}

    def _stream(self, background: bool) -> Any:
        async def stream() -> None:
            body = self._body(stream=True, background=background)
            async with self._http.post(f"{self._url}/responses", json=body) as answer:
                seen = Seen(is_logged=background, is_durable=background)
                async for frame, event in read_events(answer):
                    if event["type"] == "response.created":
                        self._known.responses[event["response"]["id"]] = seen
                    seen.frames.append(frame)
                    if event["type"] in TERMINAL:
                        seen.response = event["response"]
                        seen.is_durable = bool(event["response"]["store"])

        return stream

    def _poll(self) -> Any:
        async def poll() -> None:
            body = self._body(background=True)
            async with self._http.post(f"{self._url}/responses", json=body) as answer:
                id = (await answer.json())["id"]
            self._known.responses[id] = Seen(is_durable=True)
            await asyncio.sleep(self._rng.random() / 2)

        return poll

    def _converse(self) -> Any:
        async def converse() -> None:
            async with self._http.post(f"{self._url}/conversations", json={}) as answer:
                id = (await answer.json())["id"]
            self._known.turns[id] = 0
            while True:
                body = self._body(model="echo/echo", conversation=id)
                async with self._http.post(f"{self._url}/responses", json=body) as answer:
                    response = await answer.json()
                self._known.expect(answer.status == 200, f"{id}: {answer.status} {response}")
                self._known.turns[id] += 1
                seen = Seen(is_durable=response["store"], response=response)
                self._known.responses[response["id"]] = seen

        return converse


async def _repeat(kind: Any) -> None:
    while True:
        try:
            await kind()
        except (aiohttp.ClientError, ConnectionError):  # it was killed
            await asyncio.sleep(0.01)


async def read_events(answer: aiohttp.ClientResponse) -> AsyncIterator[tuple[str, Any]]:
    """Read whole frames and their events, without keep-alives and the end marker."""
    buffer = b""
    async for chunk in answer.content.iter_any():
        *frames, buffer = (buffer + chunk).split(b"\n\n")
        for frame in frames:
            data = frame.partition(b"data: ")[2]
            if data and data != b"[DONE]":
                event = json.loads(data)
                if event["type"] != "keepalive":
                    yield frame.decode(), event


class Check:
    """Compares what clients were told with what the gateway says after its restart."""

    def __init__(self, url: str, http: aiohttp.ClientSession, known: Knowledge) -> None:
        self._url, self._http, self._known = url, http, known

    async def run(self) -> None:
        known = self._known
        jobs: list[Awaitable[None]] = [
            self._check_response(id, seen) for id, seen in known.responses.items()
        ]
        jobs += [self._check_conversation(id, turns) for id, turns in known.turns.items()]
        await asyncio.gather(*jobs)
        known.responses.clear()
        known.turns.clear()

    async def _check_response(self, id: str, seen: Seen) -> None:
        response = await self._wait_for_end(id)
        if response is None:
            self._known.expect(not seen.is_durable, f"{id}: lost")
            return
        status = response["status"]
        self._known.checked[status] += 1
        self._known.expect(status not in UNFINISHED, f"{id}: still {status}")
        if seen.response is not None and seen.response["store"]:
            sent = seen.response["status"]
            self._known.expect(response == seen.response, f"{id}: {sent}, but stored as {status}")
        elif seen.response is not None:  # the client was told that it is not stored
            self._known.checked["not stored"] += 1
        if seen.is_logged:
            await self._check_log(id, seen, status)

    async def _wait_for_end(self, id: str) -> dict[str, Any] | None:
        ends_at = time.monotonic() + RECOVERY_S
        while True:
            async with self._http.get(f"{self._url}/responses/{id}") as answer:
                if answer.status == 404:
                    return None
                response: dict[str, Any] = await answer.json()
            if response["status"] not in UNFINISHED or time.monotonic() > ends_at:
                return response
            await asyncio.sleep(0.2)

    async def _check_log(self, id: str, seen: Seen, status: str) -> None:
        async with self._http.get(f"{self._url}/responses/{id}?stream=true") as answer:
            replayed = [pair async for pair in read_events(answer)]
        expect = self._known.expect
        numbers = [event["sequence_number"] for _, event in replayed]
        expect(numbers == list(range(len(numbers))), f"{id}: numbers {numbers}")
        frames = [frame for frame, _ in replayed]
        expect(frames[: len(seen.frames)] == seen.frames, f"{id}: not the events that were sent")
        endings = [number for number, (_, event) in enumerate(replayed) if is_terminal(event)]
        expect(endings == [len(replayed) - 1], f"{id}: terminal events at {endings}")
        if endings:
            ended = replayed[endings[-1]][1]["response"]["status"]
            expect(ended == status, f"{id}: {status}, but its log ends with {ended}")
        self._known.checked["log"] += 1

    async def _check_conversation(self, id: str, turns: int) -> None:
        url = f"{self._url}/conversations/{id}/items?limit=100"
        async with self._http.get(url) as answer:
            found = len((await answer.json())["data"])
        expected = {min(2 * turns, 100), min(2 * turns + 2, 100)}
        self._known.expect(found in expected, f"{id}: {found} items after {turns} responses")
        self._known.checked["conversation"] += 1


def is_terminal(event: dict[str, Any]) -> bool:
    return event["type"] in TERMINAL


async def run(home: Path, kills: int, seed: int) -> Knowledge:
    """Kill a gateway so many times; stop at the first violation."""
    rng, known = random.Random(seed), Knowledge()
    (home / "antiphon.toml").write_text(CONFIG.format(home=home))
    async with aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(sock_read=30), connector=aiohttp.TCPConnector(limit=0)
    ) as http:
        for number in range(kills + 1):
            process = await asyncio.to_thread(Process, home)
            try:
                await Check(process.url, http, known).run()
                if number == kills or known.violations:
                    break
                load = Load(process.url, http, known, rng)
                await load.run_for(rng.random() * MAX_LOAD_S, process.kill)
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
    return known


def main() -> int:
    parser = argparse.ArgumentParser(prog="make crashes")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None)
    args = parser.parse_args()
    seed = random.randrange(10**6) if args.seed is None else args.seed
    with tempfile.TemporaryDirectory() as home:
        known = asyncio.run(run(Path(home), args.kills, seed))
    checked = ", ".join(f"{count} {name}" for name, count in sorted(known.checked.items()))
    sys.stdout.write(f"{args.kills} kills, seed {seed}: checked {checked}\n")
    for violation in known.violations:
        sys.stdout.write(f"violation: {violation}\n")
    return 1 if known.violations else 0


if __name__ == "__main__":
    raise SystemExit(main())
