"""Liveness oracles: what must happen in the end, and how soon. Each yields its violations."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tests.simulation.plan import list_keys
from tests.simulation.records import Exchange
from tests.simulation.safety import Oracle, describe, streams
from tests.simulation.world import World

_SLACK_S = 1.0  # for latencies of network and disk
_CLOSE_S = 0.1


def the_world_ends(world: World) -> Iterator[str]:
    """Every request is answered, and every process ends when it is told to."""
    if world.stuck:
        yield world.stuck


def answers_end_in_time(world: World) -> Iterator[str]:
    """An answer ends within the time that its attempts may take, in virtual time."""
    timeouts = next(iter(world.config.providers.values())).timeouts
    stream_s = timeouts.total_s
    whole_s = world.config.attempts.max_s + timeouts.total_s
    for exchange in world.history.exchanges:
        if exchange.outcome != "complete" or exchange.is_background:
            continue
        limit_s = stream_s if exchange.is_stream else whole_s
        limit_s += exchange.paused_s + saves_s(world, exchange) + _SLACK_S
        taken_s = exchange.ended - exchange.began
        if taken_s > limit_s:
            yield f"exchange {exchange.number}: took {taken_s:.1f} s of {limit_s:.1f} s"


def saves_s(world: World, exchange: Exchange) -> float:
    """How long the store may take, from the beginning to the end: a lock, the start, the turn."""
    saves = 4 if exchange.request.get("conversation") else 2
    return saves * world.longest_save_s + world.stalled_s.get(exchange.process, 0.0)


def streams_begin_in_time(world: World) -> Iterator[str]:
    """A streamed request gets the head of its answer within `commit_after_s`."""
    for exchange in world.history.exchanges:
        if exchange.is_stream and exchange.head_at is not None and not exchange.is_background:
            limit_s = world.config.server.commit_after_s + saves_s(world, exchange) + _SLACK_S
            taken_s = exchange.head_at - exchange.began
            if taken_s > limit_s:
                yield f"exchange {exchange.number}: head after {taken_s:.1f} s"


def silence_is_filled(world: World) -> Iterator[str]:
    """A stream that has begun is never silent for longer than `keepalive_s`."""
    limit_s = world.config.server.keepalive_s + _SLACK_S
    for exchange in streams(world):
        silence_s = exchange.longest_silence_s - exchange.paused_s
        if silence_s > limit_s:
            yield f"{describe(exchange)}: silent for {silence_s:.1f} s"


def upstreams_are_closed(world: World) -> Iterator[str]:
    """An upstream is closed within 100 ms of the loss of its client, or of the end of the window in
    which the client may come back. A background response goes on."""
    again = {retry.first.question for retry in world.lifecycle.retries}
    for number, calls in world.history.calls_of().items():
        if number < 0 or (closed_at := world.history.exchanges[number].closed_at) is None:
            continue
        exchange = world.history.exchanges[number]
        if exchange.is_background or number in again:
            continue
        limit_s = _CLOSE_S + 4 * world.plan.latency_s
        limit_s += world.config.attach.window_s if exchange.may_attach else 0.0
        for call in calls:
            if _is_open_at(call.lost_at, call.finished_at, closed_at + limit_s):
                yield f"exchange {number}: call {call.number} is open after its client's loss"
            if call.began > closed_at + limit_s:
                yield f"exchange {number}: call {call.number} was made after its client's loss"


def _is_open_at(lost_at: float | None, finished_at: float | None, limit: float) -> bool:
    """Whether a call that was not answered completely is open after a time."""
    if finished_at is not None and finished_at <= limit:
        return False  # its connection may serve other requests
    return lost_at is None or lost_at > limit


def recovered_providers_are_used(world: World) -> Iterator[str]:
    """A provider that works again is used again once its rest is over."""
    calls = world.history.calls_of()
    for exchange in world.history.exchanges:
        if not exchange.is_probe:
            continue
        expected = str(exchange.request["model"]).removeprefix("safe-")
        if has_no_key(world, exchange, expected):
            continue
        used = [call.provider for call in calls.get(exchange.number, [])]
        if exchange.result != "completed" or used != [expected]:
            yield f"probe of {expected}: {exchange.result} by {used}"


def has_no_key(world: World, probe: Exchange, provider: str) -> bool:
    """Whether the provider has rejected every key for good: then the process uses none again."""
    rejected = {
        call.key
        for call in world.history.calls
        if call.provider == provider
        and call.rests_until == math.inf
        and call.process == probe.process
    }
    return len(rejected) == len(list_keys(provider))


def nothing_is_left(world: World) -> Iterator[str]:
    """An idle gateway holds no run, key or trial, and an ended one no task, timer or socket."""
    yield from world.leaks


def traces_are_finished(world: World) -> Iterator[str]:
    """Every request in the trace has its outcome, unless the process was killed."""
    for gateway in world.gateways:
        if gateway.process.is_dead:
            continue
        begun: dict[str, None] = {}
        for row in gateway.trace.rows:
            tag = row.row.__struct_config__.tag
            if tag == "request":
                begun[row.row.request_id] = None
            elif tag == "finish":
                begun.pop(row.row.request_id, None)
        for request_id in begun:
            yield f"{gateway.process.name}: the trace of {request_id} has no outcome"


def everyone_is_answered(world: World) -> Iterator[str]:
    """Every exchange has an outcome at the end of the world."""
    yield from (f"{describe(each)}: no outcome" for each in _unanswered(world))


def _unanswered(world: World) -> list[Exchange]:
    exchanges = (*world.history.exchanges, *world.history.visits)
    return [each for each in exchanges if not each.outcome]


LIVENESS: tuple[Oracle, ...] = (
    the_world_ends,
    answers_end_in_time,
    streams_begin_in_time,
    silence_is_filled,
    upstreams_are_closed,
    recovered_providers_are_used,
    nothing_is_left,
    traces_are_finished,
    everyone_is_answered,
)
