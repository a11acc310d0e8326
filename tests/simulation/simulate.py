"""`make simulate`: run seeds, report violations, and add the result to a file.

    python -m tests.simulation.simulate --seeds 200 --first 1000
    python -m tests.simulation.simulate --minutes 10 --workers 2 --results FILE
    python -m tests.simulation.simulate --seed 123        # one seed, with its time line
    python -m tests.simulation.simulate --sum FILE        # add up the results of many runs

The exit status is 1 if any rule was violated.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path

from tests.simulation.check import Report, run_seed
from tests.simulation.results import Result, append_result, summarize_file

_BATCH = 10  # seeds that a worker takes at a time
_BATCHES_OF_A_WORKER = 50  # then it is replaced, so that its memory stays small
_SHOWN_LINES = 25  # of the time line of a violated seed


@dataclass
class Total:
    """The sum of the reports so far."""

    began: float = field(default_factory=time.monotonic)
    seeds: int = 0
    streams: int = 0
    virtual_s: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    formats: Counter[str] = field(default_factory=Counter)
    violated: list[Report] = field(default_factory=list)

    def add(self, report: Report) -> None:
        self.seeds += 1
        self.streams += report.streams
        self.virtual_s += report.virtual_s
        self.faults += report.faults
        self.outcomes += report.outcomes
        self.formats += report.formats
        if report.violations:
            self.violated.append(report)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began


def write(text: str, *, end: str = "\n") -> None:
    sys.stdout.write(text + end)
    sys.stdout.flush()


@contextmanager
def manual_collection() -> Iterator[None]:
    """Collect garbage between batches only: nothing is finalized at a moment left to chance.

    In a process that already excludes objects from collection, they stay excluded.
    """
    if not gc.isenabled():
        yield
        return
    frozen = gc.get_freeze_count()
    stop_collection()
    try:
        yield
    finally:
        gc.enable()
        if not frozen:
            gc.unfreeze()


def stop_collection() -> None:
    gc.collect()
    gc.freeze()
    gc.disable()


def run_seeds(seeds: Sequence[int], use_corpus: bool) -> list[Report]:
    """Run some seeds, in a worker process or in this one."""
    with manual_collection():
        reports = [run_seed(seed, use_corpus=use_corpus) for seed in seeds]
        gc.collect()
    return reports


def _take_batches(arguments: argparse.Namespace, deadline: float | None) -> Iterator[list[int]]:
    """Yield batches of seeds until the number or the time is used up."""
    seeds: Iterator[int] = count(arguments.first)
    if deadline is None:
        seeds = islice(seeds, arguments.seeds)
    while (deadline is None or time.monotonic() < deadline) and (batch := [*islice(seeds, _BATCH)]):
        yield batch


def run_many(arguments: argparse.Namespace) -> Total:
    total = Total()
    deadline = None if arguments.minutes is None else total.began + 60 * arguments.minutes
    batches = _take_batches(arguments, deadline)
    if arguments.workers == 1:
        for batch in batches:
            _add_reports(total, run_seeds(batch, arguments.corpus))
    else:
        _run_in_workers(total, batches, arguments)
    write("")
    return total


def _run_in_workers(
    total: Total, batches: Iterator[list[int]], arguments: argparse.Namespace
) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        arguments.workers, context, stop_collection, max_tasks_per_child=_BATCHES_OF_A_WORKER
    ) as pool:
        pending: set[Future[list[Report]]] = {
            pool.submit(run_seeds, batch, arguments.corpus)
            for batch in islice(batches, arguments.workers)
        }
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for each in done:
                _add_reports(total, each.result())
            for batch in islice(batches, len(done)):
                pending.add(pool.submit(run_seeds, batch, arguments.corpus))


def _add_reports(total: Total, reports: Sequence[Report]) -> None:
    for report in reports:
        total.add(report)
        if report.violations:
            _show_violation(report)
    speed = total.streams / max(total.seconds, 0.001)
    line = f"{total.seeds:,} seeds, {total.streams:,} streams, {total.virtual_s / 3600:,.1f}"
    write(f"\r{line} virtual hours, {speed:.0f} streams/s, {len(total.violated)} violated", end="")


def _show_violation(report: Report) -> None:
    write(f"\nseed {report.seed} at commit {commit()}:")
    for violation in report.violations:
        write(f"  {violation}")
    for line in format_lines(report)[-_SHOWN_LINES:]:
        write(f"    {line}")
    write(f"  replay: make simulate SEED={report.seed}")


def format_lines(report: Report) -> list[str]:
    return [f"{at:10.3f}  {actor:<12} {what}" for at, actor, what in report.lines]


def show_summary(total: Total) -> None:
    write(f"\n{total.seeds:,} seeds, {total.streams:,} streams in {total.seconds:.1f} s")
    tables = {"faults": total.faults, "outcomes": total.outcomes, "formats": total.formats}
    for title, table in tables.items():
        write(f"\n{title}:")
        for name, number in table.most_common():
            write(f"  {number:>9,}  {name}")
    write(f"\nviolated seeds: {[report.seed for report in total.violated] or 'none'}")


def commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def run_one(arguments: argparse.Namespace) -> int:
    """Run one seed and show its time line."""
    with manual_collection():
        report = run_seed(arguments.seed, use_corpus=arguments.corpus, keep_lines=True)
    for line in format_lines(report):
        write(line)
    write(f"\nseed {report.seed}: {report.streams} streams, digest {report.digest}")
    for violation in report.violations:
        write(f"VIOLATED {violation}")
    return 1 if report.violations else 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make simulate")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, help="run this seed alone and show its time line")
    parser.add_argument("--minutes", type=float, help="run for so long in place of --seeds")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--corpus", action="store_true", help="use recorded answers, too")
    parser.add_argument("--results", type=Path, help="append the result to this file")
    parser.add_argument("--sum", type=Path, help="add up the results in this file")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    if options.sum is not None:
        write(summarize_file(options.sum))
        return 0
    if options.seed is not None:
        return run_one(options)
    with manual_collection():
        total = run_many(options)
    show_summary(total)
    if options.results is not None:
        append_result(options.results, _make_result(options, total))
    return 1 if total.violated else 0


def _make_result(options: argparse.Namespace, total: Total) -> Result:
    return Result(
        commit=commit(),
        first=options.first,
        seeds=total.seeds,
        streams=total.streams,
        virtual_hours=round(total.virtual_s / 3600, 1),
        seconds=round(total.seconds, 1),
        cores=options.workers,
        corpus=options.corpus,
        violated=[report.seed for report in total.violated],
        faults=sum(total.faults.values()),
        formats=dict(total.formats),
    )


if __name__ == "__main__":
    sys.exit(main())
