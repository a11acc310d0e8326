"""Metrics of several processes of one parent: each process answers with the sums of all."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from prometheus_client import values
from prometheus_client.multiprocess import mark_process_dead

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


@contextmanager
def shared_metrics(environment: MutableMapping[str, str]) -> Iterator[None]:
    """Have the processes that are forked inside add up their figures, in files of a new directory
    that the environment of this process names.

    A directory that it names already is used, and not removed: it is the operator's."""
    if VARIABLE in environment:
        yield
        return
    before = values.ValueClass
    with TemporaryDirectory(prefix="antiphon-metrics-") as directory:
        environment[VARIABLE] = directory
        # It has read the variable when it was imported.
        values.ValueClass = values.get_value_class()  # type: ignore[no-untyped-call]
        try:
            yield
        finally:
            values.ValueClass = before
            del environment[VARIABLE]


def forget_process(pid: int) -> None:
    """Take the gauges of a process that has ended out of the sums; what it has counted stays."""
    mark_process_dead(pid)  # type: ignore[no-untyped-call]
