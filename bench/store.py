"""CPU time that a stored response costs the gateway's process, with SQLite and with PostgreSQL.

Saves responses as the end of a foreground response does, some at a time, and measures the CPU time
of this process alone, threads included. PostgreSQL is a private server that commits durably.

    python -m bench.store [--responses N] [--rounds N]
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import uvloop

from antiphon.store.run_log import FIRST_TOKEN, RunStart
from antiphon.store.store import Store, Turn
from antiphon.store.turn import encode_response_object
from antiphon.store.url import open_store
from tests.support.postgres import run_server


def make_turn(number: int) -> Turn:
    """Return a response of a few hundred words, as a chat has them."""
    text = "The quick brown fox jumps over the lazy dog. " * 40
    id = f"resp_{number:032x}"
    question: dict[str, Any] = {"type": "message", "role": "user", "content": text}
    answer = {
        "type": "message",
        "id": f"msg_{number:032x}",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
    response = {"id": id, "object": "response", "status": "completed", "output": [answer]}
    return Turn(
        id=id,
        created_at=1_700_000_000,
        status="completed",
        model="model",
        provider="provider",
        input=(question,),
        output=(answer,),
        encoded=encode_response_object(response, [answer]),
    )


async def store_responses(store: Store, first: int, count: int, together: int) -> None:
    numbers = iter(range(first, first + count))

    async def client() -> None:
        for number in numbers:
            turn = make_turn(number)
            store.runs.begin_later(turn, RunStart(holder="process"))
            await store.runs.finish(turn, FIRST_TOKEN)

    await asyncio.gather(*(client() for _ in range(together)))


async def measure(url: str, first: int, count: int, together: int) -> float:
    """Return the CPU time of one response in microseconds."""
    store = open_store(url, now=lambda: int(time.time()))
    await store.open()
    await store_responses(store, first, count // 10, together)  # connections, statements, caches
    start = time.process_time()
    await store_responses(store, first + count, count, together)
    used = time.process_time() - start
    assert await store.load(make_turn(first + 2 * count - 1).id) is not None
    await store.close()
    return used / count * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--responses", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, run_server(is_durable=True) as server:
        urls = {"SQLite": f"sqlite:///{Path(directory)}/turns.db", "PostgreSQL": server.new_url()}
        for together in (1, 16, 64):
            found: dict[str, list[float]] = {name: [] for name in urls}
            for round in range(args.rounds):  # in turns, so that both meet the same machine
                first = (together * 1000 + round) * args.responses * 3
                for name, url in urls.items():
                    each = measure(url, first, args.responses, together)
                    found[name].append(uvloop.run(each))
            sqlite, postgres = (statistics.median(times) for times in found.values())
            print(
                f"{together:3} at a time: SQLite {sqlite:6.0f} µs, PostgreSQL {postgres:6.0f} µs,"
                f" ratio {postgres / sqlite:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
