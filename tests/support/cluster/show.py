"""A cluster to try (`make cluster`): three gateways behind nginx, on PostgreSQL and Redis.

    python -m tests.support.cluster.show [--seconds N]

Everything is private and on this machine. It prints the address and a table, which is updated on a
terminal. Ctrl-C, SIGTERM or the end of the seconds stops all of it, whatever has died until then.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import aiohttp
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.live import Live
from rich.table import Table

from tests.support.cluster.balancer import Balancer, run_nginx
from tests.support.cluster.cluster import Cluster, run_cluster
from tests.support.cluster.gateway_process import GatewayProcess
from tests.support.prometheus_tools import scrape_sums
from tests.support.upstream import HELLO_WORLD, send_frames

GATEWAYS = 3
_COLUMNS = {
    "answered": "antiphon_requests_total",
    "streams": "antiphon_running_streams",
    "keys\nresting": "antiphon_keys_resting",
}
_ANSWER_S = 1.0
_EVERY_S = 1.0
_EXAMPLE = """{address}/v1

  curl -N {address}/v1/responses \\
    -H 'content-type: application/json' \\
    -d '{{"model": "echo/slow", "input": "one two three",
         "stream": true, "background": true}}'

Kill a process of the table, or resume a stream through another gateway.
{end} stops everything.

"""


async def read_gateway(client: aiohttp.ClientSession, gateway: GatewayProcess) -> list[str]:
    """Return the row of a gateway."""
    start = [gateway.name, gateway.address]
    if gateway.process_id is None:
        return [*start, "", "down"]
    start.append(str(gateway.process_id))
    try:
        found = await scrape_sums(client, f"http://{gateway.address}")
    except (aiohttp.ClientError, TimeoutError):
        return [*start, "silent"]
    return [*start, "up", *(f"{found.get(name, 0):g}" for name in _COLUMNS.values())]


async def read_table(client: aiohttp.ClientSession, cluster: Cluster, nginx: Balancer) -> Table:
    """Return the table of all parts as they are now."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name, width in (("part", 8), ("address", 15), ("process", 7), ("state", 6)):
        table.add_column(name, min_width=width, no_wrap=True)
    for name in _COLUMNS:
        table.add_column(name, justify="right")
    for name, part in (
        ("nginx", nginx),
        ("postgres", cluster.postgres),
        ("redis", cluster.redis),
    ):
        number = part.process_id
        state = ("", "down") if number is None else (str(number), "up")
        table.add_row(name, f"127.0.0.1:{part.port}", *state)
    for row in await asyncio.gather(*(read_gateway(client, each) for each in cluster.gateways)):
        table.add_row(*row)
    return table


async def show_table(cluster: Cluster, nginx: Balancer) -> None:
    """Show the table until it is cancelled; in a pipe, print it once."""
    timeout = aiohttp.ClientTimeout(total=_ANSWER_S)
    async with aiohttp.ClientSession(timeout=timeout) as client:
        table = await read_table(client, cluster, nginx)
        if not sys.stdout.isatty():
            Console(width=80).print(table)
            return
        with Live(table, auto_refresh=False) as live:
            while True:
                await asyncio.sleep(_EVERY_S)
                live.update(await read_table(client, cluster, nginx), refresh=True)


async def run(home: Path, seconds: float | None) -> None:
    """Run the cluster until it is cancelled, or for so many seconds."""
    async with (
        run_cluster(home, GATEWAYS, send_frames(HELLO_WORLD), lease_s=10.0) as cluster,
        run_nginx(home, [each.address for each in cluster.gateways]) as nginx,
    ):
        end = "Ctrl-C" if seconds is None else f"Ctrl-C, or the end of {seconds:g} s,"
        sys.stdout.write(_EXAMPLE.format(address=f"http://127.0.0.1:{nginx.port}", end=end))
        sys.stdout.flush()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await show_table(cluster, nginx)
                await asyncio.Event().wait()


async def run_until_stopped(home: Path, seconds: float | None) -> None:
    """Run the cluster until SIGINT or SIGTERM, also while it starts."""
    running = asyncio.ensure_future(run(home, seconds))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    with suppress(asyncio.CancelledError):
        await running


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make cluster", description=__doc__)
    parser.add_argument("--seconds", type=float, help="stop after so long; else with Ctrl-C")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="antiphon-cluster-") as home:
        os.chmod(home, 0o755)  # nginx reads it as another user
        asyncio.run(run_until_stopped(Path(home), options.seconds))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
