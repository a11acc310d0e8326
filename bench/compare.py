"""CPU time of two checkouts, per response or per 1,000 events of streams, side by side in one run.

Both gateways run all the time, and short slices of load alternate between them (A B, B A, …), so
that a change of the machine's speed meets both. The load generator and the fake provider are those
of `bench/gateway.py`; the gateways share one core, the load has the other.

    python bench/compare.py CHECKOUT [--rounds 10] [--scenarios burst-c64,plain-c16] [--write]

A ratio above 1 means that this checkout needs more CPU than the other one.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple

from gateway import HERE, PORT, copy_toolbox, gateway

RESULTS = HERE / "results" / "compare.md"
UPSTREAM_PORT = 9100
READY_S = 30.0


class Scenario(NamedTuple):
    """One kind of load, as the load generator takes it."""

    streams: int
    model: str
    is_streamed: bool
    seconds: float
    warm_up_s: float


SCENARIOS = {
    "burst-c64": Scenario(64, "n200-d0", True, 3, 1),
    "ttft": Scenario(1, "n20-d5-t5", True, 6, 0.5),
    "paced-c64": Scenario(64, "n200-d20", True, 5, 1),
    "paced-c256": Scenario(256, "n200-d20", True, 6, 3),
    "plain-short-c16": Scenario(16, "n20-d0", False, 3, 1),
    "plain-c16": Scenario(16, "n200-d0", False, 3, 1),
    "plain-long-c16": Scenario(16, "n2000-d0", False, 3, 1),
}
Samples = dict[str, list[tuple[float, float]]]
"""CPU milliseconds of the other checkout and of this one, by scenario."""


class Gateway(NamedTuple):
    url: str
    pid: int


@contextmanager
def running(command: list[str], cpu: int, environment: dict[str, str]) -> Iterator[int]:
    """Run a program on one core; yields its process id."""
    process = subprocess.Popen(
        ["taskset", "-c", str(cpu), *command],
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait(15)


def wait_until_ready(url: str) -> None:
    deadline = time.monotonic() + READY_S
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:  # it does not listen yet, or is not ready
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def apply_load(work: Path, target: Gateway, scenario: Scenario) -> float:
    """Apply one slice of load; returns the CPU milliseconds per response, of streams per 1,000
    events: a slice ends in the middle of many."""
    command = ["taskset", "-c", "0", str(work / "bin" / "loadgen"), "--url", target.url]
    command += ["--api", "responses", "--key", "bench-key", "--pids", str(target.pid)]
    command += ["--model", f"fake/bench-{scenario.model}"]
    command += ["--stream", str(int(scenario.is_streamed))]
    command += ["--concurrency", str(scenario.streams), "--duration", str(scenario.seconds)]
    command += ["--warmup", str(scenario.warm_up_s)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    row = json.loads(printed)
    if wrong := row["bad"] + row["errors"]:
        sys.exit(f"{target.url}: {wrong} wrong answers: {row['last_error']}")
    return float(row["cpu_ms_per_1000_events" if scenario.is_streamed else "cpu_ms_per_response"])


def measure(work: Path, other: Path, names: list[str], rounds: int) -> Samples:
    samples: Samples = {name: [] for name in names}
    with ExitStack() as stack:
        upstream = [str(work / "bin" / "fake_upstream"), "--port", str(UPSTREAM_PORT)]
        stack.enter_context(running(upstream, 0, {}))
        checkouts = (("before", PORT + 1, other), ("antiphon", PORT, HERE.parent))
        pair = [stack.enter_context(run_gateway(work, *each)) for each in checkouts]
        for target in pair:
            apply_load(work, target, SCENARIOS["burst-c64"])  # warms it up
        for number in range(rounds):
            for name in names:
                order = pair if number % 2 == 0 else pair[::-1]
                found = {each: apply_load(work, each, SCENARIOS[name]) for each in order}
                before, after = found[pair[0]], found[pair[1]]
                samples[name].append((before, after))
                line = f"{number + 1:3} {name:11} {before:8.3f} {after:8.3f} {after / before:6.3f}"
                print(line, flush=True)
    return samples


@contextmanager
def run_gateway(work: Path, name: str, port: int, checkout: Path) -> Iterator[Gateway]:
    target = gateway(work, name, port, checkout)
    environment = target["env"]
    assert isinstance(environment, dict)
    with running(shlex.split(str(target["cmd"])), 1, environment) as pid:
        wait_until_ready(f"http://127.0.0.1:{port}/health")
        yield Gateway(str(target["url"]), pid)


def tabulate(samples: Samples) -> str:
    lines = ["| | before, ms | now, ms | ratio | quartiles |", "|---|---:|---:|---:|---|"]
    for name, pairs in samples.items():
        before, after = (median(values) for values in zip(*pairs, strict=True))
        ratios = [now / then for then, now in pairs]
        low, _, high = quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        cells = f"{before:.3f} | {after:.3f} | {median(ratios):.3f} | {low:.2f}, {high:.2f}"
        lines.append(f"| {name} | {cells} |")
    return "\n".join(lines)


def prepare(work: Path) -> None:
    """Copy the tools, and compile the load generator and the provider."""
    copy_toolbox(work)
    for name in ("fake_upstream", "loadgen"):
        source, binary = str(work / f"{name}.c"), str(work / "bin" / name)
        subprocess.run(["cc", "-O2", "-o", binary, source, "-lm"], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkout", type=Path, help="the checkout to compare with")
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--write", action="store_true", help=f"keep the table in {RESULTS.name}")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="antiphon-bench-") as name:
        work = Path(name) / "bench"
        prepare(work)
        samples = measure(work, args.checkout.resolve(), args.scenarios.split(","), args.rounds)
    table = tabulate(samples)
    print(table)
    if args.write:
        RESULTS.write_text(
            "# CPU time next to another checkout\n\n"
            "`python bench/compare.py CHECKOUT --write`: per response, of streams per 1,000 events;"
            f" medians of {args.rounds} alternating rounds. Ratios are those of single rounds."
            f"\n\n{table}\n"
        )


if __name__ == "__main__":
    main()
