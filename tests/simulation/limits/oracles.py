"""Oracles of the limits of clients, by process: each counts for itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.simulation.plan import LIMITED
from tests.simulation.records import Exchange, UpstreamCall
from tests.simulation.safety import Oracle, is_refused_by_limit
from tests.simulation.world import World

_MINUTE_S = 60.0
_LEFT_S = 0.2  # within which a connection is lost whose run has ended
_ENDED_S = 1.0  # within which a run is over whose client has read the end


class Span(NamedTuple):
    """The times between which something has happened for certain."""

    first: float
    last: float


def limited(world: World) -> list[Exchange]:
    return [each for each in world.history.exchanges if each.tenant == LIMITED]


def request_rates_hold(world: World) -> Iterator[str]:
    """A client has no more requests admitted in any minute than its limit allows."""
    limit = world.config.limits.clients[LIMITED].requests_per_minute
    calls = world.history.calls_of()
    for gateway in world.gateways if limit is not None else ():
        found = [each for each in limited(world) if each.process == gateway.process.name]
        spans = [_find_admission(each, calls.get(each.number, [])) for each in found]
        admitted = sorted(each for each in spans if each is not None)
        assert limit is not None
        for start in range(len(admitted) - limit):
            group = admitted[start : start + limit + 1]
            if max(each.last for each in group) - group[0].first < _MINUTE_S:
                at = group[0].first
                yield f"{gateway.process.name}: over {limit} requests in a minute from {at:.1f}"


def _find_admission(exchange: Exchange, calls: list[UpstreamCall]) -> Span | None:
    """When a request was admitted; None if it was not, or nobody knows."""
    if exchange.is_background:
        is_accepted = exchange.status == 200 and exchange.head_at is not None
        return Span(exchange.began, exchange.head_at or 0.0) if is_accepted else None
    return Span(exchange.began, calls[0].began) if calls else None


def running_responses_hold(world: World) -> Iterator[str]:
    """A client has no more responses generated at a time than its limit allows."""
    limit = world.config.limits.clients[LIMITED].max_streams
    calls = world.history.calls_of()
    for gateway in world.gateways if limit is not None else ():
        moments: list[tuple[float, int]] = []
        for exchange in limited(world):
            if exchange.process == gateway.process.name and exchange.number in calls:
                run = _find_run(world, exchange, calls[exchange.number])
                moments += [(run.first, 1), (run.last, -1)] if run.first < run.last else []
        running = 0
        for at, change in sorted(moments):
            running += change
            if running > (limit or 0):
                yield f"{gateway.process.name}: {running} responses at {at:.1f}, allowed {limit}"
                break


def _find_run(world: World, exchange: Exchange, calls: list[UpstreamCall]) -> Span:
    """When the run of a response was running for certain: until its client has read the end, or
    else while it waited for the first answer of a provider."""
    call, is_read = calls[0], exchange.behaviour == "reads" and exchange.outcome == "complete"
    if is_read and not exchange.is_background:
        return Span(call.began, exchange.ended - 4 * world.plan.latency_s - _LEFT_S)
    ends = [each for each in (call.answered_at, call.lost_at) if each is not None]
    is_here = call.process == exchange.process
    return Span(call.began, min(ends, default=0.0) - _LEFT_S if is_here else 0.0)


def refusals_are_right(world: World) -> Iterator[str]:
    """A request beyond a limit is told when to come back, and calls no provider; one within the
    limits is not refused."""
    calls = world.history.calls_of()
    for exchange in world.history.exchanges:
        if not is_refused_by_limit(exchange) or exchange.outcome != "complete":
            continue
        if exchange.tenant != LIMITED:
            yield f"exchange {exchange.number}: {exchange.tenant} has no limits"
        if exchange.number in calls:
            yield f"exchange {exchange.number}: a provider was called for a refused request"
        if int(exchange.headers.get("retry-after", "0")) < 1:
            yield f"exchange {exchange.number}: refused without Retry-After"
        yield from _check_reason(world, exchange)


def _check_reason(world: World, refused: Exchange) -> Iterator[str]:
    limits = world.config.limits.clients[LIMITED]
    others = [
        each
        for each in limited(world)
        if each is not refused
        and each.process == refused.process
        and each.began <= refused.ended
        and not is_refused_by_limit(each)
    ]
    if b"requests_per_minute" in refused.body:
        counted = [each for each in others if each.began > refused.began - _MINUTE_S - _ENDED_S]
        limit = limits.requests_per_minute or 0
    elif b"max_streams" in refused.body:
        counted = [each for each in others if _may_run(each, refused.began)]
        limit = limits.max_streams or 0
    else:
        return  # what an answer has cost is not known to every client
    if len(counted) < limit:
        yield f"exchange {refused.number}: refused with {len(counted)} of {limit} in use"


def _may_run(exchange: Exchange, at: float) -> bool:
    """Whether a response may be running at a time."""
    has_read_all = exchange.outcome == "complete" and not exchange.is_background
    return not has_read_all or exchange.ended + _ENDED_S > at


def accepted_is_not_refused(world: World) -> Iterator[str]:
    """A response that was accepted in the background is not refused by a limit afterwards."""
    for name, entry in world.history.log:
        if entry.event == "background.run_broken" and entry.facts["reason"] == "LimitExceeded":
            yield f"{name}: {entry.facts['response_id']} was refused after it was accepted"


LIMITS: tuple[Oracle, ...] = (
    request_rates_hold,
    running_responses_hold,
    refusals_are_right,
    accepted_is_not_refused,
)
