"""Reading of metrics, Debian's promtool, and gateways that share their figures.

`python -m tests.support.prometheus_tools` installs promtool if there is none.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from tests.support.commands import COMMAND, environment

PROMTOOL = "promtool"
_PACKAGE = "prometheus"
_INSTALL = (
    ["apt-get", "update", "-qq"],
    ["apt-get", "install", "-y", "-qq", "--no-install-recommends", _PACKAGE],
)


async def scrape(http: aiohttp.ClientSession, url: str) -> str:
    async with http.get(f"{url}/metrics") as response:
        assert response.status == 200, await response.text()
        return await response.text()


async def scrape_sums(http: aiohttp.ClientSession, url: str) -> dict[str, float]:
    """Read the metrics of a gateway: the sum of all samples of each name."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(await scrape(http, url)):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


def check_with_promtool(text: str) -> str:
    """Return what promtool has to say of metrics; empty: nothing."""
    result = subprocess.run(
        [PROMTOOL, "check", "metrics"], input=text.encode(), capture_output=True, check=False
    )
    report = (result.stdout + result.stderr).decode().strip()
    return report or ("" if result.returncode == 0 else f"exit status {result.returncode}")


@contextmanager
def sharing_gateways(home: Path, number: int) -> Iterator[list[str]]:
    """Run gateways in processes that share their figures; yields their addresses."""
    shared = home / "metrics"
    shared.mkdir()
    with ExitStack() as stack:
        yield [stack.enter_context(_gateway(home, shared)) for _ in range(number)]


@contextmanager
def _gateway(home: Path, shared: Path) -> Iterator[str]:
    process = subprocess.Popen(
        [*COMMAND, "serve", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=home,
        env=environment(home, PROMETHEUS_MULTIPROC_DIR=str(shared)),
    )
    assert process.stdout is not None
    with process.stdout:
        line = process.stdout.readline().decode()
        found = re.search(r"http://[^\s/]+", line)
        assert found, f"the gateway did not start: {line!r}"
        try:
            yield found[0]
        finally:
            process.terminate()
            process.wait()


def main() -> int:
    if shutil.which(PROMTOOL):
        return 0
    if shutil.which("apt-get") is None:
        sys.stderr.write(f"{PROMTOOL} is not installed, and neither is apt-get: install it.\n")
        return 1
    prefix = [] if os.geteuid() == 0 else ["sudo"]
    for command in _INSTALL:
        subprocess.run([*prefix, *command], check=True, stdout=subprocess.DEVNULL)
    return 0


if __name__ == "__main__":
    sys.exit(main())
