"""CPU of an answer by the library in process, next to the same answer by the gateway over HTTP.

Both ask echo with the same configuration (store in memory, no trace), in alternating rounds of one
run. For the library the CPU time of this process counts, and for the gateway that of the gateway's
process alone: the client's share of HTTP is not counted. The median of the rounds is shown.

    python bench/library.py            print the table
    python bench/library.py --write    also write it to bench/results/library.md
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import antiphon

ROUNDS, REQUESTS = 5, 400
LIMIT = 0.70
SOURCE = Path(__file__).resolve().parents[1] / "src"
RESULTS = Path(__file__).parent / "results" / "library.md"
CONFIG = """\
[server]
port = {port}
[log]
level = "error"
[store]
url = "memory://"
[trace]
enabled = false
"""
QUESTION = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all."
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@contextmanager
def run_gateway(config: Path, port: int) -> Iterator[int]:
    """Start a gateway in a process of its own; yield its process id."""
    command = [sys.executable, "-m", "antiphon.cli.main", "serve", "--config", str(config)]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "XDG_DATA_HOME": str(config.parent)}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    try:
        while not is_listening(port):
            time.sleep(0.05)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def cpu_of(process_id: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def ask_gateway(connection: http.client.HTTPConnection, *, stream: bool) -> None:
    body = json.dumps({"model": "echo/echo", "input": QUESTION, "stream": stream})
    connection.request("POST", "/v1/responses", body, {"content-type": "application/json"})
    answer = connection.getresponse().read()
    assert b'"status":"completed"' in answer, answer


async def ask_library(gateway: antiphon.Gateway, *, stream: bool) -> None:
    if not stream:
        response = await gateway.create(model="echo/echo", input=QUESTION)
    else:
        async with gateway.stream(model="echo/echo", input=QUESTION) as events:
            async for _ in events:
                pass
            response = await events.response()
    assert response["status"] == "completed", response


async def measure(config: Path, port: int, *, stream: bool) -> tuple[float, float]:
    """Milliseconds of CPU for one answer: by the library, and by the gateway."""
    library: list[float] = []
    over_http: list[float] = []
    with run_gateway(config, port) as process_id:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        async with antiphon.open(config) as gateway:
            for number in range(ROUNDS + 1):
                began = time.process_time()
                for _ in range(REQUESTS):
                    await ask_library(gateway, stream=stream)
                middle, gateway_began = time.process_time(), cpu_of(process_id)
                for _ in range(REQUESTS):
                    ask_gateway(connection, stream=stream)
                if number:  # the first round warms up both
                    library.append((middle - began) / REQUESTS * 1000)
                    over_http.append((cpu_of(process_id) - gateway_began) / REQUESTS * 1000)
    return statistics.median(library), statistics.median(over_http)


def table(rows: dict[str, tuple[float, float]]) -> str:
    lines = [
        "| answer | library, ms of CPU | gateway over HTTP, ms of CPU | ratio |",
        "|---|---:|---:|---:|",
    ]
    lines += [f"| {name} | {a:.3f} | {b:.3f} | {a / b:.0%} |" for name, (a, b) in rows.items()]
    whole, over_http = rows["whole"]
    lines += ["", f"A whole answer: {whole / over_http:.0%} (limit {LIMIT:.0%})."]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"keep the table in {RESULTS.name}")
    arguments = parser.parse_args()
    rows: dict[str, tuple[float, float]] = {}
    for name in ("whole", "streamed"):
        with tempfile.TemporaryDirectory(prefix="antiphon-bench-") as folder:
            config, port = Path(folder, "antiphon.toml"), find_free_port()
            config.write_text(CONFIG.format(port=port))
            rows[name] = asyncio.run(measure(config, port, stream=name == "streamed"))
    text = table(rows)
    print(text)
    if arguments.write:
        about = "The library in process and the gateway over HTTP, CPU for one answer of echo"
        RESULTS.write_text(f"# {about}\n\n`python bench/library.py --write`\n\n{text}\n")


if __name__ == "__main__":
    main()
