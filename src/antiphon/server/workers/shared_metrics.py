"""Directory in which workers add up their metrics: the multiprocess mode of `prometheus-client`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable by which processes find the directory."""

Forget: TypeAlias = Callable[[int], None]
"""Called with the process id of a worker that has ended."""


@contextmanager
def share_metrics() -> Iterator[Forget]:
    """Make a directory for the figures of all workers, unless the operator has named one. Workers
    must be started within the context, before they load `prometheus-client`."""
    if given := os.environ.get(VARIABLE):
        yield _make_forget(Path(given))
        return
    with tempfile.TemporaryDirectory(prefix="antiphon-metrics-") as directory:
        os.environ[VARIABLE] = directory
        try:
            yield _make_forget(Path(directory))
        finally:
            del os.environ[VARIABLE]


def _make_forget(directory: Path) -> Forget:
    def forget(pid: int) -> None:
        """Take the gauges of a process out of the sums; what it has counted stays. A worker that
        was killed could not do it."""
        for file in directory.glob(f"gauge_live*_{pid}.db"):
            file.unlink(missing_ok=True)

    return forget
