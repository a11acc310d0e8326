"""Oracles of Messages and Chat Completions: each format has its grammar, its errors and its ends,
and the content is what the provider has sent."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from antiphon.store.trace.rows import TraceFinish
from tests.simulation.answers import FIRST_STATE, GENERATED_TOKENS, Content
from tests.simulation.formats.reading import Document, Format, parse_json
from tests.simulation.records import QUESTION, Exchange, UpstreamCall
from tests.simulation.safety import Oracle, describe, is_refused_by_limit
from tests.simulation.world import World
from tests.support.reference_readers.table import OUTPUT_READERS

_CUTS = (
    "connection closed in mid-stream",
    "connection reset in mid-stream",
    "stall in mid-stream",
    "stream ends early",
)
_DAMAGES = ("lost frame", "garbage in the stream")
"""Faults after which arguments may be no JSON: they are passed on as they are."""
_ENDS: dict[str, re.Pattern[bytes]] = {
    "chat": re.compile(rb'"finish_reason": ?"'),
    "anthropic": re.compile(rb'"stop_reason": ?"'),
    "bedrock": re.compile(rb"messageStop|stopReason"),
    "gemini": re.compile(rb'"finishReason"'),
    "ollama": re.compile(rb'"done": ?true'),
    "cohere": re.compile(rb'message-end|"finish_reason"'),
    "responses": re.compile(rb"response\.(?:completed|incomplete|failed)|\"status\": ?\"[ci]"),
}
"""What the end of a provider's response holds, in each dialect."""


_OBJECT_ARGUMENTS = ("gemini", "ollama")
"""Dialects in which arguments are an object, and no text."""


def others(world: World) -> Iterator[Exchange]:
    """The requests of clients that speak another format than Responses."""
    return (each for each in world.history.exchanges if each.format != "responses")


def formats_keep_their_grammar(world: World) -> Iterator[str]:
    """A stream, also a part of one, and a whole response keep the rules of their format: events in
    order, one end, a reason that agrees with the content, arguments in JSON, usage."""
    calls = world.history.calls_of()
    for exchange in others(world):
        reading = exchange.reading
        for problem in reading.problems:
            yield f"{describe(exchange)}, {exchange.format}: {problem}"
        made = calls.get(exchange.question, [])
        if reading.malformed and not any(call.fault in _DAMAGES for call in made):
            yield f"{describe(exchange)}: the arguments are {reading.malformed}"


def models_are_those_asked_for(world: World) -> Iterator[str]:
    """A response names the model that its client has asked for: a client drops the state of another
    model."""
    for exchange in others(world):
        named, asked = exchange.reading.model, exchange.request["model"]
        if named and named != asked:
            yield f"{describe(exchange)}: {named}, asked for was {asked}"


# Content


def content_is_the_providers(world: World) -> Iterator[str]:
    """Text and calls of a good response are those of its provider, with arguments byte by byte."""
    for number, calls in world.history.calls_of().items():
        exchange = world.history.exchanges[number]
        last = calls[-1]
        if exchange.format == "responses" or last.fault or exchange.outcome != "complete":
            continue
        if exchange.mcp is not None:
            continue  # it has several rounds
        if exchange.reading.status in ("completed", "incomplete"):
            yield from _compare(exchange, last)


def _compare(exchange: Exchange, call: UpstreamCall) -> Iterator[str]:
    reading = exchange.reading
    content = call.content or _read_content(call)
    if content is None:
        return
    if reading.text != content.text:
        yield f"{describe(exchange)}: the text is {reading.text!r}, not {content.text!r}"
    if reading.is_cut:
        return  # a call that was cut off is not shown
    got = [(each.name, each.arguments) for each in reading.calls]
    if len(got) != len(content.calls):
        yield f"{describe(exchange)}: {len(got)} calls, sent were {len(content.calls)}"
        return
    for one, other in zip(got, content.calls, strict=True):
        if one[0] != other[0] or not _is_same(call, one[1], other[1]):
            yield f"{describe(exchange)}: {one}, sent was {other}"


def _is_same(call: UpstreamCall, got: str, sent: str) -> bool:
    """Whether arguments are what was sent: the same bytes, where they are text. Freeform input of a
    recorded call is the one argument of an object in Messages."""
    if got == sent or (call.content is not None and call.provider not in _OBJECT_ARGUMENTS):
        return got == sent
    return parse_json(got) in (parse_json(sent), {"input": sent})


def _read_content(call: UpstreamCall) -> Content | None:
    """What the reference reader of the provider's protocol finds in a recorded answer."""
    if call.provider not in OUTPUT_READERS:
        return None
    output = OUTPUT_READERS[call.provider](call.data).output
    calls = [
        (block.name, block.text or msgspec.json.encode(block.given or {}).decode())
        for block in output
        if block.kind == "call"
    ]
    text = "".join(block.text for block in output if block.kind in ("text", "refusal"))
    return Content(text, tuple(calls))


def usage_is_the_providers(world: World) -> Iterator[str]:
    """The tokens of a good response are those that its provider has counted."""
    for number, calls in world.history.calls_of().items():
        exchange = world.history.exchanges[number]
        if len(calls) > 1 or calls[0].fault or calls[0].content is None:
            continue
        usage = exchange.reading.usage
        if usage and (counted := _count_tokens(exchange.format, usage)) != GENERATED_TOKENS:
            yield f"{describe(exchange)}: tokens {counted}, not {GENERATED_TOKENS}"


def _count_tokens(format: Format, usage: Document) -> tuple[int, int]:
    """The tokens of input and output; those of Messages do not include cached ones."""
    if format == "chat":
        return usage["prompt_tokens"], usage["completion_tokens"]
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return sum(usage[name] for name in names), usage["output_tokens"]


def half_is_never_whole(world: World) -> Iterator[str]:
    """A response whose provider has not sent its end is an error, in every format, and never looks
    whole."""
    for number, calls in world.history.calls_of().items():
        exchange, last = world.history.exchanges[number], calls[-1]
        if last.fault not in _CUTS or exchange.is_background or exchange.outcome != "complete":
            continue
        if _ENDS[last.provider].search(last.sent) or _is_optional_round(exchange, calls):
            continue
        status = (exchange.response or {}).get("status")
        if exchange.status == 200 and status in ("completed", "incomplete"):
            yield f"{describe(exchange)}: {status} after {last.sent[-60:]!r}"


def _is_optional_round(exchange: Exchange, calls: Sequence[UpstreamCall]) -> bool:
    """Whether the last call was for a reminder or a correction: if it fails, the response is that
    of the round before, which has ended."""
    *before, last = calls
    return exchange.mcp is None and any(
        _ENDS[call.provider].search(call.sent) is not None and len(call.body) < len(last.body)
        for call in before
    )


def failures_are_told(world: World) -> Iterator[str]:
    """A response that the trace has as failed does not look whole to its client."""
    failed = {
        row.row.request_id
        for gateway in world.gateways
        for row in gateway.trace.rows
        if isinstance(row.row, TraceFinish) and row.row.status == "failed"
    }
    for exchange in others(world):
        status = (exchange.response or {}).get("status")
        if exchange.request_id in failed and status in ("completed", "incomplete"):
            yield f"{describe(exchange)}: {status}, but failed in the trace"


# Errors

_MESSAGES_TYPES = {
    400: ("invalid_request_error",),
    401: ("authentication_error",),
    402: ("billing_error",),
    403: ("permission_error",),
    404: ("not_found_error",),
    408: ("invalid_request_error",),
    413: ("request_too_large",),
    424: ("invalid_request_error",),
    429: ("rate_limit_error",),
    500: ("api_error",),
    502: ("api_error",),
    504: ("timeout_error",),
    529: ("overloaded_error",),
}
"""The types of errors by their status; a 503 of the gateway is a 529 of this format."""
_CHAT_TYPES = {
    424: ("external_connector_error",),
    429: ("rate_limit_error", "insufficient_quota"),
}
_SERVER_ERROR = ("server_error",)
_REQUEST_ERROR = ("invalid_request_error",)
_CHAT_ERROR = {"message", "type", "param", "code"}
_FINAL_FAULTS = ("status 401", "status 403", "redirect")


def errors_have_the_shape_of_their_format(world: World) -> Iterator[str]:
    """An HTTP error has the shape, the type and the headers by which the SDKs of its format raise
    the right exception, and repeat the request or do not."""
    for exchange in others(world):
        if exchange.outcome != "complete" or exchange.status == 200:
            continue
        document = parse_json(bytes(exchange.body))
        check = _check_messages if exchange.format == "messages" else _check_chat
        for problem in (*check(exchange.status, document), *_check_headers(exchange)):
            yield f"{describe(exchange)}: HTTP {exchange.status}: {problem}"


def _check_messages(status: int, document: Any) -> Iterator[str]:
    match document:
        case {"type": "error", "error": {"type": str(kind), "message": str(message)}} if message:
            if kind not in _MESSAGES_TYPES.get(status, ()):
                yield f"the type is {kind}"
        case _:
            yield f"no error of Messages: {document}"


def _check_chat(status: int, document: Any) -> Iterator[str]:
    error: Any = document.get("error") if isinstance(document, dict) else None
    if not isinstance(error, dict) or error.keys() != _CHAT_ERROR or not error["message"]:
        yield f"no error of Chat Completions: {document}"
        return
    default = _REQUEST_ERROR if status < 500 else _SERVER_ERROR
    if error["type"] not in _CHAT_TYPES.get(status, default):
        yield f"the type is {error['type']}"


def _check_headers(exchange: Exchange) -> Iterator[str]:
    headers = exchange.headers
    if exchange.format == "messages" and headers.get("request-id") != exchange.request_id:
        yield "the id of the request is missing"
    wait = headers.get("retry-after")
    if wait is not None and not (wait.isdecimal() and int(wait) >= 1):
        yield f"retry-after is {wait!r}"
    if b"of [limits." in exchange.body and exchange.status != 429:
        yield "a limit is no 429"
    if is_refused_by_limit(exchange) and headers.get("x-should-retry") == "false":
        yield "a limit that ends is not retried"


def final_errors_say_so(world: World) -> Iterator[str]:
    """A failure that a retry cannot change says so in its header, and no other 5xx does."""
    calls = world.history.calls_of()
    for exchange in others(world):
        if exchange.outcome != "complete" or exchange.status != 502 or not exchange.ended:
            continue
        made = calls.get(exchange.number, [])
        is_final = exchange.headers.get("x-should-retry") == "false"
        causes = {call.fault for call in made}
        if is_final and causes and causes.isdisjoint(_FINAL_FAULTS):
            yield f"{describe(exchange)}: not to be retried after {sorted(causes)}"
        has_fallback = str(exchange.request["model"]).startswith("safe-")
        if not is_final and causes == {"redirect"} and not has_fallback:
            yield f"{describe(exchange)}: to be retried after {sorted(causes)}"


# Threads

_NOTE = re.compile(rb"Note nqx(\d+)x")


def threads_are_whole(world: World) -> Iterator[str]:
    """A provider gets every question of a thread, and every note of the system in it, whether the
    client has sent them again or the store has kept them."""
    exchanges, calls = world.history.exchanges, world.history.calls_of()
    for exchange in others(world):
        thread = [exchange, *(exchanges[number] for number in exchange.echoed)]
        roots = (world.history.repeats.get(each.number, each.question) for each in thread[1:])
        questions = {str(root).encode() for root in roots}
        sent = msgspec.json.encode([each.request for each in thread])
        notes = {*_NOTE.findall(sent)}
        for call in calls.get(exchange.number, []):
            if missing := questions - {number for number, _ in QUESTION.findall(call.body)}:
                yield f"{describe(exchange)}: call {call.number} has no question {sorted(missing)}"
            if missing := notes - {*_NOTE.findall(call.body)}:
                yield f"{describe(exchange)}: call {call.number} has no note {sorted(missing)}"


# State of providers

_STATE = re.compile(rb"(anthropic|bedrock|router|responses)/(?:signed|sealed)\+(\d+)==")
_GEMINI_STATE = re.compile(rb"c2lnbmVkIGJ5IGdlbWlu[A-Za-z0-9+/]+=*")


def find_states(data: bytes) -> set[int]:
    """The numbers of the calls whose state is in a request or a response."""
    found = {int(number) for _, number in _STATE.findall(data)}
    for encoded in _GEMINI_STATE.findall(data):
        if len(encoded) % 4 == 0:  # else it was damaged on its way
            number = base64.b64decode(encoded).rpartition(b" ")[2]
            found |= {int(number)} if number.isdigit() else set()
    return {number - FIRST_STATE for number in found if number >= FIRST_STATE}


def state_returns_to_its_issuer(world: World) -> Iterator[str]:
    """The state of a provider is sent to this provider alone, and for the client that has received
    it."""
    calls, exchanges = world.history.calls, world.history.exchanges
    for call in calls:
        for number in find_states(call.body):
            issuer = calls[number]
            if issuer.provider != call.provider:
                yield f"call {call.number}: {call.provider} gets state of {issuer.provider}"
            if exchanges[issuer.exchange].tenant != exchanges[call.exchange].tenant:
                yield f"call {call.number}: state of call {number}, which another client has"


def thoughts_are_signed(world: World) -> Iterator[str]:
    """A client of Messages gets the state of a thought, as its signature."""
    for number, calls in world.history.calls_of().items():
        exchange, last = world.history.exchanges[number], calls[-1]
        is_good = exchange.format == "messages" and exchange.outcome == "complete"
        if not is_good or last.fault or last.provider not in ("anthropic", "responses"):
            continue
        is_signed = any(block.get("signature") for block in exchange.reading.blocks)
        if exchange.reading.reason and find_states(last.data) and not is_signed:
            yield f"{describe(exchange)}: no signature for the state of call {last.number}"


def returned_state_arrives(world: World) -> Iterator[str]:
    """State reaches the provider that has issued it when its client goes on with the results of
    calls: a client of Messages has sent it back, for a client of Chat Completions it was kept."""
    made = world.history.calls_of()
    rejected = {
        entry.facts["request_id"]
        for _, entry in world.history.log
        if entry.event == "attempt.failed" and entry.facts["code"] == "invalid_request"
    }
    for exchange in others(world):
        if exchange.request_id in rejected:
            continue  # the next attempt leaves out what was refused
        for call in made.get(exchange.number, []):
            sent = find_states(call.body)
            for issuer in _list_issuers(world, exchange, call):
                if issuer.number not in sent:
                    yield f"call {call.number}: the state of call {issuer.number} is missing"


def _list_issuers(world: World, exchange: Exchange, call: UpstreamCall) -> Iterator[UpstreamCall]:
    """The calls of the same provider whose state is in the turn that goes on with the results of
    its calls. State of turns before it may be left out."""
    made = world.history.calls_of()
    for number in exchange.echoed[-1:]:
        last = made[number][-1] if number in made else None
        if last is None or last.fault or last.provider != call.provider:
            continue
        is_kept = _is_kept(world, world.history.exchanges[number], exchange)
        if is_kept and _takes_state(call) and last.number in find_states(last.data):
            yield last


def _is_kept(world: World, first: Exchange, second: Exchange) -> bool:
    """Whether the state of a response with calls comes back with their results."""
    shown = first.reading
    if first.format == "messages":
        has_signature = any(block.get("signature") for block in shown.blocks)
        return shown.reason == "tool_use" and has_signature
    is_stored = False not in (first.request.get("store"), second.request.get("store"))
    is_safe = world.plan.disk in ("good", "slow") and not world.may_lose_leases
    return shown.reason == "tool_calls" and is_stored and is_safe and not world.stopped


def _takes_state(call: UpstreamCall) -> bool:
    """Whether a request may hold state: Anthropic refuses it where thinking is switched off."""
    if call.provider == "anthropic":
        return b'"thinking":{"type":"enabled"' in call.body
    return call.provider in ("gemini", "responses")


FORMATS: tuple[Oracle, ...] = (
    formats_keep_their_grammar,
    models_are_those_asked_for,
    content_is_the_providers,
    usage_is_the_providers,
    half_is_never_whole,
    failures_are_told,
    errors_have_the_shape_of_their_format,
    final_errors_say_so,
    threads_are_whole,
    state_returns_to_its_issuer,
    thoughts_are_signed,
    returned_state_arrives,
)
"""Rules of the clients of other formats than Responses; some hold for all of them."""
