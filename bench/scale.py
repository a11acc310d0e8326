"""Cost by length and by number: long streams, long histories, many streams, large stores.

Each figure should stay flat while its size grows: the CPU time of an event in a stream of 20,000
chunks, that of an item in a history of 2,000, the memory of each of 5,000 slow streams, and the CPU
time of a response on a store of a million. Sizes of one kind alternate, so that a change of the
machine's speed meets all of them. The table and a plot go to `bench/results`.

    python bench/scale.py [--only streams,history,slow,store] [--rounds 5] [--largest N] [--write]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import slow_streams
from compare import UPSTREAM_PORT, Gateway, prepare, run_gateway, running
from formats import Scenario, apply_load, cpu_ms
from gateway import HERE, PORT

from antiphon.store.sqlite.store import SQLiteStore
from antiphon.store.turn import Turn, encode_response_object

TABLE = HERE / "results" / "scale.md"
PLOT = HERE / "results" / "scale.svg"
EVENTS = 400_000
"""Events of one slice, whatever the length of its streams."""


class Kind(NamedTuple):
    """Something that grows, and what should stay flat."""

    title: str
    unit: str
    sizes: tuple[int, ...]
    measure: Callable[[Path, tuple[int, ...], int], dict[int, float]]
    """Measures each size; takes the directory of the tools, the sizes and the rounds."""


# Long streams


def measure_streams(work: Path, sizes: tuple[int, ...], rounds: int) -> dict[int, float]:
    """CPU microseconds per chunk of streams of these lengths."""
    samples: dict[int, list[float]] = {size: [] for size in sizes}
    with _gateway(work) as target:
        for _ in range(rounds):
            for size in sizes:
                responses = max(4, EVENTS // size // 4 * 4)
                scenario = Scenario(f"n{size}-d0", True, 4, responses)
                before = cpu_ms(target.pid)
                asyncio.run(apply_load("responses", scenario))
                used_ms = cpu_ms(target.pid) - before
                samples[size].append(used_ms * 1000 / responses / size)
    return {size: median(found) for size, found in samples.items()}


# Long histories


def measure_histories(work: Path, sizes: tuple[int, ...], rounds: int) -> dict[int, float]:
    """CPU microseconds per item of a history that a request continues by its id."""
    samples: dict[int, list[float]] = {size: [] for size in sizes}
    with _gateway(work) as target:
        firsts = {size: _create(target, {"input": _make_items(size)}) for size in sizes}
        empty = _create(target, {"input": "hi"})
        for _ in range(rounds):
            fixed_us = _continue(target, empty, 200)
            for size in sizes:
                used_us = _continue(target, firsts[size], max(40, 40_000 // size))
                samples[size].append((used_us - fixed_us) / size)
    return {size: median(found) for size, found in samples.items()}


def _make_items(count: int) -> list[dict[str, str]]:
    text = "Read the file, then change the function that reads the header of the request. " * 3
    roles = ("user", "assistant")
    return [{"role": roles[number % 2], "content": text} for number in range(count)]


def _create(target: Gateway, fields: dict[str, Any]) -> str:
    body = json.dumps({"model": "fake/bench-n20-d0", **fields}).encode()
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(target.url, body, headers)
    with urllib.request.urlopen(request) as reply:
        response_id: str = json.load(reply)["id"]
        return response_id


def _continue(target: Gateway, response_id: str, requests: int) -> float:
    """Continue a response several times; CPU microseconds of each."""
    before = cpu_ms(target.pid)
    for _ in range(requests):
        _create(target, {"previous_response_id": response_id, "input": "hi", "store": False})
    return (cpu_ms(target.pid) - before) * 1000 / requests


# Many slow streams


def measure_slow(work: Path, sizes: tuple[int, ...], rounds: int) -> dict[int, float]:
    """Kilobytes of memory of each of many slow streams that are open at once."""
    found: dict[int, float] = {}
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="antiphon-slow-") as directory:
            before_kb, played, _ = asyncio.run(slow_streams.run(size, 1, Path(directory)))
        if played[0].completed != size:
            sys.exit(f"only {played[0].completed} of {size} slow streams were completed")
        found[size] = (max(played[0].rss_kb) - before_kb) / size
    return found


# Large stores


def measure_stores(work: Path, sizes: tuple[int, ...], rounds: int) -> dict[int, float]:
    """CPU microseconds of a response that continues a stored one, by the size of the store."""
    samples: dict[int, list[float]] = {size: [] for size in sizes}
    for size in sizes:
        with _gateway(work, f"store{size}"):
            [path] = (work / f"store{size}").rglob("turns.db")
        asyncio.run(_fill(path, size))
        _report_size(path, size)
        with _gateway(work, f"store{size}") as target:
            _continue_random(target, size, 200)
            samples[size] += [_continue_random(target, size, 400) for _ in range(rounds)]
        path.unlink()
    return {size: median(found) for size, found in samples.items()}


async def _fill(path: Path, size: int) -> None:
    store = SQLiteStore(path, now=lambda: int(time.time()))
    await store.open()
    for first in range(0, size, 500):
        numbers = range(first, min(size, first + 500))
        await asyncio.gather(*(store.save(_make_turn(number)) for number in numbers))
    await store.close()


def _make_turn(number: int) -> Turn:
    text = f"Response {number}: the quick brown fox jumps over the lazy dog. " * 4
    response_id = f"resp_{number:032x}"
    message = {
        "type": "message",
        "id": f"msg_{number:032x}",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }
    response = {
        "id": response_id,
        "object": "response",
        "status": "completed",
        "output": [message],
    }
    return Turn(
        id=response_id,
        created_at=int(time.time()),
        status="completed",
        model="fake/bench-n20-d0",
        provider="fake",
        input=({"type": "message", "role": "user", "content": text},),
        output=(message,),
        encoded=encode_response_object(response, [message]),
    )


def _continue_random(target: Gateway, size: int, requests: int) -> float:
    """Continue stored responses from everywhere in the store; CPU microseconds of each."""
    before = cpu_ms(target.pid)
    for number in range(requests):
        response_id = f"resp_{number * 7919 % size:032x}"
        _create(target, {"previous_response_id": response_id, "input": "hi"})
    return (cpu_ms(target.pid) - before) * 1000 / requests


def _report_size(path: Path, size: int) -> None:
    megabytes = path.stat().st_size / 1e6
    print(f"a store of {size:,} responses has {megabytes:,.0f} MB", flush=True)


# The run


KINDS = {
    "streams": Kind("Length of a stream", "CPU µs per chunk", (200, 2000, 20_000), measure_streams),
    "history": Kind("Length of a history", "CPU µs per item", (100, 500, 2000), measure_histories),
    "slow": Kind("Slow streams at once", "kB of each", (100, 1000, 5000), measure_slow),
    "store": Kind(
        "Responses in the store", "CPU µs per response", (1000, 100_000, 1_000_000), measure_stores
    ),
}


@contextmanager
def _gateway(work: Path, name: str = "scale") -> Iterator[Gateway]:
    """Run a gateway with the fake provider behind it."""
    with ExitStack() as stack:
        upstream = [str(work / "bin" / "fake_upstream"), "--port", str(UPSTREAM_PORT)]
        stack.enter_context(running(upstream, 0, {}))
        yield stack.enter_context(run_gateway(work, name, PORT, HERE.parent))


def tabulate(results: dict[str, dict[int, float]]) -> str:
    lines = ["| | sizes | figures | largest ÷ smallest |", "|---|---|---|---:|"]
    for name, found in results.items():
        kind = KINDS[name]
        sizes = " · ".join(f"{size:,}" for size in found)
        figures = " · ".join(f"{value:,.1f}" for value in found.values())
        values = [*found.values()]
        ratio = f"{values[-1] / values[0]:.2f}"
        lines.append(f"| {kind.title} | {sizes} | {figures} {kind.unit} | {ratio} |")
    return "\n".join(lines)


def draw(results: dict[str, dict[int, float]]) -> str:
    """Draw one panel for each kind: the figure by size, both relative to the smallest size."""
    width, height, gap = 250, 170, 20
    panels = []
    for number, (name, found) in enumerate(results.items()):
        kind = KINDS[name]
        left = gap + number * (width + gap)
        values = [*found.values()]
        top = max(values) * 1.25
        steps = max(1, len(values) - 1)
        points = [
            (left + 30 + index * (width - 60) / steps, 40 + (height - 70) * (1 - value / top))
            for index, value in enumerate(values)
        ]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        panels.append(
            f'<text x="{left}" y="18" class="title">{kind.title}</text>'
            f'<text x="{left}" y="32">{kind.unit}</text>'
            f'<line x1="{left}" y1="{height - 30}" x2="{left + width}" y2="{height - 30}"/>'
            f'<polyline points="{line}"/>'
        )
        for (x, y), (size, value) in zip(points, found.items(), strict=True):
            panels.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>'
                f'<text x="{x:.1f}" y="{y - 9:.1f}" class="mid">{value:,.1f}</text>'
                f'<text x="{x:.1f}" y="{height - 14}" class="mid">{size:,}</text>'
            )
    total = gap + len(results) * (width + gap)
    style = (
        "text{font:11px sans-serif;fill:#555}.title{font-weight:bold;fill:#222}"
        ".mid{text-anchor:middle}line{stroke:#bbb}polyline{fill:none;stroke:#2a6fdb;stroke-width:2}"
        "circle{fill:#2a6fdb}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {height}" width="{total}">'
        f'<style>{style}</style><rect width="100%" height="100%" fill="#fff"/>'
        f"{''.join(panels)}</svg>\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default=",".join(KINDS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--largest", type=int, help="leave out larger sizes")
    parser.add_argument("--write", action="store_true", help=f"keep {TABLE.name} and {PLOT.name}")
    args = parser.parse_args()
    results: dict[str, dict[int, float]] = {}
    with tempfile.TemporaryDirectory(prefix="antiphon-bench-") as name:
        work = Path(name) / "bench"
        prepare(work)
        for each in args.only.split(","):
            kind = KINDS[each]
            sizes = tuple(n for n in kind.sizes if not args.largest or n <= args.largest)
            results[each] = kind.measure(work, sizes, args.rounds)
            print(each, results[each], flush=True)
    print(tabulate(results))
    if args.write:
        TABLE.write_text(
            "# Cost by length and by number\n\n"
            "`python bench/scale.py --write`: medians of"
            f" {args.rounds} alternating rounds; of slow streams, one round. Memory is the resident"
            " set of the gateway, less that of an idle one. The cost of a history is that beyond"
            " the same request without one.\n\n![Cost by length and by number](scale.svg)\n\n"
            f"{tabulate(results)}\n"
        )
        PLOT.write_text(draw(results))


if __name__ == "__main__":
    main()
