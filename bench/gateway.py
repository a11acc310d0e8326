"""Load test of the gateway, compared with nginx proxying the same bytes, in one run.

The load generator, the fake upstream and the runner are not part of this repository: they are read
from `../shared/bench`, or from `$ANTIPHON_BENCH`. nginx and a C compiler must be installed.
The gateway runs in its default configuration: trace and SQLite on.

    python bench/gateway.py [--scenarios quick] [--rounds 2] [--write]
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

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "gateway.md"
PORT = 9484

CONFIG = f"""\
default_provider = "fake"
[server]
port = {PORT}
[log]
level = "error"
[providers.fake]
kind = "chat"
base_url = "http://127.0.0.1:9100/v1"
api_keys = ["bench-key"]
"""


def find_load_generator() -> Path:
    found = Path(os.environ.get("ANTIPHON_BENCH", HERE.parent.parent / "shared" / "bench"))
    if not (found / "bench.py").exists():
        sys.exit(f"No load generator at {found}: set ANTIPHON_BENCH to the directory of bench.py.")
    return found


def make_targets(work: Path) -> list[dict[str, object]]:
    command = f"{sys.executable} -m antiphon.cli.main serve --config {work / 'antiphon.toml'}"
    return [
        {
            "name": "nginx",
            "url": "http://127.0.0.1:9210/v1/chat/completions",
            "api": "chat",
            "cmd": "nginx -p ${HERE} -c ${HERE}/nginx.conf",
        },
        {
            "name": "antiphon",
            "url": f"http://127.0.0.1:{PORT}/v1/responses",
            "model_prefix": "fake/",
            "cmd": command,
            "env": {"XDG_DATA_HOME": str(work / "data")},
        },
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scenarios", default="quick")
    parser.add_argument("--rounds", default="2")
    parser.add_argument("--write", action="store_true", help=f"write the tables to {RESULTS.name}")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="antiphon-bench-") as name:
        work = Path(name) / "bench"
        shutil.copytree(find_load_generator(), work)
        subprocess.run(["chmod", "-R", "u+w", str(work)], check=True)
        (work / "bin").mkdir(exist_ok=True)
        (work / "antiphon.toml").write_text(CONFIG)
        (work / "targets.json").write_text(json.dumps(make_targets(work)))
        run = [sys.executable, "bench.py", "run", "--targets", "targets.json", "--out", "out.jsonl"]
        run += ["--scenarios", args.scenarios, "--rounds", args.rounds]
        subprocess.run(run, cwd=work, check=True)
        report = [sys.executable, "bench.py", "report", "out.jsonl", "--ref", "nginx"]
        tables = subprocess.run(report, cwd=work, check=True, capture_output=True, text=True).stdout
    print(tables)
    if args.write:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(f"# Load test of the gateway\n\n`make load`\n\n{tables}")


if __name__ == "__main__":
    main()
