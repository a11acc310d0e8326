"""CPU time of the page's lists with many requests in the trace, and of writing their summaries.

Run as `python bench/page.py [REQUESTS]`. A list must take less than 300 ms of the server's CPU.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import msgspec

from antiphon.server.ui.now import MINUTES, percentiles
from antiphon.store.trace.listing import (
    RequestFilter,
    count_minutes,
    list_choices,
    list_first_outputs,
    list_summaries,
)
from tests.support.pages.samples import seed_trace

LIMIT_MS = 300
ROUNDS = 20


def cpu_ms(run: Callable[[], object]) -> float:
    run()
    began = time.process_time()
    for _ in range(ROUNDS):
        run()
    return (time.process_time() - began) * 1000 / ROUNDS


def list_page(path: Path, chosen: RequestFilter) -> bytes:
    return msgspec.json.encode(list_summaries(path, chosen, limit=51))


def read_now(path: Path, now_ms: int) -> object:
    since = now_ms - MINUTES * 60_000
    return count_minutes(path, since), percentiles(list_first_outputs(path, since, 1000))


def main(requests: int) -> int:
    now_ms = int(time.time() * 1000)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "trace.db"
        began = time.process_time()
        seed_trace(path, now_ms, requests)
        seeding_s = time.process_time() - began
        results = {
            "the latest": cpu_ms(lambda: list_page(path, RequestFilter())),
            "failures": cpu_ms(lambda: list_page(path, RequestFilter(status=("failed",)))),
            "one client": cpu_ms(lambda: list_page(path, RequestFilter(client="admin"))),
            "no match": cpu_ms(lambda: list_page(path, RequestFilter(client="nobody"))),
            "choices": cpu_ms(lambda: list_choices(path)),
            "now": cpu_ms(lambda: read_now(path, now_ms)),
        }
    print(f"{requests} requests; made and written in {seeding_s:.1f} s of CPU")
    for name, each in results.items():
        print(f"{name:12} {each:8.2f} ms of CPU")
    return int(max(results.values()) > LIMIT_MS)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
