"""A cluster to try (`make gateways`): three gateways behind nginx, on PostgreSQL and Redis.

    python -m tests.support.cluster.show

Everything is private and on this machine. It prints the address and, on a terminal, a live table;
Ctrl-C stops all of it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from pathlib import Path

import aiohttp
from rich.live import Live
from rich.table import Table

from tests.support.cluster.balancer import run_nginx
from tests.support.cluster.cluster import Cluster, run_cluster
from tests.support.cluster.gateway_process import GatewayProcess
from tests.support.prometheus_tools import scrape_sums
from tests.support.upstream import HELLO_WORLD, send_frames

GATEWAYS = 3
_COLUMNS = {
    "answered": "antiphon_requests_total",
    "streams": "antiphon_running_streams",
    "keys resting": "antiphon_keys_resting",
}
_EXAMPLE = """{address}/v1

  curl -N {address}/v1/responses -H 'content-type: application/json' \\
    -d '{{"model": "echo/slow", "input": "one two three", "stream": true, "background": true}}'

"""


async def read_row(client: aiohttp.ClientSession, gateway: GatewayProcess) -> list[str]:
    try:
        found = await scrape_sums(client, f"http://{gateway.address}")
    except aiohttp.ClientError:
        return [gateway.name, gateway.url, "down"]
    values = [f"{found.get(name, 0):g}" for name in _COLUMNS.values()]
    return [gateway.name, gateway.url, "up", *values]


async def show_table(cluster: Cluster) -> None:
    """Show a table of the gateways until it is cancelled."""
    async with aiohttp.ClientSession() as client:
        with Live(refresh_per_second=2) as live:
            while True:
                table = Table("gateway", "address", "state", *_COLUMNS)
                for gateway in cluster.gateways:
                    table.add_row(*await read_row(client, gateway))
                live.update(table)
                await asyncio.sleep(1)


async def run(home: Path) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with run_cluster(home, GATEWAYS, send_frames(HELLO_WORLD), lease_s=10.0) as cluster:
        addresses = [
            each.url.removeprefix("http://").removesuffix("/v1") for each in cluster.gateways
        ]
        async with run_nginx(home, addresses) as port:
            sys.stdout.write(_EXAMPLE.format(address=f"http://127.0.0.1:{port}"))
            sys.stdout.flush()
            showing = [asyncio.create_task(show_table(cluster))] if sys.stdout.isatty() else []
            await stopping.wait()
            for task in showing:
                task.cancel()
                await asyncio.wait((task,))


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="antiphon-cluster-") as home:
        os.chmod(home, 0o755)  # nginx reads it as another user
        asyncio.run(run(Path(home)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
