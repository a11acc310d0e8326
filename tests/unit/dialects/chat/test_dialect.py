"""Chat Completions as a dialect."""

from __future__ import annotations

import json

from antiphon.core.deltas import Finish, Text
from antiphon.core.plan.plan import Plan
from antiphon.dialects.chat import encode as chat_request
from antiphon.dialects.chat.quirks import PLAIN
from antiphon.dialects.dialect import build, resolve
from antiphon.framing.sse import Frame

CHUNK = b'{"choices":[{"delta":{"content":"a"}}]}'


def test_a_plan_is_encoded_as_a_request() -> None:
    plan = Plan(provider="p", model="m")
    outbound = resolve("chat").encode(plan, stream=True)
    assert outbound == chat_request.encode(plan, stream=True, quirks=PLAIN)
    assert json.loads(outbound.body)["stream"] is True


def test_a_stream_is_decoded_frame_by_frame() -> None:
    dialect = resolve("chat")
    [frame] = dialect.framer().feed(b"data: " + CHUNK + b"\n\n")
    assert Text("a") in dialect.decoder().feed(frame)


def test_every_stream_has_a_decoder_of_its_own() -> None:
    dialect = resolve("chat")
    assert dialect.decoder().feed(Frame(CHUNK)) == dialect.decoder().feed(Frame(CHUNK))


def test_a_whole_answer_is_decoded() -> None:
    body = b'{"choices":[{"message":{"content":"a"}}]}'
    assert Text("a") in resolve("chat").decode(body)


def test_an_implied_finish_reason_is_configured_by_provider() -> None:
    for quirks in (PLAIN, None):
        dialect = build("chat", quirks=quirks, implied_finish="stop")
        assert dialect.decoder().feed(Frame(b"[DONE]")) == [Finish("stop")]
