"""CPU time of a stream in each client format, next to the same stream in Responses, in one run.

One gateway in its default configuration serves the same responses of the fake provider to clients
of Responses, Messages and Chat Completions. Short slices alternate between the formats, so that a
change of the machine's speed meets all of them. A slice is a fixed number of responses; its figure
is the CPU time of the gateway, in all threads, until the last response of the slice has arrived.

    python bench/formats.py [--rounds 5] [--scenarios burst,paced,whole] [--write]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

from compare import UPSTREAM_PORT, prepare, run_gateway, running
from gateway import HERE, PORT

RESULTS = HERE / "results" / "formats.md"
TICKS_PER_MS = os.sysconf("SC_CLK_TCK") / 1000
READ_BYTES = 256 * 1024
OVERLAP_BYTES = 1024
"""Kept of a piece, so that an end that arrives in two pieces is found."""


class Scenario(NamedTuple):
    model: str
    is_streamed: bool
    connections: int
    responses: int
    """How many a slice has."""


SCENARIOS = {
    "burst": Scenario("n200-d0", True, 16, 960),
    "paced": Scenario("n200-d20", True, 64, 128),
    "whole": Scenario("n200-d0", False, 16, 1600),
}


class Format(NamedTuple):
    path: str
    end: bytes
    """What the last event of a complete stream contains."""


FORMATS = {
    "responses": Format("/v1/responses", b"response.completed"),
    "messages": Format("/v1/messages", b"message_stop"),
    "chat": Format("/v1/chat/completions", b"[DONE]"),
}
Samples = dict[str, dict[str, list[float]]]
"""CPU milliseconds per response, by scenario and format."""


def make_request(name: str, scenario: Scenario) -> bytes:
    """Return the bytes of one HTTP request."""
    body: dict[str, object] = {"model": f"fake/bench-{scenario.model}"}
    body["stream"] = scenario.is_streamed
    if name == "responses":
        body |= {"input": "hi", "instructions": "You are terse."}
    elif name == "messages":
        body |= {"max_tokens": 4096, "system": "You are terse."}
        body["messages"] = [{"role": "user", "content": "hi"}]
    else:
        system = {"role": "system", "content": "You are terse."}
        body["messages"] = [system, {"role": "user", "content": "hi"}]
        if scenario.is_streamed:
            body["stream_options"] = {"include_usage": True}
    data = json.dumps(body).encode()
    head = f"POST {FORMATS[name].path} HTTP/1.1\r\nhost: 127.0.0.1:{PORT}\r\n"
    head += f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
    return head.encode() + data


async def read_response(reader: asyncio.StreamReader, end: bytes, is_streamed: bool) -> None:
    """Read one response to its last byte; a wrong one ends the program."""
    head = await reader.readuntil(b"\r\n\r\n")
    if b" 200 " not in head[:20]:
        sys.exit(f"the gateway refused a request: {head.decode('latin-1')}")
    if not is_streamed:
        length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        await reader.readexactly(int(length))
        return
    tail = b""
    has_end = False
    while not tail.endswith(b"\r\n0\r\n\r\n"):
        piece = await reader.read(READ_BYTES)
        if not piece:
            sys.exit("the gateway closed a connection in the middle of a stream")
        tail = tail[-OVERLAP_BYTES:] + piece
        has_end = has_end or end in tail
    if not has_end:
        sys.exit(f"a stream ended without {end.decode()}: {tail[-300:]!r}")


async def apply_load(name: str, scenario: Scenario) -> None:
    """Send the requests of one slice, over as many connections as the scenario has."""
    request = make_request(name, scenario)

    async def one_connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", PORT, limit=READ_BYTES)
        for _ in range(scenario.responses // scenario.connections):
            writer.write(request)
            await read_response(reader, FORMATS[name].end, scenario.is_streamed)
        writer.close()
        await writer.wait_closed()

    await asyncio.gather(*(one_connection() for _ in range(scenario.connections)))


def cpu_ms(pid: int) -> float:
    """Return the CPU time of a process so far, of all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_MS


def measure_slice(pid: int, name: str, scenario: Scenario) -> float:
    before = cpu_ms(pid)
    asyncio.run(apply_load(name, scenario))
    return (cpu_ms(pid) - before) / scenario.responses


def measure(work: Path, names: list[str], rounds: int) -> Samples:
    samples: Samples = {name: {each: [] for each in FORMATS} for name in names}
    with ExitStack() as stack:
        upstream = [str(work / "bin" / "fake_upstream"), "--port", str(UPSTREAM_PORT)]
        stack.enter_context(running(upstream, 0, {}))
        target = stack.enter_context(run_gateway(work, "antiphon", PORT, HERE.parent))
        os.sched_setaffinity(0, {0})
        for each in FORMATS:
            measure_slice(target.pid, each, SCENARIOS["burst"])  # warms it up
        for number in range(rounds):
            order = list(FORMATS)[:: -1 if number % 2 else 1]
            for name in names:
                for each in order:
                    samples[name][each].append(measure_slice(target.pid, each, SCENARIOS[name]))
    return samples


def tabulate(samples: Samples) -> str:
    """Make a table of medians, and of the ratios to Responses in the same round."""
    lines = ["| CPU ms per response | responses | messages | chat | messages ÷ | chat ÷ |"]
    lines.append("|---|---:|---:|---:|---:|---:|")
    for name, found in samples.items():
        cells = [f"{median(found[each]):.3f}" for each in FORMATS]
        for each in ("messages", "chat"):
            pairs = zip(found[each], found["responses"], strict=True)
            cells.append(f"{median(ours / reference for ours, reference in pairs):.2f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help=f"keep the table in {RESULTS.name}")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="antiphon-bench-") as name:
        work = Path(name) / "bench"
        prepare(work)
        table = tabulate(measure(work, args.scenarios.split(","), args.rounds))
    print(table)
    if args.write:
        RESULTS.write_text(
            "# The same response in each client format\n\n"
            "`python bench/formats.py --write`: CPU time of the gateway per response, medians of"
            f" {args.rounds} alternating rounds; ratios to Responses in the same round."
            f"\n\n{table}\n"
        )


if __name__ == "__main__":
    main()
