"""Chaos (`make chaos`): three gateways under load, one of which is killed every two seconds.

    python -m tests.support.cluster.chaos.run [--minutes N] [--seed N]

PostgreSQL is restarted twice, Redis killed once. The exit status is 1 after a violation.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from pathlib import Path

import uvloop

from tests.support.cluster.chaos.disturbance import Disturbance
from tests.support.cluster.chaos.load import CLIENTS, Load
from tests.support.cluster.chaos.provider import SlowProvider
from tests.support.cluster.chaos.records import Records
from tests.support.cluster.chaos.report import make_report
from tests.support.cluster.chaos.verdict import Verdict
from tests.support.cluster.cluster import LEASE_S, run_cluster
from tests.support.cluster.http_client import open_client

GATEWAYS = 3
MAX_RUNNING = 24
"""Background responses of one gateway at a time: when another one is away, some are queued."""
PACE_S = 0.3


async def run(home: Path, seconds: float, seed: int, clients: int) -> tuple[Records, Verdict]:
    rng, records, verdict = random.Random(seed), Records(), Verdict(LEASE_S)
    provider = SlowProvider(records, PACE_S)
    settings = {"lease_s": LEASE_S, "max_running": MAX_RUNNING}
    async with (
        run_cluster(home, GATEWAYS, provider, **settings) as cluster,
        open_client() as http,
    ):
        disturbance = Disturbance(cluster, records.timeline, rng)
        load = Load(http, disturbance, records, rng)
        loading = asyncio.create_task(load.run(clients))
        await disturbance.run(seconds)
        load.end()
        await loading
        await asyncio.sleep(LEASE_S + 5)  # nothing may be unfinished after that
        verdict.judge(records)
        await verdict.check_store(records, http, disturbance)
    return records, verdict


def main() -> int:
    parser = argparse.ArgumentParser(prog="make chaos")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--clients", type=int, default=CLIENTS, help="of each kind")
    parser.add_argument("--home", type=Path, default=None, help="keeps configurations and logs")
    args = parser.parse_args()
    seed = random.randrange(10**6) if args.seed is None else args.seed
    seconds = args.minutes * 60
    with tempfile.TemporaryDirectory() as directory:
        home = args.home or Path(directory)
        home.mkdir(parents=True, exist_ok=True)
        records, verdict = uvloop.run(run(home, seconds, seed, args.clients))
    sys.stdout.write(make_report(records, verdict, seconds, seed))
    return 1 if records.violations else 0


if __name__ == "__main__":
    raise SystemExit(main())
