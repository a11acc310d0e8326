"""Ids of calls for clients of Chat Completions."""

from __future__ import annotations

import base64
import os
import re
import zlib

from antiphon.core.deltas import ReasoningState
from antiphon.core.history.call_state import MAX_CHARS_IN_ID
from antiphon.core.history.capsule import Sealer
from antiphon.core.request import Request
from antiphon.dialects.anthropic.message_ids import wrap_call_id
from antiphon.dialects.chat.client import CHAT
from antiphon.dialects.chat.client_call_ids import (
    CallKey,
    SealedStates,
    read_call_id,
    write_call_id,
)
from tests.support.tables import table

ITEM = "fc_6afb00001234567890abcdef12345678"
SEALER = Sealer(["key"], new_nonce=os.urandom, now=lambda: 1000)


def sealed(size: int) -> str:
    return SEALER.seal("me", "gemini", "m", [ReasoningState("s", os.urandom(size).hex())], "")


def parse(*messages: object) -> Request:
    return CHAT.parse({"model": "m", "messages": [*messages]})


def test_an_id_that_a_client_has_from_messages_leads_back_to_the_providers_own_id() -> None:
    for own in ("call_0", "functions.bash:0", "toolu_0123456789abcdef"):
        assert read_call_id(wrap_call_id(own, "resp_1", 2)) == CallKey(own)


def test_an_id_leads_back_to_the_providers_own_id_and_to_the_item() -> None:
    for own in ("call_0", "functions.bash:0", "", "ü 😀", "a" * 1024):
        text = write_call_id(own, ITEM)
        assert re.fullmatch(r"[A-Za-z0-9_-]+", text)
        assert read_call_id(text) == CallKey(own, ITEM)
    assert write_call_id("call_0", ITEM) != write_call_id("call_0", ITEM[:-1] + "0")


def test_an_id_that_is_too_long_or_no_text_still_is_one() -> None:
    assert write_call_id("a" * 1025, ITEM) == "a" * 1025
    assert read_call_id(write_call_id("a\ud800", ITEM)) == CallKey("a?", ITEM)


def test_sealed_state_in_an_id_comes_back_and_the_id_has_at_most_one_kilobyte() -> None:
    state = sealed(400)
    assert MAX_CHARS_IN_ID - 100 < len(state) <= MAX_CHARS_IN_ID
    text = write_call_id("call_" + "x" * 24, ITEM, SealedStates((state,)))
    assert len(text) <= 1024
    assert re.fullmatch(r"[A-Za-z0-9_-]+", text)
    assert read_call_id(text) == CallKey("call_" + "x" * 24, ITEM, SealedStates((state,)))


@table(
    "text",
    [
        "call_abc",
        "toolu_1",
        "",
        "call_ap1",
        "call_ap1é",
        "call_ap1====",
        "call_ap1AAAA",
        "call_apsAAAA",
        write_call_id("call_0", ITEM, SealedStates(("ap2.xyz",)))[:-14],
        "call_aps" + base64.urlsafe_b64encode(zlib.compress(b"[" + b" " * 10**6)).decode(),
        "call_ap1" + base64.urlsafe_b64encode(b'["c","i",[[],[]],' + b"[" * 4000).decode(),
    ],
)
def test_an_id_that_is_not_ours_or_damaged_stays_as_it_is(text: str) -> None:
    assert read_call_id(text) == CallKey(text)


# --- what is read from a history ------------------------------------------------------------------


def call(id: str, **more: object) -> dict[str, object]:
    return {"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}, **more}


def assistant(*calls: object, **more: object) -> dict[str, object]:
    return {"role": "assistant", "content": "One moment.", "tool_calls": [*calls], **more}


def detail(data: str) -> dict[str, object]:
    return {"type": "reasoning.encrypted", "data": data}


def extra(value: str) -> dict[str, object]:
    return {"extra_content": {"google": {"thought_signature": value}}}


def summaries(request: Request) -> list[str]:
    """Each item in short."""

    def short(item: dict[str, object]) -> str:
        state = item.get("encrypted_content") or item.get("states")
        if item["type"] == "reasoning":
            return f"{'text+' if 'content' in item else ''}{state}"
        return str(item["type"])

    return [short(item) for item in request.input]


ID = write_call_id("c1", "fc_1", SealedStates((), ("ap2.id",)))


@table(
    ("message", "expected"),
    [
        (assistant(call(ID)), ["ap2.id", "message", "function_call"]),
        (
            assistant(call(ID), reasoning_content="hm"),
            ["text+ap2.id", "message", "function_call"],
        ),
        (
            assistant(call("c1", **extra("ap2.extra")), reasoning_content="hm"),
            ["message", "ap2.extra", "function_call"],
        ),
        (
            assistant(call(ID, **extra("ap2.extra")), reasoning_details=[detail("ap2.detail")]),
            ["ap2.detail", "message", "function_call"],
        ),
        (
            assistant(
                call(write_call_id("c1", "fc_1")),
                call(write_call_id("c2", "fc_2", SealedStates(("ap2.a", "ap2.b")))),
            ),
            ["message", "function_call", "ap2.a", "ap2.b", "function_call"],
        ),
        (
            assistant(call("c1"), reasoning_details=[detail("ap2.a"), detail("ap2.b")]),
            ["ap2.a", "ap2.b", "message", "function_call"],
        ),
        (
            assistant(call("c1", **extra("native")), reasoning="hm"),
            [
                "text+None",
                "message",
                str([{"scheme": "gemini.thought_signature", "value": "native", "attach": "tool"}]),
                "function_call",
            ],
        ),
    ],
)
def test_state_is_read_from_the_most_exact_source(
    message: dict[str, object], expected: list[str]
) -> None:
    assert summaries(parse(message)) == expected


def test_a_result_belongs_to_the_call_by_the_providers_own_id() -> None:
    id = write_call_id("call_0", ITEM)
    request = parse(assistant(call(id)), {"role": "tool", "tool_call_id": id, "content": "x"})
    function, result = request.input[-2:]
    assert (function["call_id"], function["id"]) == ("call_0", ITEM)
    assert result["call_id"] == "call_0"


def test_state_is_stored_unless_the_client_forbids_it() -> None:
    message = {"role": "user", "content": "hi"}
    carriers = {
        store: CHAT.parse({"model": "m", "messages": [message], "store": store}).state_carrier
        for store in (None, True, False)
    }
    assert carriers == {None: "store", True: "store", False: "call_ids"}
