"""What every dialect can do, and the names it is found by."""

from __future__ import annotations

import json

import pytest

from antiphon.core.plan.plan import Plan
from antiphon.core.stream.deltas import Finish, Text
from antiphon.dialects.chat import encode as chat_request
from antiphon.dialects.chat.quirks import PLAIN
from antiphon.dialects.dialect import DIALECTS, build, resolve
from antiphon.dialects.gemini.quirks import GeminiQuirks
from antiphon.errors import UnknownDialect
from antiphon.wire.sse import Frame

CHUNK = b'{"choices":[{"delta":{"content":"a"}}]}'


@pytest.mark.parametrize("name", DIALECTS)
def test_a_dialect_is_found_by_its_name(name: str) -> None:
    assert resolve(name) is DIALECTS[name]


def test_a_name_that_none_has_is_an_error() -> None:
    with pytest.raises(UnknownDialect, match="'morse'") as raised:
        resolve("morse")
    assert raised.value.code == "dialect.unknown"
    with pytest.raises(UnknownDialect, match="'morse'"):
        build("morse", quirks=PLAIN)


@pytest.mark.parametrize("name", DIALECTS)
def test_a_provider_without_quirks_speaks_the_dialect_as_everybody_does(name: str) -> None:
    assert build(name) is DIALECTS[name]


def test_quirks_of_another_dialect_are_a_mistake() -> None:
    assert build("gemini", quirks=GeminiQuirks()) is not DIALECTS["gemini"]
    with pytest.raises(TypeError, match="'gemini' must be GeminiQuirks, not ChatQuirks"):
        build("gemini", quirks=PLAIN)


def test_a_plan_is_written_as_a_request() -> None:
    plan = Plan(provider="p", model="m")
    outbound = resolve("chat").encode(plan, stream=True)
    assert outbound == chat_request.encode(plan, stream=True, quirks=PLAIN)
    assert json.loads(outbound.body)["stream"] is True


def test_a_stream_is_read_frame_by_frame() -> None:
    dialect = resolve("chat")
    [frame] = dialect.framer().feed(b"data: " + CHUNK + b"\n\n")
    assert Text("a") in dialect.decoder().feed(frame)


def test_every_stream_has_a_decoder_of_its_own() -> None:
    dialect = resolve("chat")
    assert dialect.decoder().feed(Frame(CHUNK)) == dialect.decoder().feed(Frame(CHUNK))


def test_a_whole_answer_is_read_at_once() -> None:
    body = b'{"choices":[{"message":{"content":"a"}}]}'
    assert Text("a") in resolve("chat").decode(body)


def test_a_provider_that_never_says_why_it_stopped_says_so_in_its_data() -> None:
    for quirks in (PLAIN, None):
        dialect = build("chat", quirks=quirks, implied_finish="stop")
        assert dialect.decoder().feed(Frame(b"[DONE]")) == [Finish("stop")]


def test_an_error_is_classified_and_described() -> None:
    dialect = resolve("chat")
    fault = dialect.classify(429, {}, b'{"error":{"message":"slow down, sk-1"}}')
    assert fault.type == "rate_limit"
    for locale in ("en", "zh", "xx-YY"):
        told = dialect.describe(fault, locale)
        assert told
        assert "sk-1" not in told
