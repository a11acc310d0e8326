"""Throughput of one process and of two workers, on two cores that they share with the load.

The load generator and the fake provider of `bench/gateway.py` are used, in alternating rounds. One
scenario is added: `paced-c960`, more streams of one chunk every 20 ms than one process can serve.

    python bench/workers.py            print the table
    python bench/workers.py --write    also write it to bench/results/workers.md
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from gateway import HERE, PORT, copy_toolbox, gateway

SCENARIOS = {
    "burst-c64": "64 streams of 200 chunks, without delay",
    "paced-c960": "960 streams of a chunk every 20 ms",
    "plain-c64": "64 clients, whole answers",
}
RUNNER = """\
import bench
bench.SCENARIOS["paced-c960"] = (960, "n200-d20", 1, 10, 6, [])
bench.main()
"""
RESULTS = HERE / "results" / "workers.md"
Row = dict[str, Any]


def targets(work: Path) -> list[dict[str, object]]:
    one = gateway(work, "one", PORT, HERE.parent)
    two = gateway(work, "two", PORT + 1, HERE.parent)
    two["cmd"] = f"{two['cmd']} --workers 2"
    return [{**each, "cpus": "0,1"} for each in (one, two)]


def measure(scenarios: str, rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="antiphon-bench-") as name:
        work = Path(name) / "bench"
        copy_toolbox(work)
        (work / "targets.json").write_text(json.dumps(targets(work)))
        (work / "runner.py").write_text(RUNNER)
        run = [sys.executable, "runner.py", "run", "--targets", "targets.json"]
        run += ["--out", "out.jsonl", "--scenarios", scenarios, "--rounds", str(rounds)]
        subprocess.run(run, cwd=work, check=True)
        return [json.loads(line) for line in (work / "out.jsonl").read_text().splitlines()]


def tabulate(rows: list[Row]) -> list[str]:
    """Make a table of medians, one line for each figure of a scenario. Ratios are those of single
    rounds: the speed of a machine changes between them."""
    lines = ["| | one process | two workers | ratio (rounds) |", "|---|---:|---:|---|"]
    for scenario in dict.fromkeys(row["scenario"] for row in rows):
        found = [row for row in rows if row["scenario"] == scenario]
        if bad := sum(row["bad"] + row["errors"] for row in found):
            lines.append(f"| {scenario}: {bad} wrong answers | | | |")
        is_plain = scenario.startswith("plain")
        rate = "responses_per_s" if is_plain else "events_per_s"
        for what, key in ((rate.replace("_per_", "/"), rate), ("cores used", "cpu_cores")):
            one, two = (
                [_read(row, key) for row in found if row["name"] == name] for name in ("one", "two")
            )
            title = f"{SCENARIOS.get(scenario, scenario)} (`{scenario}`): {what}"
            lines.append(_format_line(title, one, two, 2 if key == "cpu_cores" else 0))
    return lines


def _format_line(title: str, one: list[float], two: list[float], digits: int) -> str:
    ratios = [after / before for before, after in zip(one, two, strict=True)]
    rounds = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    middle = f"{median(one):,.{digits}f} | {median(two):,.{digits}f}"
    return f"| {title} | {middle} | {median(ratios):.2f} ({rounds}) |"


def _read(row: Row, key: str) -> float:
    if key == "cpu_cores":
        return float(row["cpu_ms_per_response"] * row["responses_per_s"] / 1000)
    return float(row[key])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help=f"keep the table in {RESULTS.name}")
    args = parser.parse_args()
    table = "\n".join(tabulate(measure(args.scenarios, args.rounds)))
    print(table)
    if args.write:
        RESULTS.write_text(
            f"# Two workers\n\n`python bench/workers.py --write`: medians of {args.rounds} rounds"
            f" on two cores, which the processes share with the load.\n\n{table}\n"
        )


if __name__ == "__main__":
    main()
