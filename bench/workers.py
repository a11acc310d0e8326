"""Throughput of one process and of two workers, on two cores that they share with the load.

The load generator and the fake provider of `bench/gateway.py` are used, in alternating rounds.

    python bench/workers.py            print the tables
    python bench/workers.py --write    also write them to bench/results/workers.md
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from gateway import HERE, PORT, gateway, toolbox

SCENARIOS = "burst-c64,paced-c256,plain-c64"
RESULTS = HERE / "results" / "workers.md"


def targets(work: Path) -> list[dict[str, object]]:
    one = gateway(work, "one", PORT, HERE.parent)
    two = gateway(work, "two", PORT + 1, HERE.parent)
    two["cmd"] = f"{two['cmd']} --workers 2"
    return [{**each, "cpus": "0,1"} for each in (one, two)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scenarios", default=SCENARIOS)
    parser.add_argument("--rounds", default="3")
    parser.add_argument("--write", action="store_true", help=f"keep the tables in {RESULTS.name}")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="antiphon-bench-") as name:
        work = Path(name) / "bench"
        shutil.copytree(toolbox(), work)
        subprocess.run(["chmod", "-R", "u+w", str(work)], check=True)
        (work / "bin").mkdir(exist_ok=True)
        (work / "targets.json").write_text(json.dumps(targets(work)))
        run = [sys.executable, "bench.py", "run", "--targets", "targets.json", "--out", "out.jsonl"]
        run += ["--scenarios", args.scenarios, "--rounds", args.rounds]
        subprocess.run(run, cwd=work, check=True)
        report = [sys.executable, "bench.py", "report", "out.jsonl", "--ref", "one"]
        tables = subprocess.run(report, cwd=work, check=True, capture_output=True, text=True).stdout
    print(tables)
    if args.write:
        RESULTS.write_text(f"# Two workers\n\n`python bench/workers.py --write`\n\n{tables}")


if __name__ == "__main__":
    main()
