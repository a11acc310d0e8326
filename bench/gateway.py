"""The gateway under load, next to nginx passing the same bytes through, in one run.

The load generator, the fake upstream and the runner are not part of this repository: they are taken
from `../shared/bench`, or from `$ANTIPHON_BENCH`. nginx and a C compiler must be installed.
The gateway runs in its default configuration: trace, SQLite and the log on. Whole responses are
measured in three lengths, so that a threshold of one size does not decide the figure.

    python bench/gateway.py [--scenarios burst-c64,ttft] [--rounds 2] [--against CHECKOUT] [--write]

With `--against`, the gateway of another checkout runs in the same rounds, for a comparison: in each
scenario right before or after this one, in every second round in the opposite order. The ratio of a
scenario is the median of those of the rounds: a machine whose speed changes meets both alike.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "gateway.md"
PORT = 9484
LENGTHS = {"plain-short-c16": "n20-d0", "plain-long-c16": "n2000-d0"}
"""Whole responses of other lengths than the runner's own 200 chunks: its model names."""
SCENARIOS = ",".join(["burst-c64,ttft,paced-c64,paced-c256,plain-c16", *LENGTHS])
RUNNER = f"""\
import bench
bench.SCENARIOS.update({{name: (16, model, 0, 4, 1, []) for name, model in {LENGTHS!r}.items()}})
bench.main()
"""
"""The runner with our scenarios; its arguments are those of the command line."""

CONFIG = """\
default_provider = "fake"
[server]
port = {port}
[providers.fake]
kind = "chat"
base_url = "http://127.0.0.1:9100/v1"
api_keys = ["bench-key"]
"""

NGINX: dict[str, object] = {
    "name": "nginx",
    "url": "http://127.0.0.1:9210/v1/chat/completions",
    "api": "chat",
    "cmd": "nginx -p ${HERE} -c ${HERE}/nginx.conf",
}


def toolbox() -> Path:
    found = Path(os.environ.get("ANTIPHON_BENCH", HERE.parent.parent / "shared" / "bench"))
    if not (found / "bench.py").exists():
        sys.exit("There is no load generator: set ANTIPHON_BENCH to the folder with bench.py.")
    return found


def copy_toolbox(work: Path) -> None:
    """Copy the load generator, the fake upstream and the runner to where they can be compiled."""
    shutil.copytree(toolbox(), work)
    subprocess.run(["chmod", "-R", "u+w", str(work)], check=True)
    (work / "bin").mkdir(exist_ok=True)


def gateway(work: Path, name: str, port: int, checkout: Path) -> dict[str, object]:
    """Describe one gateway to the runner: the source of a checkout, on a port of its own."""
    config = work / f"{name}.toml"
    config.write_text(CONFIG.replace("{port}", str(port)))
    return {
        "name": name,
        "url": f"http://127.0.0.1:{port}/v1/responses",
        "model_prefix": "fake/",
        "cmd": f"{sys.executable} -m antiphon.cli.main serve --config {config}",
        "env": {"XDG_DATA_HOME": str(work / name), "PYTHONPATH": str(checkout / "src")},
    }


def gateways(work: Path, against: Path | None) -> list[dict[str, object]]:
    compared = [] if against is None else [gateway(work, "before", PORT + 1, against.resolve())]
    return [*compared, gateway(work, "antiphon", PORT, HERE.parent)]


def tabulate_ratios(rows: list[dict[str, Any]]) -> str:
    """Make a table of the CPU time per response, relative to the other checkout."""
    lines = [
        "### CPU ms per response",
        "",
        "| scenario | before | antiphon | ratio | of the rounds |",
    ]
    lines.append("|---|---:|---:|---:|---|")
    for scenario in dict.fromkeys(row["scenario"] for row in rows):
        before, after = (
            [
                row["cpu_ms_per_response"]
                for row in rows
                if (row["name"], row["scenario"]) == (name, scenario)
            ]
            for name in ("before", "antiphon")
        )
        ratios = [b / a for a, b in zip(before, after, strict=True)]
        medians = f"{median(before):.3f} | {median(after):.3f} | {median(ratios):.2f}"
        lines.append(f"| {scenario} | {medians} | {', '.join(f'{each:.2f}' for each in ratios)} |")
    return "\n".join(lines)


def tabulate_lengths(rows: list[dict[str, Any]]) -> str:
    """Make a table of whole responses of all lengths: the runner reports one of them."""
    names = list(dict.fromkeys(row["name"] for row in rows))
    lines = ["### Whole responses by length: responses/s, CPU ms per response", ""]
    lines += [f"| scenario | {' | '.join(names)} |", "|---|" + "---:|" * len(names)]
    for scenario in ("plain-short-c16", "plain-c16", "plain-long-c16"):
        cells = []
        for name in names:
            found = [row for row in rows if (row["name"], row["scenario"]) == (name, scenario)]
            rate = median([row["responses_per_s"] for row in found] or [0.0])
            cpu_ms = median([row["cpu_ms_per_response"] for row in found] or [0.0])
            cells.append(f"{rate:,.0f}, {cpu_ms:.3f}")
        lines.append(f"| {scenario} | {' | '.join(cells)} |")
    return "\n".join(lines)


def run_scenarios(work: Path, order: list[dict[str, object]], scenarios: str) -> None:
    """Run scenarios on each target in turn, in new processes; adds to the results."""
    (work / "targets.json").write_text(json.dumps(order))
    run = [sys.executable, "-c", RUNNER, "run", "--targets", "targets.json", "--out", "out.jsonl"]
    subprocess.run([*run, "--scenarios", scenarios], cwd=work, check=True)


def measure(work: Path, scenarios: str, rounds: int, against: Path | None) -> str:
    """Run all rounds; returns the tables."""
    for number in range(rounds):
        run_scenarios(work, [NGINX], scenarios)
        order = gateways(work, against)[:: -1 if number % 2 else 1]
        for scenario in scenarios.split(","):
            run_scenarios(work, order, scenario)
    report = [sys.executable, "bench.py", "report", "out.jsonl", "--ref", "nginx"]
    tables = subprocess.run(report, cwd=work, check=True, capture_output=True, text=True).stdout
    rows = [json.loads(line) for line in (work / "out.jsonl").read_text().splitlines()]
    tables = f"{tables}\n{tabulate_lengths(rows)}\n"
    if against is not None:
        tables = f"{tables}\n{tabulate_ratios(rows)}\n"
    return tables


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scenarios", default=SCENARIOS)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--against", type=Path, help="another checkout to compare with")
    parser.add_argument("--write", action="store_true", help=f"keep the tables in {RESULTS.name}")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="antiphon-bench-") as name:
        work = Path(name) / "bench"
        copy_toolbox(work)
        tables = measure(work, args.scenarios, args.rounds, args.against)
    print(tables)
    if args.write:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(f"# The gateway under load\n\n`make load`\n\n{tables}")


if __name__ == "__main__":
    main()
