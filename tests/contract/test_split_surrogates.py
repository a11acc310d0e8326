"""A character whose two JSON escapes come in two deltas stays one character, in every dialect."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from antiphon import replay
from antiphon.core.items import Document
from tests.support.dialect_samples.aws_event_stream import event
from tests.support.tables import table

FACE = "\N{GRINNING FACE}"
LOST = "\N{REPLACEMENT CHARACTER}"
HALVES = (r"a\ud83d", r"\ude00b")
NEVER_COMPLETED = (r"a\uD83D", "b")
TWICE = (r"\ud83d", r"\ude00\uD83D", r"\uDE00")


def _sse(*documents: str) -> bytes:
    return "".join(f"data: {each}\n\n" for each in documents).encode()


def _chat(field: str) -> Callable[[Sequence[str]], bytes]:
    def stream(pieces: Sequence[str]) -> bytes:
        chunks = [
            f'{{"choices":[{{"index":0,"delta":{{"{field}":"{piece}"}}}}]}}' for piece in pieces
        ]
        end = '{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'
        return _sse(*chunks, end, "[DONE]")

    return stream


def _chat_call(pieces: Sequence[str]) -> bytes:
    call = '{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":%s}]}}]}'
    texts = [r"{\"t\":\"", *pieces, r"\"}"]
    chunks = [call % (f'{{"name":"f","arguments":"{each}"}}') for each in texts]
    return _sse(*chunks, '{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}', "[DONE]")


def _anthropic(pieces: Sequence[str], kind: str, field: str, block: str) -> bytes:
    delta = '{"type":"content_block_delta","index":0,"delta":{"type":"%s","%s":"%s"}}'
    deltas = [delta % (kind, field, each) for each in pieces]
    ping = '{"type":"ping"}'
    return _sse(
        '{"type":"message_start","message":{"id":"m","model":"claude"}}',
        f'{{"type":"content_block_start","index":0,"content_block":{block}}}',
        deltas[0],
        ping,
        *deltas[1:],
        '{"type":"content_block_stop","index":0}',
        '{"type":"message_delta","delta":{"stop_reason":"end_turn"}}',
        '{"type":"message_stop"}',
    )


def _anthropic_text(pieces: Sequence[str]) -> bytes:
    return _anthropic(pieces, "text_delta", "text", '{"type":"text","text":""}')


def _anthropic_thinking(pieces: Sequence[str]) -> bytes:
    return _anthropic(pieces, "thinking_delta", "thinking", '{"type":"thinking"}')


def _anthropic_call(pieces: Sequence[str]) -> bytes:
    block = '{"type":"tool_use","id":"c","name":"f","input":{}}'
    texts = [r"{\"t\":\"", *pieces, r"\"}"]
    return _anthropic(texts, "input_json_delta", "partial_json", block)


def _gemini(pieces: Sequence[str]) -> bytes:
    chunk = '{"candidates":[{"content":{"parts":[{"text":"%s"}]}%s}]}'
    return _sse(*(chunk % (each, "") for each in pieces), chunk % ("", ',"finishReason":"STOP"'))


def _ollama(pieces: Sequence[str]) -> bytes:
    lines = [f'{{"message":{{"content":"{each}"}},"done":false}}' for each in pieces]
    return "\n".join([*lines, '{"done":true,"done_reason":"stop"}']).encode()


def _cohere(pieces: Sequence[str]) -> bytes:
    delta = '{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"%s"}}}}'
    end = '{"type":"message-end","delta":{"finish_reason":"COMPLETE"}}'
    return _sse(*(delta % each for each in pieces), end)


def _bedrock(pieces: Sequence[str]) -> bytes:
    delta = '{"contentBlockIndex":0,"delta":{"text":"%s"}}'
    frames = [event("contentBlockDelta", json.loads(delta % each)) for each in pieces]
    return b"".join([*frames, event("messageStop", {"stopReason": "end_turn"})])


def _responses(pieces: Sequence[str]) -> bytes:
    delta = '{"type":"response.output_text.delta","output_index":0,"item_id":"m","delta":"%s"}'
    whole = "".join(pieces)
    done = '{"type":"response.output_text.done","output_index":0,"item_id":"m","text":"%s"}'
    return _sse(
        '{"type":"response.created","response":{"id":"r","model":"gpt"}}',
        *(delta % each for each in pieces),
        done % whole,
        '{"type":"response.completed","response":{"id":"r","status":"completed","output":[]}}',
    )


STREAMS: dict[str, tuple[str, Callable[[Sequence[str]], bytes]]] = {
    "chat text": ("chat", _chat("content")),
    "chat reasoning": ("chat", _chat("reasoning_content")),
    "chat refusal": ("chat", _chat("refusal")),
    "chat call": ("chat", _chat_call),
    "anthropic text": ("anthropic", _anthropic_text),
    "anthropic thinking": ("anthropic", _anthropic_thinking),
    "anthropic call": ("anthropic", _anthropic_call),
    "gemini text": ("gemini", _gemini),
    "ollama text": ("ollama", _ollama),
    "cohere text": ("cohere", _cohere),
    "bedrock text": ("bedrock", _bedrock),
    "responses text": ("responses", _responses),
}


def _texts(events: Sequence[Document]) -> str:
    return "".join(event["delta"] for event in events if event["type"].endswith(".delta"))


@table("name", STREAMS)
@table(
    ("pieces", "expected"),
    [(HALVES, f"a{FACE}b"), (TWICE, FACE * 2), (NEVER_COMPLETED, f"a{LOST}b")],
)
def test_a_surrogate_pair_split_over_two_deltas_is_one_character(
    name: str, pieces: Sequence[str], expected: str
) -> None:
    dialect, stream = STREAMS[name]
    data = stream(pieces)
    events = replay(data, dialect=dialect, cuts=range(len(data)))
    text = _texts(events).removeprefix('{"t":"').removesuffix('"}')
    assert text == expected
    assert events[-1]["type"] == "response.completed"


@table("name", STREAMS)
def test_half_a_character_at_the_end_is_one_replacement_character(name: str) -> None:
    dialect, stream = STREAMS[name]
    events = replay(stream([r"a\ud83d"]), dialect=dialect)
    assert _texts(events).count(LOST) == 1
    assert _texts(events).removeprefix('{"t":"').removesuffix('"}') == f"a{LOST}"
