"""CPU of a streamed background response, next to the same response in the foreground.

Both are answered by echo inside this process, without sockets, and stored in SQLite, in
alternating rounds of one run. The CPU time of all threads counts; the median is shown.

    python bench/background.py            print the table
    python bench/background.py --write    also write it to bench/results/background.md
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path

from antiphon.config import CapsuleConfig, Config, LogConfig, ServerConfig, StoreConfig, TraceConfig
from antiphon.server.application import Application
from antiphon.server.gateway import GatewayProcess
from antiphon.server.http import HTTPRequest
from antiphon.server.wiring import open_setup

ROUNDS, REQUESTS, AT_ONCE = 5, 400, 20
LIMIT = 1.5
RESULTS = Path(__file__).parent / "results" / "background.md"
HEADERS = {"host": "localhost", "content-type": "application/json"}
QUESTION = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all."


def make_config(directory: str) -> Config:
    return Config(
        default_provider="echo",
        server=ServerConfig(port=0),
        store=StoreConfig(url=f"sqlite:///{directory}/turns.db"),
        trace=TraceConfig(enabled=False),
        capsule=CapsuleConfig(keys=["a key that only benchmarks use"]),
        log=LogConfig(level="error"),
    )


async def ask(application: Application, body: bytes) -> None:
    http = HTTPRequest.with_body("POST", "/v1/responses", HEADERS, body)
    response = await application.handle(http)
    assert not isinstance(response.body, bytes), response.body
    pieces: list[bytes] = []

    async def write(data: bytes) -> None:
        pieces.append(data)

    try:
        await response.body.write_to(write)
    finally:
        await response.body.close()
    assert b"event: response.completed" in b"".join(pieces)


async def measure_round(application: Application, *, background: bool) -> float:
    """Milliseconds of CPU for one response."""
    request = {"model": "echo/echo", "input": QUESTION, "stream": True, "background": background}
    body = json.dumps(request).encode()
    began = time.process_time()
    for _ in range(REQUESTS // AT_ONCE):
        await asyncio.gather(*(ask(application, body) for _ in range(AT_ONCE)))
    return (time.process_time() - began) / REQUESTS * 1000


async def measure() -> tuple[float, float]:
    """Milliseconds of CPU in the foreground and in the background."""
    rounds: dict[bool, list[float]] = {False: [], True: []}
    with tempfile.TemporaryDirectory(prefix="antiphon-bench-") as directory:
        config = make_config(directory)
        async with open_setup(config, {}, lambda entry: None) as setup:
            application = Application(GatewayProcess(setup))
            for number in range(ROUNDS + 1):
                for background, figures in rounds.items():
                    figure = await measure_round(application, background=background)
                    if number:  # the first round warms up
                        figures.append(figure)
            await application.process.close()
    return statistics.median(rounds[False]), statistics.median(rounds[True])


def table(foreground: float, background: float) -> str:
    lines = [
        "| response | ms of CPU |",
        "|---|---:|",
        f"| in the foreground | {foreground:.3f} |",
        f"| in the background | {background:.3f} |",
        "",
        f"Ratio: {background / foreground:.2f} (limit {LIMIT:g}).",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"keep the table in {RESULTS.name}")
    arguments = parser.parse_args()
    text = table(*asyncio.run(measure()))
    print(text)
    if arguments.write:
        RESULTS.write_text(f"# A background response\n\n{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
