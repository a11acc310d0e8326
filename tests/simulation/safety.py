"""Safety oracles: what must never happen, whatever fails. Each yields its violations as text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import msgspec

from antiphon.runs.recovery import PROCESS_LOST
from tests.simulation.lifecycle.records import has_ended
from tests.simulation.mcp.calls import MOST_ROUNDS
from tests.simulation.plan import KEYS, key_name, list_keys
from tests.simulation.records import ANSWER, TERMINAL, Exchange, UpstreamCall
from tests.simulation.world import World
from tests.support.stream_validator import check
from tests.support.wire_schemas import check_response

Oracle = Callable[[World], Iterator[str]]

_LEARNED_S = 0.1  # after which the gateway has read an answer
_CRASHES = ("gateway.bug", "request.failed")
_STORE_FAILED = "store.failed"  # a disk that fails is no crash
_OWN_EVENT = re.compile(r"response\.(output_text|refusal|reasoning|function_call|custom_tool_call)")
"""Events that the gateway makes itself."""
_NOT_HANDED_ON = "The response was not generated: the request has credentials for MCP servers"
_FAILURES = ("upstream.failed", "attempt.failed", "response.failed", "request.failed")


def streams(world: World) -> Iterator[Exchange]:
    """The streamed answers that began, and what was read of them again."""
    exchanges = (*world.history.exchanges, *world.history.visits)
    return (each for each in exchanges if each.is_stream and each.status == 200)


def event_streams(world: World) -> Iterator[Exchange]:
    """The streams of events of the Responses API."""
    return (each for each in streams(world) if each.format == "responses")


def describe(exchange: Exchange) -> str:
    name = "exchange" if exchange.question >= 0 else f"{exchange.method} {exchange.path}, visit"
    return f"{name} {exchange.number}"


def is_deleted(world: World, exchange: Exchange) -> bool:
    """Whether a client has asked for the deletion of the response."""
    ids = (exchange.response_id, exchange.path.partition("?")[0].rpartition("/")[2])
    return not world.lifecycle.deleted.isdisjoint(ids)


def one_terminal_event(world: World) -> Iterator[str]:
    """A streamed answer ends with exactly one terminal event and the end marker; a part of one has
    at most one terminal event, and nothing after it."""
    for exchange in event_streams(world):
        kinds = [event["type"] for event in exchange.events]
        ends = [number for number, kind in enumerate(kinds) if kind in TERMINAL]
        if len(ends) > 1 or (ends and ends[0] != len(kinds) - 1):
            yield f"{describe(exchange)}: terminal events at {ends} of {len(kinds)}"
        if exchange.outcome == "complete":
            if not ends and (kinds or exchange.after < 0):
                yield f"{describe(exchange)}: ended without a terminal event"
            if not exchange.body.endswith(b"data: [DONE]\n\n"):
                yield f"{describe(exchange)}: ended without [DONE]"


def gapless_numbers(world: World) -> Iterator[str]:
    """The sequence numbers of a stream are 0, 1, 2 … without a gap or a repetition, but that a
    keep-alive repeats the last one."""
    for exchange in event_streams(world):
        expected = exchange.after + 1
        for event in exchange.events:
            is_keepalive = event["type"] == "keepalive"
            if event["sequence_number"] != expected - is_keepalive:
                numbers = [event["sequence_number"] for event in exchange.events]
                yield f"{describe(exchange)}: sequence numbers {numbers}"
                break
            expected += not is_keepalive


def event_grammar(world: World) -> Iterator[str]:
    """A complete stream keeps every rule of the contract, and a whole answer its shape."""
    calls = world.history.calls_of()
    for exchange in world.history.exchanges:
        if exchange.status != 200 or exchange.outcome != "complete" or _is_orphan(world, exchange):
            continue
        if exchange.format != "responses":
            continue  # other formats have their own grammar
        try:
            if exchange.is_stream:
                check(exchange.events)
            elif not exchange.is_background:
                check_response(exchange.response or {}, "whole answer")
        except (AssertionError, KeyError) as error:
            if not _is_passed_on(calls.get(exchange.question, []), str(error)):
                yield f"exchange {exchange.number}: {error!r}"


def _is_passed_on(calls: list[UpstreamCall], error: str) -> bool:
    """Whether events of a provider's own tool, which are passed on as they are, have lost one."""
    is_lost = bool(calls) and calls[-1].is_recorded and calls[-1].fault == "lost frame"
    return is_lost and "is what was streamed" in error and not _OWN_EVENT.search(error)


def whole_unless_stopped(world: World) -> Iterator[str]:
    """The gateway closes no connection before the end of its answer, unless its process ends."""
    for exchange in (*world.history.exchanges, *world.history.visits):
        if exchange.outcome != "cut" or is_deleted(world, exchange):
            continue
        if exchange.process in world.stopped:
            continue
        is_kept = exchange.is_background or exchange.question < 0
        if not (is_kept and world.may_lose_leases):  # else it may have been taken over
            yield f"{describe(exchange)}: the gateway closed the connection"


def told_is_stored(world: World) -> Iterator[str]:
    """When a client reads a terminal event with `store: true`, the store holds exactly this
    response; with `store: false` it holds nothing."""
    for exchange in world.history.exchanges:
        if (told := exchange.response) is None or exchange.stored is None:
            continue
        if not has_ended(told) or is_deleted(world, exchange):
            continue
        if told["store"] and not _is_same(world, exchange, told):
            state = "is different" if exchange.stored else "is missing"
            yield f"exchange {exchange.number}: the stored response {state}"
        if not told["store"] and has_ended(exchange.stored) and not _was_lost(exchange.stored):
            yield f"exchange {exchange.number}: stored although `store` is false"


def _is_same(world: World, exchange: Exchange, told: dict[str, Any]) -> bool:
    """Whether the stored response is the one that the client was told of. In other formats it has
    the same end and the same text."""
    stored = exchange.stored or {}
    if exchange.format == "responses":
        return stored == told
    may_fail = world.plan.disk in ("failing", "full") or world.may_lose_leases
    if _was_lost(stored) or (not stored and may_fail):
        return True  # a failed save is told by `store: false`, which other formats do not have
    if stored.get("status") != told["status"]:
        return False
    # Messages explains a refusal where a message ends: one that fails has no such end.
    with_refusals = exchange.format != "messages" or told["status"] != "failed"
    texts = list_texts(stored, with_refusals=with_refusals)
    return "".join(texts) == exchange.reading.text


def stored_never_changes(world: World) -> Iterator[str]:
    """A response that was stored is stored unchanged at the end, also after a crash."""
    for exchange in world.history.exchanges:
        stored = exchange.stored
        if not stored or not has_ended(stored) or is_deleted(world, exchange):
            continue
        is_told = exchange.format == "responses" and (exchange.response or stored)["store"]
        if _was_lost(stored) and not is_told:
            continue  # it is deleted when the disk works again
        if world.disk.read_response(stored["id"]) != stored:
            yield f"exchange {exchange.number}: the stored response has changed or is gone"


def _was_lost(response: dict[str, Any]) -> bool:
    """Whether a response was ended by another process than the one that has generated it, or has
    accepted it: credentials for MCP servers are not handed on."""
    message = (response.get("error") or {}).get("message", "")
    return bool(message == PROCESS_LOST or message.startswith(_NOT_HANDED_ON))


def _is_orphan(world: World, exchange: Exchange) -> bool:
    """Whether a response may have been ended by a process that does not know its output."""
    response = exchange.response or {}
    is_cancelled = exchange.is_background and response.get("status") == "cancelled"
    is_calm = (
        world.plan.operator == "none" and world.plan.disk == "good" and not world.may_lose_leases
    )
    return _was_lost(response) or (is_cancelled and not is_calm)


@cache
def _label_of(tenant: str) -> re.Pattern[bytes]:
    """The labels of a client's texts, which no random text (sealed state, ids) looks like."""
    return re.compile(rb"[qa]x\d+-%b[-x]" % tenant.encode())


def tenants_apart(world: World) -> Iterator[str]:
    """No text of one client reaches another one, or a provider in another one's request."""
    exchanges = world.history.exchanges
    for exchange in (*exchanges, *world.history.visits):
        if exchange.question >= 0 and exchanges[exchange.question].tenant != exchange.tenant:
            continue  # it has sent the text of another client itself
        for other in KEYS:
            if other != exchange.tenant and _label_of(other).search(_received(exchange)):
                yield f"{describe(exchange)}: {exchange.tenant} received text of {other}"
    for call in world.history.calls:
        if len(call.tenants) > 1:
            yield f"call {call.number}: holds text of {' and '.join(call.tenants)}"


def _received(exchange: Exchange) -> bytes:
    """What a client has received; text that came in pieces is put together."""
    return bytes(exchange.body) + exchange.reading.text.encode("utf-8", "surrogatepass")


def foreign_responses_are_hidden(world: World) -> Iterator[str]:
    """A response of another client is not found, and its use calls no provider."""
    calls = world.history.calls_of()
    for exchange in world.history.exchanges:
        if exchange.knows_foreign and exchange.outcome == "complete":
            if not 400 <= exchange.status < 500:
                yield f"exchange {exchange.number}: {exchange.result} with a foreign response"
            if exchange.number in calls:
                yield f"exchange {exchange.number}: a provider was called with a foreign response"


def no_secret_leaves(world: World) -> Iterator[str]:
    """No API key is in anything that a client receives, in the log or in the trace."""
    keys = [key for entry in world.config.providers.values() for key in entry.api_keys]
    secrets = [secret.partition(":")[2] or secret for secret in (*keys, *KEYS.values())]
    places: list[tuple[str, bytes]] = [
        (describe(each), bytes(each.body) + repr(each.headers).encode())
        for each in (*world.history.exchanges, *world.history.visits)
    ]
    places.append(("the log", msgspec.json.encode([entry for _, entry in world.history.log])))
    for gateway in world.gateways:
        rows = b"\n".join(row.body + row.blob for row in gateway.trace.rows)
        places.append((f"the trace of {gateway.process.name}", rows))
    for place, data in places:
        for secret in secrets:
            if secret.encode() in data:
                yield f"{place} holds the key {secret!r}"


def resting_keys_are_not_used(world: World) -> Iterator[str]:
    """A key that its provider rejected or limited is not used while another key may be used."""
    seen: dict[tuple[str, str], list[UpstreamCall]] = {}
    for call in world.history.calls:
        earlier = seen.setdefault((call.process, call.provider), [])
        told = [each for each in earlier if each.rests_until > call.began]
        resting = {each.key for each in told if _was_learned(each, world, call.began)}
        doubtful = {each.key for each in (*told, *(one for one in earlier if one.may_rest))}
        usable = {key_name(key) for key in list_keys(call.provider)} - doubtful
        if call.key in resting and usable:
            yield f"call {call.number}: {call.provider} key {call.key} is resting"
        if call.rests_until or call.may_rest:
            earlier.append(call)


def _was_learned(call: UpstreamCall, world: World, now: float) -> bool:
    """Whether the gateway has read an answer before a time: its client was still there."""
    if call.answered_at is None or call.answered_at + _LEARNED_S > now:
        return False
    exchange = world.history.exchanges[call.exchange]
    if exchange.is_background and world.may_lose_leases:
        return False  # its run may have been taken over
    closed_at = exchange.closed_at or world.lifecycle.find_end(exchange)
    return closed_at is None or closed_at > call.answered_at + _LEARNED_S


_FORMATS = ("text", "response_format", "output_config", "output_format")
"""Members of requests, in all client formats, that may ask for an output format."""


def attempts_within_limit(world: World) -> Iterator[str]:
    """A request causes at most `max_attempts` upstream calls in each of its rounds."""
    exchanges = world.history.exchanges
    limits: Counter[int] = Counter()
    for each in exchanges:
        if not each.attached_to:
            limits[each.question] += world.config.attempts.max_attempts * _most_rounds(world, each)
    for number, calls in world.history.calls_of().items():
        if len(calls) > limits[number]:
            yield f"exchange {number}: {len(calls)} upstream calls, allowed are {limits[number]}"


def _most_rounds(world: World, exchange: Exchange) -> int:
    """A reminder, and the correction of an output that breaks its format, are rounds of their
    own; so are those with calls of MCP tools."""
    has_format = any(exchange.request.get(name) for name in _FORMATS)
    calls = MOST_ROUNDS if exchange.mcp is not None else 0
    return 1 + world.config.attempts.reminders + has_format + calls


def one_attempt_per_answer(world: World) -> Iterator[str]:
    """The text of an answer comes from one upstream call of its own request."""
    for exchange in world.history.exchanges:
        if (response := exchange.response) is None:
            continue
        labels = set(ANSWER.findall(_text_of(response)))
        if any(int(number) != exchange.question for number, _, _ in labels):
            yield f"exchange {exchange.number}: text of another request: {sorted(labels)}"
        if len(labels) > 1 and exchange.mcp is None:
            yield f"exchange {exchange.number}: text of several attempts: {sorted(labels)}"


def _text_of(response: dict[str, Any]) -> str:
    return " ".join(list_texts(response))


def list_texts(response: dict[str, Any], *, with_refusals: bool = True) -> Iterator[str]:
    messages = (item for item in response["output"] if item["type"] == "message")
    parts = (part for item in messages for part in item["content"])
    members = ("text", "refusal") if with_refusals else ("text",)
    return ("".join(part.get(member) or "" for member in members) for part in parts)


def has_arrived(call: UpstreamCall, exchange: Exchange) -> bool:
    """Whether an answer has ended for its client as its provider says."""
    response = exchange.response or {}
    if call.status == "failed":
        return exchange.status >= 400 or response.get("status") == "failed"
    return bool(response.get("status") == call.status)


def good_answers_arrive(world: World) -> Iterator[str]:
    """An upstream answer without a fault reaches a client that reads it: complete, or cut off by
    its provider for the reason that the provider gives."""
    for number, calls in world.history.calls_of().items():
        exchange = world.history.exchanges[number]
        last = calls[-1]
        if last.fault or exchange.behaviour != "reads" or exchange.is_background:
            continue
        if wants_round(exchange, last):
            continue
        if exchange.process in world.stopped and not exchange.is_probe:
            continue
        if _ran_out_of_time(world, exchange):
            continue
        label = f"ax{number}-{exchange.tenant}-{last.number}x"
        if not has_arrived(last, exchange):
            yield f"exchange {number}: {exchange.result} after a good answer ({last.status})"
        elif _must_show(exchange, last) and label not in _text_of(exchange.response or {}):
            yield f"exchange {number}: the text {label} is missing"


def wants_round(exchange: Exchange, call: UpstreamCall) -> bool:
    """Whether a round with calls of MCP tools was followed by none: the next one has failed before
    a provider was called, or the client has to decide first."""
    return exchange.mcp is not None and call.content is not None and bool(call.content.calls)


def _ran_out_of_time(world: World, exchange: Exchange) -> bool:
    """Whether the total timeout ended a response, as after a long wait for the next attempt."""
    is_late = exchange.ended - exchange.began >= world.total_s
    return is_late and names_total_timeout(exchange.response or {})


def names_total_timeout(response: dict[str, Any]) -> bool:
    """Whether a response says that it has failed because its total time was over."""
    error = response.get("error") or {}
    return "raise the total timeout" in error.get("message", "")


def _must_show(exchange: Exchange, call: UpstreamCall) -> bool:
    """Whether the text of an upstream call must be in the answer: not every model writes text
    beside a tool call, and recordings have no label."""
    if call.is_recorded or not exchange.is_stream:
        return False
    output = (exchange.response or {})["output"]
    return not any(item["type"] == "function_call" for item in output)


def is_refused_by_limit(exchange: Exchange) -> bool:
    """Whether a request was refused by a limit of its client, which the trace has and no log."""
    return exchange.status == 429 and b"of [limits." in exchange.body


def failures_have_reasons(world: World) -> Iterator[str]:
    """A failure that a client sees has its reason in the log and in the trace."""
    logged = {
        entry.facts.get("request_id")
        for _, entry in world.history.log
        if entry.event in _FAILURES and entry.facts.get("reason")
    }
    traced = {
        row.row.request_id
        for gateway in world.gateways
        for row in gateway.trace.rows
        if row.row.__struct_config__.tag == "error"
    }
    killed = {gateway.process.name for gateway in world.gateways if gateway.process.is_dead}
    cut_off = {entry.facts.get("request_id") for name, entry in world.history.log if name in killed}
    for exchange in world.history.exchanges:
        if exchange.process in killed or not _has_failed(exchange):
            continue
        if exchange.is_background and exchange.request_id in cut_off:
            continue  # the process that generated it was killed
        if _was_lost(exchange.response or {}) or exchange.attached_to:
            continue  # its process cannot say why; or another request has the reason
        if exchange.is_websocket and exchange.status == 200:
            continue  # its request id is not known
        if exchange.request_id not in logged and not is_refused_by_limit(exchange):
            yield f"exchange {exchange.number}: {exchange.result} without a reason in the log"
        if exchange.request_id not in traced:
            yield f"exchange {exchange.number}: {exchange.result} without a reason in the trace"


def _has_failed(exchange: Exchange) -> bool:
    if exchange.outcome != "complete":
        return False
    if exchange.status in (429, 500, 502, 504):
        return True
    return (exchange.response or {}).get("status") == "failed"


def errors_have_their_shape(world: World) -> Iterator[str]:
    """An HTTP error is the API's error object, with a message. Other formats have their own."""
    for exchange in (*world.history.exchanges, *world.history.visits):
        if exchange.format != "responses":
            continue
        is_error = exchange.outcome == "complete" and exchange.status not in (101, 200)
        if is_error and not _is_error_object(bytes(exchange.body)):
            yield f"{describe(exchange)}: HTTP {exchange.status} {bytes(exchange.body)!r}"


def _is_error_object(body: bytes) -> bool:
    try:
        error = msgspec.json.decode(body).get("error", {})
    except msgspec.DecodeError:
        return False
    return bool(error.get("message")) and "type" in error


def no_crash(world: World) -> Iterator[str]:
    """No unexpected exception is raised in the gateway."""
    for name, entry in world.history.log:
        if entry.event in _CRASHES and entry.facts.get("code") != _STORE_FAILED:
            yield f"{name}: {entry.event} {dict(entry.facts)}"


SAFETY: tuple[Oracle, ...] = (
    one_terminal_event,
    gapless_numbers,
    event_grammar,
    whole_unless_stopped,
    told_is_stored,
    stored_never_changes,
    tenants_apart,
    foreign_responses_are_hidden,
    no_secret_leaves,
    resting_keys_are_not_used,
    attempts_within_limit,
    one_attempt_per_answer,
    good_answers_arrive,
    failures_have_reasons,
    errors_have_their_shape,
    no_crash,
)
