"""Answers of upstreams in the seven dialects: generated, and from a corpus where there is one."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache

import msgspec

from tests.support import corpus, native_answers
from tests.support.dialect_samples.aws_event_stream import exception
from tests.support.reference_readers.table import READERS
from tests.support.scripted_providers.scripted_provider import ScriptedProvider, sse
from tests.support.scripted_providers.session import Call, Turn, weather
from tests.support.scripted_providers.table import SCRIPTED_PROVIDERS
from tests.support.vendor_answers import build_usage, build_whole_answer

DIALECTS = ("chat", "anthropic", "bedrock", "gemini", "ollama", "cohere", "responses")
JSON = "application/json"
_LARGEST_RECORDING = 24 * 1024
_OPERATIONS = ("create", "converse-stream", "converse", "chat", "v2")
"""Those that the gateway uses."""

_WHOLE: Mapping[str, bytes] = {
    "chat": build_whole_answer(build_usage()),
    "anthropic": native_answers.ANTHROPIC_WHOLE,
    "bedrock": native_answers.BEDROCK_WHOLE,
    "gemini": native_answers.GEMINI_WHOLE,
    "ollama": native_answers.OLLAMA_WHOLE,
    "cohere": native_answers.COHERE_WHOLE,
    "responses": native_answers.RESPONSES_WHOLE,
}
_VARIANTS: Mapping[str, tuple[ScriptedProvider, ...]] = {
    dialect: tuple(
        SCRIPTED_PROVIDERS[name]
        for name in (dialect, "router", "counter")[: 3 if dialect == "chat" else 1]
    )
    for dialect in DIALECTS
}


_CUT_SHORT: Mapping[str, tuple[bytes, bytes]] = {
    "chat": (b'"finish_reason":"stop"', b'"finish_reason":"length"'),
    "anthropic": (b'"stop_reason":"end_turn"', b'"stop_reason":"max_tokens"'),
    "gemini": (b'"finishReason":"STOP"', b'"finishReason":"MAX_TOKENS"'),
    "ollama": (b'"done_reason":"stop"', b'"done_reason":"length"'),
    "cohere": (b'"finish_reason":"COMPLETE"', b'"finish_reason":"MAX_TOKENS"'),
}
"""The finish reasons of a whole text, and of one that has reached a limit."""
_FIRST_TURN_RATE = 0.03
_RATES, _AGENT_RATES = (0.4, 0.2), (0.7, 0.4)
"""How many answers have reasoning, and how many have calls."""


@dataclass(frozen=True)
class Content:
    """What a client must receive of an answer."""

    text: str
    calls: tuple[tuple[str, str], ...] = ()
    """Names and arguments."""


@dataclass(frozen=True)
class UpstreamResponse:
    """The body of an answer that has no fault."""

    content_type: str
    data: bytes
    status: str = "completed"
    """With which it reaches a client that reads it whole."""
    content: Content | None = None
    """Known of generated streams."""


_CALLS = (
    weather("Ulm", 12.5, "rain"),
    Call("get_weather", '{ "at": 7.50,"city":  "Z\\u00fcrich" }', "fog"),  # as some models write
)
GENERATED_TOKENS = (9, 5)
"""The tokens of input and output that every generated stream counts."""
FIRST_STATE = 1000
"""State of a provider holds this number and that of its call; the state of turn 1 is another."""


def generate(
    rng: random.Random,
    dialect: str,
    label: str,
    *,
    number: int,
    stream: bool,
    is_thoughtful: bool = False,
    is_agents: bool = False,
    is_json: bool = False,
    calls: tuple[Call, ...] | None = None,
) -> UpstreamResponse:
    """Generate an answer whose text holds the label; some whole answers have a fixed text. Some
    have reasoning, or all of them (`is_thoughtful`), and some calls, more often for agents. Its
    state holds the number of its call. `calls`: these, and no others."""
    if not stream and rng.random() < 0.6 and not is_json and calls is None:
        return UpstreamResponse(JSON, _WHOLE[dialect])
    thought_rate, call_rate = _AGENT_RATES if is_agents else _RATES
    thought_rate = 1.0 if is_thoughtful else thought_rate
    scripted = rng.choice(_VARIANTS[dialect])
    turn = Turn(
        number=1 if rng.random() < _FIRST_TURN_RATE else FIRST_STATE + number,
        thought="Let me think about it." if rng.random() < thought_rate else "",
        text=f"The answer is {label}. " + "It rains. " * rng.randrange(6),
        calls=_CALLS[: rng.choice((1, 1, 2))] if rng.random() < call_rate else (),
    )
    if is_json:
        turn = replace(turn, text=f'{{"answer": "{label}"}}', calls=())
    if calls is not None:
        turn = replace(turn, calls=calls)
    shown = tuple((call.name, call.arguments) for call in turn.calls)
    content = Content(scripted.output_text(turn), shown)
    return UpstreamResponse(scripted.content_type, scripted.stream_bytes(turn), content=content)


def cut_short(dialect: str, answer: UpstreamResponse) -> UpstreamResponse:
    """Let a generated answer end at a limit of tokens, where its text is all it has."""
    whole, short = _CUT_SHORT.get(dialect, (b"", b""))
    if not whole or whole not in answer.data:
        return answer
    return replace(answer, data=answer.data.replace(whole, short), status="incomplete")


@cache
def _recordings(dialect: str, stream: bool) -> tuple[UpstreamResponse, ...]:
    types = {
        "sse": "text/event-stream",
        "ndjson": "application/x-ndjson",
        "eventstream": "application/vnd.amazon.eventstream",
    }
    return tuple(
        UpstreamResponse(
            types.get(case.meta["wire"], JSON), case.data, str(READERS[dialect](case.data).status)
        )
        for case in corpus.cases(dialect)
        if case.meta["http_status"] == 200
        and case.meta["streaming"] == stream
        and case.meta["operation"] in _OPERATIONS
        and case.meta["wire"] != "json-array"  # the gateway always asks for server-sent events
        and len(case.data) <= _LARGEST_RECORDING
    )


def draw_recording(rng: random.Random, dialect: str, *, stream: bool) -> UpstreamResponse | None:
    """Draw a recorded answer; None where there is none."""
    found = _recordings(dialect, stream)
    return rng.choice(found) if found else None


def split_frames(dialect: str, data: bytes) -> list[bytes]:
    """Split a stream into its frames."""
    if dialect == "bedrock":
        return _split_messages(data)
    separator = b"\n" if dialect == "ollama" else b"\r\n\r\n" if b"\r\n\r\n" in data else b"\n\n"
    pieces = data.split(separator)
    return [piece + separator for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])


def _split_messages(data: bytes) -> list[bytes]:
    frames = []
    while len(data) >= 4:
        size = max(int.from_bytes(data[:4], "big"), 4)
        frames.append(data[:size])
        data = data[size:]
    return frames


def _ndjson(document: object) -> bytes:
    return msgspec.json.encode(document) + b"\n"


_MESSAGE = "The server had an error while processing your request."
_IN_BAND_ERRORS: Mapping[str, Callable[[], bytes]] = {
    "chat": lambda: sse({"error": {"message": _MESSAGE, "type": "server_error", "code": 500}}),
    "anthropic": lambda: sse(
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        named=True,
    ),
    "bedrock": lambda: exception("internalServerException", {"message": _MESSAGE}),
    "gemini": lambda: sse({"error": {"code": 503, "message": _MESSAGE, "status": "UNAVAILABLE"}}),
    "ollama": lambda: _ndjson({"error": "the model runner has stopped"}),
    "cohere": lambda: sse(
        {"type": "message-end", "delta": {"finish_reason": "ERROR", "error": _MESSAGE}}, named=True
    ),
    "responses": lambda: sse(
        {"type": "error", "code": "server_error", "message": _MESSAGE, "sequence_number": 7},
        named=True,
    ),
}


def in_band_error(dialect: str) -> bytes:
    """An error in the middle of a stream, as the dialect sends it."""
    return _IN_BAND_ERRORS[dialect]()


_SAID = {
    401: "Incorrect API key provided: {key}.",
    403: "The project of {key} has no access to this model.",
    429: "Rate limit reached. Please try again later.",
}


def error_body(status: int, key: str) -> bytes:
    """The body of an HTTP error. A rejected key is quoted, as some providers do."""
    said = _SAID.get(status, _MESSAGE).format(key=key)
    return msgspec.json.encode({"error": {"message": said, "type": "error", "code": None}})
