"""Oracles of the lifecycle: event logs, background responses, retries, conversations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from antiphon.store.trace.rows import TraceRequest
from tests.simulation.lifecycle.records import BackgroundResponse, Retry, has_ended, read_log
from tests.simulation.lifecycle.retries import NOTICED_S
from tests.simulation.records import QUESTION, TERMINAL, Exchange, UpstreamCall
from tests.simulation.safety import Oracle, describe, names_total_timeout, wants_round
from tests.simulation.virtual_loop import EPOCH
from tests.simulation.world import World

_ITEM_DONE = "response.output_item.done"
_SLACK_S = 1.0
_CANCEL_S = 6.0  # a response of another process is waited for, but not for ever
_CLOSE_S = 0.1
_NOT_FOUND = (404, 500, 503)  # not found, or the store or the process does not work
_TOLD_S = 30.0  # by then every process has renewed its lease, and learned of deletions


def kept(world: World) -> Iterator[BackgroundResponse]:
    """The background responses that nobody has tried to delete."""
    deleted = world.lifecycle.deleted
    return (each for each in world.lifecycle.background.values() if each.id not in deleted)


def is_calm(world: World) -> bool:
    """Whether every process was able to do its work all the time."""
    plan = world.plan
    return plan.disk == "good" and plan.operator == "none" and plan.stall_at_s is None


def one_number_one_event(world: World) -> Iterator[str]:
    """A sequence number belongs to one event, for every reader and in the store; so the parts that
    a client has read are those of one log."""
    for response in world.lifecycle.background.values():
        seen: dict[int, bytes] = {}
        for exchange in response.streams:
            frames = [frame for frame in exchange.frames if frame.startswith(b"event: response.")]
            numbered = (event for event in exchange.numbered if event["type"] != "error")
            for event, frame in zip(numbered, frames, strict=True):
                number = event["sequence_number"]
                if seen.setdefault(number, frame) != frame:
                    yield f"{response.id}: two events have the number {number}"
        if response.id not in world.lifecycle.deleted and response.exchange.is_stream:
            yield from _compare_log(response.id, seen, read_log(world, response.id))


def _compare_log(response_id: str, seen: dict[int, bytes], log: list[bytes]) -> Iterator[str]:
    if any(number >= len(log) or log[number] != frame for number, frame in seen.items()):
        yield f"{response_id}: a client has read an event that is not in the log"
    kinds = [frame.partition(b"\n")[0].removeprefix(b"event: ").decode() for frame in log]
    ends = [number for number, kind in enumerate(kinds) if kind in TERMINAL]
    if ends != [len(log) - 1]:
        yield f"{response_id}: terminal events at {ends} of {len(log)} in the log"


def accepted_is_retrievable(world: World) -> Iterator[str]:
    """A background response whose id a client has received can be retrieved in the end, has ended,
    and its events can be read from any number on."""
    for response in kept(world):
        for audit in response.audits:
            if audit.status != 200 or audit.outcome != "complete":
                yield f"{response.id}: {describe(audit)} → {audit.result}"
            elif not audit.is_stream and not has_ended(audit.response or {}):
                yield f"{response.id}: {audit.result} at the end of the world"


def ended_never_changes(world: World) -> Iterator[str]:
    """A response that has ended for one request of its client is the same for every other one."""
    for response in kept(world):
        told = (*response.visits, *response.cancels, *response.audits, response.exchange)
        found = [each.response for each in told if each.response is not None]
        different = {repr(each) for each in found if has_ended(each)}
        if len(different) > 1:
            yield f"{response.id}: has ended in {len(different)} ways"


def finished_items_stay(world: World) -> Iterator[str]:
    """An item that a client has seen finished, in a stream or in a response that was still running,
    is in the response that has ended."""
    for response in kept(world):
        told = [each.response for each in (*response.visits, *response.audits) if each.response]
        seen = [item for each in told if not has_ended(each) for item in each["output"]]
        for exchange in response.streams:
            seen += [event["item"] for event in exchange.numbered if event["type"] == _ITEM_DONE]
        for ended in filter(has_ended, told):
            if missing := [item["id"] for item in seen if item not in ended["output"]]:
                yield f"{response.id}: {missing} are not in its output"


def events_follow_their_log(world: World) -> Iterator[str]:
    """The store never has to refuse events because they do not follow those that it has: only the
    process that holds a run gets so far."""
    yield from world.disk.disorders


def background_is_hidden(world: World) -> Iterator[str]:
    """Another client finds nothing, and changes nothing."""
    for response in world.lifecycle.background.values():
        for found in response.foreign_visits:
            if found.outcome == "complete" and found.status not in _NOT_FOUND:
                yield f"{response.id}: {describe(found)} of another client: {found.result}"


def deleted_is_gone(world: World) -> Iterator[str]:
    """A response whose deletion was answered is not found any more, and its events are gone."""
    for response in world.lifecycle.background.values():
        if response.delete is None:
            continue
        later = [each for each in response.visits if _must_know(response, each)]
        for found in (*later, *response.audits):
            if found.outcome == "complete" and found.status not in _NOT_FOUND:
                yield f"{response.id}: {describe(found)} after its deletion: {found.result}"
        if world.disk.read_response(response.id) is not None:
            yield f"{response.id}: is stored after its deletion"


def _must_know(response: BackgroundResponse, found: Exchange) -> bool:
    """Whether a process must know of a deletion. Another one learns of it a moment later, and so
    does one that is just about to begin a response that was queued."""
    delete = response.delete
    assert delete is not None
    streams = [each for each in response.streams if each.ended < delete.began]
    kinds = {event["type"] for each in streams for event in each.numbered}
    had_begun = "response.in_progress" in kinds
    is_same = had_begun and found.process == delete.process
    return found.began >= delete.ended + (0.0 if is_same else _TOLD_S)


def cancel_ends(world: World) -> Iterator[str]:
    """Cancelling a response ends it, soon, and stops its upstream."""
    calls = world.history.calls_of()
    for response in kept(world):
        for cancel in response.cancels:
            if cancel.status != 200 or cancel.outcome != "complete" or not is_calm(world):
                continue
            if cancel.ended - cancel.began > _CANCEL_S:
                yield f"{response.id}: cancelled after {cancel.ended - cancel.began:.1f} s"
            if not has_ended(cancel.response or {}):
                yield f"{response.id}: {cancel.result} after its cancellation"
            limit = cancel.ended + _CLOSE_S + 4 * world.plan.latency_s
            for call in calls.get(response.exchange.number, []):
                ended_at = min(call.lost_at or limit + 1, call.finished_at or limit + 1)
                if ended_at > limit:
                    yield f"{response.id}: call {call.number} is open after the cancellation"


def good_background_completes(world: World) -> Iterator[str]:
    """A background response with a good upstream answer ends as its provider says, whatever its
    client does, unless its total time is over before the provider has sent all of it."""
    if world.plan.operator != "none" or world.may_lose_leases:
        return
    calls = world.history.calls_of()
    for response in kept(world):
        last = calls.get(response.exchange.number, [])[-1:]
        if response.cancels or not last or last[0].fault:
            continue
        if wants_round(response.exchange, last[0]):
            continue
        stored = world.disk.read_response(response.id) or {}
        if names_total_timeout(stored) and _was_cut_in_time(world, response, last[0]):
            continue
        if stored.get("status") != last[0].status:
            yield f"{response.id}: {stored.get('status')} after a good answer ({last[0].status})"


def _was_cut_in_time(world: World, response: BackgroundResponse, call: UpstreamCall) -> bool:
    """Whether a provider was still sending its answer when the total time of the response was over,
    and was not cut before.

    All rounds of a response have the total time together, so several good answers with long pauses
    may need more (seed 50199 with recordings: a pause of 6.4 s in each of four rounds, and 20 s for
    all of them). The time begins with the run, which only the trace shows: the wait for a place
    does not count, and tools may be listed before the first call.
    """
    rows = (row.row for gateway in world.gateways for row in gateway.trace.rows)
    began = [
        row.received_at_ms / 1000 - EPOCH
        for row in rows
        if isinstance(row, TraceRequest) and row.response_id == response.id
    ]
    if not began or call.lost_at is None:
        return False
    is_over_at = max(began) + world.total_s
    arrived_at = (call.finished_at or math.inf) + world.plan.latency_s
    return arrived_at > is_over_at and call.lost_at >= is_over_at


def retries_attach(world: World) -> Iterator[str]:
    """A request that is sent again within the window joins its response, and only that of its own
    client; it reads the same events from the first one on."""
    for retry in world.lifecycle.retries:
        first, again = retry.first, retry.again
        if retry.is_copy and again.attached_to:
            yield f"{describe(again)}: has joined the response of another client"
        known = first.response_id
        if again.attached_to and known and again.attached_to != known:
            yield f"{describe(again)}: has joined {again.attached_to}, not {known}"
        if again.attached_to and _differ(first, again):
            yield f"{describe(again)}: reads other events than the first time"
        if _must_attach(world, retry) and not again.attached_to:
            yield f"{describe(again)}: has not joined the response of exchange {first.number}"


def _differ(first: Exchange, again: Exchange) -> bool:
    if first.format != "responses":
        is_read = again.reading.status in ("completed", "incomplete")
        return is_read and not again.reading.text.startswith(first.reading.text)
    pairs = zip(first.numbered, again.numbered, strict=False)
    return any(one != other for one, other in pairs)


def _must_attach(world: World, retry: Retry) -> bool:
    first, again = retry.first, retry.again
    if retry.is_copy or first.was_over or not first.response_id or again.status != 200:
        return False
    if first.process != again.process or first.closed_at is None or world.may_lose_leases:
        return False
    waited_s = again.began - first.closed_at
    is_in_window = NOTICED_S / 2 < waited_s < world.config.attach.window_s - NOTICED_S / 2
    return is_in_window and first.process not in world.stopped and _has_answer(world, retry)


def _has_answer(world: World, retry: Retry) -> bool:
    """Whether there is something to join: a response that ends well. Where none is stored, its
    provider is still sending it, or has sent all of it after the loss of the client."""
    first, now = retry.first, retry.again.began
    if first.format == "responses":
        stored = world.disk.read_response(first.response_id) or {}
        return stored.get("status") in ("completed", "incomplete")
    closed_at = first.closed_at or 0.0
    made = world.history.calls_of().get(first.question, [])
    last = [call for call in made if call.began < closed_at][-1:]  # later ones may be a copy's
    if not last:
        return False
    finished_at, lost_at = last[0].finished_at, last[0].lost_at
    if finished_at is None or finished_at > now:
        return lost_at is None or lost_at > now
    is_good = not last[0].fault and last[0].status in ("completed", "incomplete")
    return is_good and finished_at > closed_at + _CLOSE_S


def conversations_are_in_order(world: World) -> Iterator[str]:
    """The items of a conversation are whole turns, one after another, in the order in which they
    ended; each turn that has succeeded is there once."""
    exchanges = world.history.exchanges
    for conversation in world.lifecycle.conversations:
        audit = conversation.audit
        if audit is None or audit.status != 200 or audit.outcome != "complete":
            yield f"{conversation.id}: its items cannot be listed"
            continue
        listed = [int(number) for number, _ in QUESTION.findall(audit.body)]
        if len({*listed}) < len(listed):
            yield f"{conversation.id}: has a turn twice: {listed}"
        for turn in conversation.turns:
            told = turn.response or {}
            is_kept = told.get("status") == "completed" and told["store"]
            if is_kept and turn.number not in listed:
                yield f"{conversation.id}: turn {turn.number} is missing in {listed}"
        turns = [exchanges[number] for number in listed]
        for index, turn in enumerate(turns):
            if any(_was_answered_before(later, turn) for later in turns[index + 1 :]):
                yield f"{conversation.id}: turn {turn.number} is out of order in {listed}"
        yield from _check_contexts(world, conversation.id, turns)
        yield from _check_overlaps(world, conversation.id, turns)


def _was_answered_before(first: Exchange, second: Exchange) -> bool:
    is_whole = first.outcome == "complete" and not first.is_background
    return is_whole and first.ended < second.began


def _check_contexts(world: World, id: str, turns: list[Exchange]) -> Iterator[str]:
    """Each provider was given the turns that had ended before the request."""
    calls = world.history.calls_of()
    for index, turn in enumerate(turns):
        earlier = [each for each in turns[:index] if each.outcome == "complete"]
        expected = [each.number for each in earlier if each.ended < turn.began]
        expected = [number for number in expected if not exchange_is_background(world, number)]
        for call in calls.get(turn.number, []):
            given = [int(number) for number, _ in QUESTION.findall(call.body)]
            if [number for number in given if number in expected] != expected:
                yield f"{id}: turn {turn.number} was given {given}, not {expected}"


def _check_overlaps(world: World, id: str, turns: list[Exchange]) -> Iterator[str]:
    """No provider was called for a turn while another one was not over."""
    if world.may_lose_leases or world.plan.operator != "none":
        return
    calls = world.history.calls_of()
    begun = [(calls[turn.number][0].began, turn) for turn in turns if turn.number in calls]
    begun.sort(key=lambda each: each[0])
    for (_, first), (began, second) in itertools.pairwise(begun):
        last = calls[first.number][-1]
        is_read = first.behaviour == "reads" and first.outcome == "complete"
        over = last.finished_at if is_read and not first.is_background else None
        if over is not None and began < over and last.lost_at != over:
            yield f"{id}: turn {second.number} began before turn {first.number} was over"


def exchange_is_background(world: World, number: int) -> bool:
    return world.history.exchanges[number].is_background


def no_problem_was_noticed(world: World) -> Iterator[str]:
    """Nothing was wrong while the world ran: nothing is in progress after the lease of its process,
    and a lane of a WebSocket has no events but its own."""
    yield from world.lifecycle.problems


LIFECYCLE: tuple[Oracle, ...] = (
    one_number_one_event,
    accepted_is_retrievable,
    ended_never_changes,
    finished_items_stay,
    events_follow_their_log,
    background_is_hidden,
    deleted_is_gone,
    cancel_ends,
    good_background_completes,
    retries_attach,
    conversations_are_in_order,
    no_problem_was_noticed,
)
