"""Planted defects: each changes one thing in the running gateway, and the simulation must find it.

    python -m tests.simulation.mutants            # all of them
    python -m tests.simulation.mutants NAME …     # some
    python -m tests.simulation.mutants --record   # keep the seeds that have found them

A mutant replaces one attribute of one class or module while its worlds run; the source on the disk
stays as it is. This is the only place where the project's code is patched: planting defects is its
purpose.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

import msgspec

import antiphon.core.translation.translation as translation_module
import antiphon.dialects.responses.render as render_module
import antiphon.engine.output as output_module
from antiphon.core.events import TERMINAL_EVENTS
from antiphon.dialects.defaults import DialectDefaults
from antiphon.engine.attempts import Attempt, Attempts
from antiphon.engine.health import CircuitBreaker, KeyLease, Keyring, ProviderHealth
from antiphon.engine.output import RunLog, TurnWriter
from antiphon.engine.retry import RetryPolicy
from antiphon.engine.runtime import InactivityTimer
from antiphon.engine.services import ActiveRuns
from antiphon.engine.tracing import RunTrace
from antiphon.engine.upstream import HTTPUpstream
from antiphon.errors import InvalidRequest, UpstreamError
from antiphon.runs.event_log import EventLog
from antiphon.runs.live_run import LiveRun
from antiphon.server.event_stream import _EventWriter
from antiphon.stages.builtin import LogStage
from antiphon.store.sqlite.store import SQLiteStore
from tests.simulation.bounds.mutants import BOUNDS_MUTANTS
from tests.simulation.formats.mutants import FORMAT_MUTANTS
from tests.simulation.lifecycle.mutants import LIFECYCLE_MUTANTS
from tests.simulation.limits.mutants import LIMIT_MUTANTS
from tests.simulation.mcp.mutants import MCP_MUTANTS
from tests.simulation.mutant import Mutant, do_nothing
from tests.simulation.plan import DIVIDES_STORE, TENANTS
from tests.simulation.reloads.mutants import RELOAD_MUTANTS
from tests.simulation.simulate import run_seeds, stop_collection, write

MOST_STREAMS = 10_000
SEEDS = Path(__file__).with_name("mutant_seeds.json")


@dataclass(frozen=True)
class Finding:
    """How a mutant was found, or that it was not."""

    streams: int
    seed: int | None = None
    violation: str = ""


def _second_terminal_event(original: Any) -> Any:
    def feed(self: EventLog, events: Sequence[Any]) -> Any:
        is_last = isinstance(events[-1], TERMINAL_EVENTS)
        return original(self, [*events, events[-1]] if is_last else events)

    return feed


def _sequence_gap(original: Any) -> Any:
    def feed(self: EventLog, events: Sequence[Any]) -> Any:
        self.next_number += self.next_number == 9
        return original(self, events)

    return feed


def _save_nothing(_: Any) -> Any:
    async def save(self: TurnWriter, response: Any, events: Any, facts: Any) -> Any:
        return events

    return save


def _save_later(original: Any) -> Any:
    saving = set()

    async def save(self: TurnWriter, response: Any, events: Any, facts: Any) -> Any:
        save_now = original(self, response, events, facts)
        saving.add(asyncio.get_running_loop().create_task(save_now))
        return events

    return save


def _save_something_else(original: Any) -> Any:
    async def save(self: SQLiteStore, turn: Any, **options: Any) -> None:
        changed = {**turn.response, "status": "in_progress"}
        await original(self, turn.with_response(changed), **options)

    return save


def _chain_of_anybody(original: Any) -> Any:
    """The chain that the request before this one asked for, by any client."""
    requested: list[tuple[str, dict[str, Any]]] = []

    async def chain(self: SQLiteStore, response_id: str, **options: Any) -> Any:
        requested.append((response_id, options))
        with suppress(Exception):
            last_id, last_options = requested[-2]
            return await original(self, last_id, **last_options)
        return await original(self, response_id, **options)

    return chain


def _chain_without_owner(original: Any) -> Any:
    """Any client may continue any response whose id it knows."""

    async def chain(self: SQLiteStore, response_id: str, **options: Any) -> Any:
        for name in TENANTS if DIVIDES_STORE else ():
            with suppress(InvalidRequest):
                return await original(self, response_id, client=name)
        return await original(self, response_id, **options)

    return chain


def _reopen_after_output(original: Any) -> Any:
    """Send the request again when the connection breaks in mid-stream."""

    async def open_again(self: HTTPUpstream, provider: Any, outbound: Any, key: str) -> Any:
        answer = await original(self, provider, outbound, key)
        read = answer.next

        async def read_again() -> Any:
            try:
                return await read()
            except UpstreamError:
                again = await original(self, provider, outbound, key)
                answer.next = again.next
                return await again.next()

        answer.next = read_again
        return answer

    return open_again


def _drop_a_chunk(original: Any) -> Any:
    """Lose the second read of every answer."""

    async def open_lossy(self: HTTPUpstream, provider: Any, outbound: Any, key: str) -> Any:
        answer = await original(self, provider, outbound, key)
        read, count = answer.next, iter(range(1_000_000))

        async def read_some() -> Any:
            data = await read()
            return await read() if next(count) == 1 else data

        answer.next = read_some
        return answer

    return open_lossy


def _provider_text_to_client(_: Any) -> Any:
    return lambda self, fault, **options: fault.message


def _forget_attempts(original: Any) -> Any:
    def after(self: RetryPolicy, *arguments: Any, **options: Any) -> Any:
        self._earlier_rounds = self._number
        return original(self, *arguments, **options)

    return after


def _store_always(original: Any) -> Any:
    return lambda *arguments, **options: original(*arguments, **{**options, "store": True})


def _wait_for_provider(original: Any) -> Any:
    async def open(self: LiveRun, commit_after_s: float, **options: bool) -> None:
        await original(self, 1000.0, **options)

    return open


def _raise_in_log(original: Any) -> Any:
    def on_terminal(self: LogStage, batch: Any) -> Any:
        if batch.event_count % 7 == 0:
            raise KeyError("planted")
        return original(self, batch)

    return on_terminal


def _key_in_log(original: Any) -> Any:
    def init(self: KeyLease, health: ProviderHealth, key: str) -> None:
        original(self, health, key)
        self.key_name = key

    return init


def _end_at_a_limit(original: Any) -> Any:
    return lambda reason: original("length" if reason == "end_turn" else reason)


def _end_well(original: Any) -> Any:
    return lambda reason: original("stop" if reason == "length" else reason)


async def _close_no_session(self: HTTPUpstream) -> None:
    return


MUTANTS: tuple[Mutant, ...] = (
    Mutant("a second terminal event", EventLog, "feed", _second_terminal_event),
    Mutant("a gap in the sequence numbers", EventLog, "feed", _sequence_gap),
    Mutant("no end marker", render_module, "DONE", lambda _: b": end\n\n"),
    Mutant("a key is never released", Keyring, "release", do_nothing),
    Mutant("the trial of a breaker is never released", CircuitBreaker, "end_trial", do_nothing),
    Mutant("a breaker never closes", CircuitBreaker, "record_success", do_nothing),
    Mutant("a key never rests", Keyring, "cool_down", do_nothing),
    Mutant("attempts are not counted", RetryPolicy, "after", _forget_attempts),
    Mutant("a retry after the first byte", HTTPUpstream, "open", _reopen_after_output),
    Mutant("a read is lost", HTTPUpstream, "open", _drop_a_chunk),
    Mutant("upstreams are not closed", Attempt, "hang_up", do_nothing),
    Mutant(
        "connections are left open at the end", HTTPUpstream, "close", lambda _: _close_no_session
    ),
    Mutant("a timer never fires", InactivityTimer, "_fire", do_nothing),
    Mutant("no total timeout", Attempts, "set_deadline", do_nothing),
    Mutant("no keep-alive", _EventWriter, "_on_silence", do_nothing),
    Mutant("the answer waits for its provider", LiveRun, "open", _wait_for_provider),
    Mutant("nothing is saved", TurnWriter, "save", _save_nothing),
    Mutant("saved after the terminal event", TurnWriter, "save", _save_later),
    Mutant("something else is saved", SQLiteStore, "save", _save_something_else),
    Mutant("`store: false` is ignored", output_module, "build_pipeline", _store_always),
    Mutant(
        "a failed save is not told", output_module, "_not_stored", lambda _: lambda event: event
    ),
    Mutant("the history of another client", SQLiteStore, "chain", _chain_of_anybody),
    *(
        [
            Mutant(
                "a client continues a response of another",
                SQLiteStore,
                "chain",
                _chain_without_owner,
            )
        ]
        if DIVIDES_STORE
        else []
    ),
    Mutant("a key in the log", KeyLease, "__init__", _key_in_log),
    Mutant(
        "the provider's error text to the client",
        DialectDefaults,
        "describe",
        _provider_text_to_client,
    ),
    Mutant("a failure is not logged", RunLog, "_log_fault", do_nothing),
    Mutant("a trace is not finished", RunTrace, "finish", do_nothing),
    Mutant("a run stays active", ActiveRuns, "discard", do_nothing),
    Mutant("an exception in a stage", LogStage, "on_terminal", _raise_in_log),
    Mutant(
        "a whole response is incomplete", translation_module, "map_finish_reason", _end_at_a_limit
    ),
    Mutant("a response cut short is whole", translation_module, "map_finish_reason", _end_well),
    *BOUNDS_MUTANTS,
    *FORMAT_MUTANTS,
    *LIFECYCLE_MUTANTS,
    *LIMIT_MUTANTS,
    *MCP_MUTANTS,
    *RELOAD_MUTANTS,
)


def find(mutant: Mutant, *, most_streams: int = MOST_STREAMS) -> Finding:
    """Run worlds with a mutant until a rule is violated; first the one that has found it before."""
    known = read_seeds().get(mutant.name)
    streams, seeds = 0, chain(() if known is None else (known,), count())
    with mutant.planted():
        while streams < most_streams:
            [report] = run_seeds([seed := next(seeds)], False)
            streams += report.streams
            if report.violations:
                return Finding(streams, seed, report.violations[0])
    return Finding(streams)


def find_named(name: str) -> Finding:
    """Find a mutant, in a worker process."""
    return find(next(mutant for mutant in MUTANTS if mutant.name == name))


def read_seeds() -> dict[str, int]:
    """Read in which world each mutant was found first; a hint only, as worlds change."""
    return msgspec.json.decode(SEEDS.read_bytes(), type=dict[str, int])


def _record(findings: Mapping[str, Finding]) -> None:
    found = {name: each.seed for name, each in findings.items() if each.seed is not None}
    seeds = msgspec.json.encode(read_seeds() | found, order="sorted")
    SEEDS.write_bytes(msgspec.json.format(seeds) + b"\n")


def main(arguments: Sequence[str]) -> int:
    options = _parse(arguments)
    began = time.monotonic()
    names = [each.name for each in MUTANTS if not options.names or each.name in options.names]
    findings = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.workers, context, stop_collection) as pool:
        for name, finding in zip(names, pool.map(find_named, names), strict=True):
            findings[name] = finding
            write(f"{name}: {finding.streams} streams, {finding.violation or 'NOT FOUND'}")
    taken_s = time.monotonic() - began
    missed = [name for name, finding in findings.items() if finding.seed is None]
    write(f"\n{len(names) - len(missed)} of {len(names)} mutants found in {taken_s:.0f} s")
    if options.record:
        _record(findings)
    return 1 if missed else 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutants")
    parser.add_argument("names", nargs="*", help="these only")
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--record", action="store_true", help=f"write the seeds to {SEEDS.name}")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
