"""Safety oracles: what must never happen, whatever fails. Each yields its violations as text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import msgspec

from tests.simulation.plan import TENANTS, key_name, list_keys
from tests.simulation.records import ANSWER, TERMINAL, Exchange, UpstreamCall
from tests.simulation.world import World
from tests.support.stream_validator import check
from tests.support.wire_schemas import check_response

Oracle = Callable[[World], Iterator[str]]

_LEARNED_S = 0.1  # after which the gateway has read an answer
_CRASHES = ("gateway.bug", "request.failed")
_FAILURES = ("upstream.failed", "attempt.failed", "response.failed")


def streams(world: World) -> Iterator[Exchange]:
    """The streamed answers that began."""
    return (each for each in world.history.exchanges if each.is_stream and each.status == 200)


def one_terminal_event(world: World) -> Iterator[str]:
    """A streamed answer ends with exactly one terminal event and the end marker; a part of one has
    at most one terminal event, and nothing after it."""
    for exchange in streams(world):
        kinds = [event["type"] for event in exchange.events]
        ends = [number for number, kind in enumerate(kinds) if kind in TERMINAL]
        if len(ends) > 1 or (ends and ends[0] != len(kinds) - 1):
            yield f"exchange {exchange.number}: terminal events at {ends} of {len(kinds)}"
        if exchange.outcome == "complete":
            if not ends:
                yield f"exchange {exchange.number}: ended without a terminal event"
            if not exchange.body.endswith(b"data: [DONE]\n\n"):
                yield f"exchange {exchange.number}: ended without [DONE]"


def gapless_numbers(world: World) -> Iterator[str]:
    """The sequence numbers of a stream are 0, 1, 2 … without a gap or a repetition."""
    for exchange in streams(world):
        numbers = [event["sequence_number"] for event in exchange.events]
        if numbers != [*range(len(numbers))]:
            yield f"exchange {exchange.number}: sequence numbers {numbers}"


def event_grammar(world: World) -> Iterator[str]:
    """A complete stream keeps every rule of the contract, and a whole answer its shape."""
    for exchange in world.history.exchanges:
        if exchange.status != 200 or exchange.outcome != "complete":
            continue
        try:
            if exchange.is_stream:
                check(exchange.events)
            else:
                check_response(exchange.response or {}, "whole answer")
        except (AssertionError, KeyError) as error:
            yield f"exchange {exchange.number}: {error!r}"


def whole_unless_stopped(world: World) -> Iterator[str]:
    """The gateway closes no connection before the end of its answer, unless its process ends."""
    ended = {gateway.process.name for gateway in world.gateways if gateway.is_stopping}
    for exchange in world.history.exchanges:
        if exchange.outcome == "cut" and exchange.process not in ended:
            yield f"exchange {exchange.number}: the gateway closed the connection"


def told_is_stored(world: World) -> Iterator[str]:
    """When a client reads a terminal event with `store: true`, the store holds exactly this
    response; with `store: false` it holds nothing."""
    for exchange in world.history.exchanges:
        if (told := exchange.response) is None or exchange.stored is None:
            continue
        if told["store"] and exchange.stored != told:
            state = "is different" if exchange.stored else "is missing"
            yield f"exchange {exchange.number}: the stored response {state}"
        if not told["store"] and exchange.stored:
            yield f"exchange {exchange.number}: stored although `store` is false"


def stored_never_changes(world: World) -> Iterator[str]:
    """A response that was stored is stored unchanged at the end, also after a crash."""
    for exchange in world.history.exchanges:
        if exchange.stored and world.disk.read_response(exchange.stored["id"]) != exchange.stored:
            yield f"exchange {exchange.number}: the stored response has changed or is gone"


@cache
def _label_of(tenant: str) -> re.Pattern[bytes]:
    """The labels of a client's texts, which no random text (sealed state, ids) looks like."""
    return re.compile(rb"[qa]x\d+-%b[-x]" % tenant.encode())


def tenants_apart(world: World) -> Iterator[str]:
    """No text of one client reaches another one, or a provider in another one's request."""
    for exchange in world.history.exchanges:
        for other in TENANTS:
            if other != exchange.tenant and _label_of(other).search(exchange.body):
                yield f"exchange {exchange.number}: {exchange.tenant} received text of {other}"
    for call in world.history.calls:
        if len(call.tenants) > 1:
            yield f"call {call.number}: holds text of {' and '.join(call.tenants)}"


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
    secrets = [secret.partition(":")[2] or secret for secret in (*keys, *TENANTS.values())]
    places: list[tuple[str, bytes]] = [
        (f"exchange {each.number}", bytes(each.body) + repr(each.headers).encode())
        for each in world.history.exchanges
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
    exchanges = world.history.exchanges
    seen: dict[tuple[str, str], list[UpstreamCall]] = {}
    for call in world.history.calls:
        process = exchanges[call.exchange].process
        earlier = seen.setdefault((process, call.provider), [])
        told = [each for each in earlier if each.rests_until > call.began]
        resting = {each.key for each in told if _was_learned(each, exchanges, call.began)}
        usable = {key_name(key) for key in list_keys(call.provider)} - {each.key for each in told}
        if call.key in resting and usable:
            yield f"call {call.number}: {call.provider} key {call.key} is resting"
        if call.rests_until:
            earlier.append(call)


def _was_learned(call: UpstreamCall, exchanges: list[Exchange], now: float) -> bool:
    """Whether the gateway has read an answer before a time: its client was still there."""
    if call.answered_at is None or call.answered_at + _LEARNED_S > now:
        return False
    closed_at = exchanges[call.exchange].closed_at
    return closed_at is None or closed_at > call.answered_at + _LEARNED_S


def attempts_within_limit(world: World) -> Iterator[str]:
    """A request causes at most `max_attempts` upstream calls in each of its rounds."""
    attempts = world.config.attempts
    limit = attempts.max_attempts * (2 if attempts.reminders else 1)
    for number, calls in world.history.calls_of().items():
        if len(calls) > limit:
            yield f"exchange {number}: {len(calls)} upstream calls, allowed are {limit}"


def one_attempt_per_answer(world: World) -> Iterator[str]:
    """The text of an answer comes from one upstream call of its own request."""
    for exchange in world.history.exchanges:
        if (response := exchange.response) is None:
            continue
        labels = set(ANSWER.findall(_text_of(response)))
        if any(int(number) != exchange.number for number, _, _ in labels):
            yield f"exchange {exchange.number}: text of another request: {sorted(labels)}"
        if len(labels) > 1:
            yield f"exchange {exchange.number}: text of several attempts: {sorted(labels)}"


def _text_of(response: dict[str, Any]) -> str:
    parts = (part for item in response["output"] for part in item.get("content") or ())
    return " ".join(part.get("text", "") for part in parts)


def good_answers_arrive(world: World) -> Iterator[str]:
    """An upstream answer without a fault reaches a client that reads it, complete."""
    stopped = {gateway.process.name for gateway in world.gateways if gateway.is_stopping}
    for number, calls in world.history.calls_of().items():
        exchange = world.history.exchanges[number]
        last = calls[-1]
        if last.fault or exchange.behaviour != "reads":
            continue
        if exchange.process in stopped and not exchange.is_probe:
            continue
        label = f"ax{number}-{exchange.tenant}-{last.number}x"
        response = exchange.response
        if response is None or response["status"] != "completed":
            yield f"exchange {number}: {exchange.result} after a good answer"
        elif _must_show(exchange, last) and label not in _text_of(response):
            yield f"exchange {number}: the text {label} is missing"


def _must_show(exchange: Exchange, call: UpstreamCall) -> bool:
    """Whether the text of an upstream call must be in the answer: not every model writes text
    beside a tool call, and recordings have no label."""
    output = (exchange.response or {})["output"]
    has_call = any(item["type"] == "function_call" for item in output)
    return exchange.is_stream and not call.is_recorded and not has_call


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
    for exchange in world.history.exchanges:
        if exchange.process in killed or not _has_failed(exchange):
            continue
        if exchange.request_id not in logged:
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
    """An HTTP error is the API's error object, with a message."""
    for exchange in world.history.exchanges:
        if exchange.outcome == "complete" and exchange.status != 200:
            error = msgspec.json.decode(exchange.body).get("error", {})
            if not error.get("message") or "type" not in error:
                yield f"exchange {exchange.number}: HTTP {exchange.status} {bytes(exchange.body)!r}"


def no_crash(world: World) -> Iterator[str]:
    """No unexpected exception is raised in the gateway."""
    for name, entry in world.history.log:
        if entry.event in _CRASHES:
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
