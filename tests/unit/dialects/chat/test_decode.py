"""Chat Completions decoder: chunks of every variant become deltas."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.deltas import (
    Delta,
    Extra,
    Failure,
    Finish,
    Reasoning,
    ReasoningState,
    Refusal,
    Start,
    Text,
    ToolCall,
    Usage,
)
from antiphon.dialects.chat.decode import ChatDecoder, FirstChoice, decode
from antiphon.framing.sse import Frame
from tests.support.tables import table


def feed(*chunks: object, decoder: ChatDecoder | None = None) -> list[Delta]:
    """The deltas of these chunks, without who is answering."""
    decoder = decoder or ChatDecoder()
    frames = [
        Frame(chunk if isinstance(chunk, bytes) else json.dumps(chunk).encode()) for chunk in chunks
    ]
    deltas = [delta for frame in frames for delta in decoder.feed(frame)]
    return [delta for delta in deltas if not isinstance(delta, Start)]


def says(**message: Any) -> list[Delta]:
    return feed({"choices": [{"index": 0, "delta": message}]})


def call(arguments: Any = None, **more: Any) -> dict[str, Any]:
    return {"function": {"name": "f", "arguments": arguments}} | more


def test_an_error_that_stops_a_stream_of_groq_is_a_failure() -> None:
    """`x_groq.error` in https://github.com/groq/groq-python: why a stream was stopped early."""
    stopped = {"choices": [], "x_groq": {"id": "req_1", "error": "The engine is overloaded"}}
    [delta] = feed(stopped)
    assert isinstance(delta, Failure)
    assert delta.fault.type == "provider_overloaded"
    assert feed({"choices": [], "x_groq": {"id": "req_1", "error": None}}) == []


# What a delta says


@pytest.mark.parametrize("index", [{"index": 0}, {}])
def test_the_word_null_is_no_id_of_a_call(index: dict[str, int]) -> None:
    """Mistral names the rest of a call so: zed-industries/zed pull request 53605 (April 2026), and
    langchain-ai/langchainjs 11505."""
    begun = {"id": "a", "function": {"name": "f", "arguments": ""}, **index}
    rest = {"id": "null", "function": {"name": "", "arguments": "{}"}, **index}
    chunks = ({"choices": [{"delta": {"tool_calls": [piece]}}]} for piece in (begun, rest))
    assert feed(*chunks) == [ToolCall(0, "a", "f"), ToolCall(0, arguments="{}")]


def test_calls_with_the_word_null_as_their_id_stay_apart() -> None:
    """As Mistral sent them in 2024: mistralai/client-js issue 69."""
    calls = [{"id": "null", "function": {"name": name, "arguments": "{}"}} for name in "fg"]
    assert says(tool_calls=calls) == [ToolCall(0, None, "f", "{}"), ToolCall(1, None, "g", "{}")]


def test_content_that_is_marked_as_a_thought_is_reasoning() -> None:
    mark = {"extra_content": {"google": {"thought": True}}}
    messages = ({"content": "<thought>a", **mark}, {"content": "</thought>b"})
    assert feed(*({"choices": [{"delta": message}]} for message in messages)) == [
        Reasoning("a", "summary"),
        Text("b"),
    ]


@table(
    ("message", "expected"),
    [
        ({}, []),
        ({"role": "assistant", "content": ""}, []),
        ({"content": None, "refusal": None, "tool_calls": None, "reasoning": None}, []),
        ({"content": "hi"}, [Text("hi")]),
        ({"content": 5}, [Extra("content", 5, is_output=True)]),
        ({"content": [{"type": "text", "text": "a"}]}, [Text("a")]),
        (
            {"content": [{"type": "image"}]},
            [Extra("content_part", {"type": "image"}, is_output=True)],
        ),
        ({"content": ["a"]}, [Extra("content_part", "a", is_output=True)]),
        ({"content": [{"type": "thinking", "thinking": "hm"}]}, [Reasoning("hm")]),
        (
            {"content": [{"type": "thinking", "thinking": [{"text": "a"}, {"text": 1}, "b"]}]},
            [Reasoning("a")],
        ),
        (
            {"content": [{"type": "reasoning", "summary": [{"text": "hm"}, {"text": ""}]}]},
            [Reasoning("hm", "summary")],
        ),
        ({"refusal": "no"}, [Refusal("no")]),
        ({"refusal": ""}, []),
        ({"refusal": {}}, []),
        ({"refusal": {"x": 1}}, []),
        ({"reasoning_content": "hm"}, [Reasoning("hm")]),
        ({"reasoning": "hm"}, [Reasoning("hm")]),
        ({"reasoning_text": "hm", "reasoning_opaque": "x"}, [Reasoning("hm")]),
        ({"reasoning_content": "a", "reasoning": "b"}, [Reasoning("a")]),
        ({"reasoning_content": "", "reasoning": "b"}, [Reasoning("b")]),
        ({"reasoning": {"effort": "low"}}, []),
        ({"content": "b", "reasoning": "a"}, [Reasoning("a"), Text("b")]),
        ({"reasoning_details": "odd"}, []),
        ({"audio": {"id": "x"}}, [Extra("audio", {"id": "x"}, is_output=True)]),
        (
            {"images": [1], "executed_tools": [2]},
            [Extra("images", [1], is_output=True), Extra("executed_tools", [2])],
        ),
        ({"audio": {}, "images": []}, []),
    ],
)
def test_a_message_gives_its_deltas_in_the_order_of_generation(
    message: dict[str, Any], expected: list[Delta]
) -> None:
    assert says(**message) == expected


def details(*entries: object) -> ReasoningState:
    return ReasoningState("openrouter.reasoning_details", list(entries), "turn")


TEXT = {"type": "reasoning.text", "text": "hm", "signature": "s"}
SUMMARY = {"type": "reasoning.summary", "summary": "short", "index": 2}
SEALED = {"type": "reasoning.encrypted", "data": "x"}


@table(
    ("message", "expected"),
    [
        ({"reasoning_details": [TEXT]}, [Reasoning("hm"), details(TEXT)]),
        ({"reasoning_details": [SUMMARY]}, [Reasoning("short", "summary", 2), details(SUMMARY)]),
        (
            {"reasoning_details": [SUMMARY | {"index": None}]},
            [Reasoning("short", "summary"), details(SUMMARY | {"index": None})],
        ),
        ({"reasoning_details": [SEALED, "odd"]}, [details(SEALED)]),
        ({"reasoning": "hm", "reasoning_details": [TEXT]}, [Reasoning("hm"), details(TEXT)]),
        (
            {"reasoning": "short", "reasoning_details": [SUMMARY]},
            [Reasoning("short", "summary"), details(SUMMARY)],
        ),
        (
            {"reasoning": "x", "reasoning_details": [SUMMARY, SEALED]},
            [Reasoning("x"), details(SUMMARY, SEALED)],
        ),
        (
            {"reasoning": "x", "reasoning_details": [{"type": []}]},
            [Reasoning("x"), details({"type": []})],
        ),
    ],
)
def test_reasoning_details_give_text_once_and_whole_state(
    message: dict[str, Any], expected: list[Delta]
) -> None:
    assert says(**message) == expected


@table(
    ("calls", "expected"),
    [
        ([], []),
        ([call("{}", index=0, id="a")], [ToolCall(0, "a", "f", "{}")]),
        ([call(None, index=0, id="")], [ToolCall(0, None, "f")]),
        ([call({"x": "é"}, id="a")], [ToolCall(0, "a", "f", '{"x":"é"}')]),
        ([call("", index=None)], [ToolCall(0, None, "f")]),
        ([call("", index="0")], [ToolCall(0, None, "f")]),
        ([{"index": 0}], [ToolCall(0)]),
        ([{"index": 0, "function": None, "id": 7}], [ToolCall(0)]),
        ([call("{}"), call("{}")], [ToolCall(0, None, "f", "{}"), ToolCall(1, None, "f", "{}")]),
        ([call(""), call("")], [ToolCall(0, None, "f"), ToolCall(1, None, "f")]),
        (
            [{"id": "a", "type": "custom", "custom": {"name": "g", "input": "x"}}],
            [ToolCall(0, "a", "g", "x", "custom")],
        ),
        (
            [call("{}", id="a", extra_content={"google": {"thought_signature": "sig"}})],
            [
                ReasoningState("gemini.thought_signature", "sig", "tool"),
                ToolCall(0, "a", "f", "{}"),
            ],
        ),
        ([call("{}", extra_content={"google": 1})], [ToolCall(0, None, "f", "{}")]),
    ],
)
def test_tool_calls_are_decoded_in_every_form(
    calls: list[dict[str, Any]], expected: list[Delta]
) -> None:
    assert says(tool_calls=calls) == expected


@table(
    ("name", "expected"),
    [
        ("ls<|channel|>commentary", "ls"),
        ("ls<|constrain|>json", "ls"),
        ("<|constrain|>json", "<|constrain|>json"),
        ("ls", "ls"),
    ],
)
def test_a_name_ends_before_the_tokens_that_gpt_oss_leaves_behind_it(
    name: str, expected: str
) -> None:
    """vllm-project/vllm issue 32587, ollama/ollama issue 12132."""
    function = {"name": name, "arguments": "{}"}
    assert says(tool_calls=[{"function": function}]) == [ToolCall(0, None, expected, "{}")]
    assert says(function_call=function) == [ToolCall(0, None, expected, "{}")]


def test_the_legacy_function_call_is_a_call() -> None:
    assert says(function_call={"name": "f", "arguments": "{}"}) == [ToolCall(0, None, "f", "{}")]
    assert says(function_call={"name": "", "arguments": ""}) == []


def test_a_signature_of_vertex_is_kept_apart() -> None:
    for odd in ("x", {"vertex": "x"}, {"vertex": {"thought_signature": None}}):
        assert says(tool_calls=[call("{}", extra_content=odd)]) == [ToolCall(0, None, "f", "{}")]
    extra = {"vertex": {"thought_signature": "sig"}}
    assert says(tool_calls=[call("{}", extra_content=extra)]) == [
        ReasoningState("vertex.thought_signature", "sig", "tool"),
        ToolCall(0, None, "f", "{}"),
    ]


def test_a_signature_of_text_is_attached_to_the_text() -> None:
    extra = {"google": {"thought_signature": "sig"}}
    assert says(content="a", extra_content=extra) == [
        Text("a"),
        ReasoningState("gemini.thought_signature", "sig", "text"),
    ]


# Who answers, which choice, and why it stopped


def test_model_and_id_are_reported_once() -> None:
    decoder = ChatDecoder()
    chunk = Frame(b'{"id":"x","model":"m","choices":[]}')
    assert decoder.feed(chunk) == [Start("m", "x")]
    assert decoder.feed(chunk) == []


def test_a_chunk_without_model_and_choices_is_not_a_start() -> None:
    assert ChatDecoder().feed(Frame(b'{"choices":[]}')) == []
    assert ChatDecoder().feed(Frame(b'{"model":3,"choices":[{}]}')) == [Start(None, None)]


def test_only_the_first_choice_is_decoded() -> None:
    chunk = {"choices": [{"index": 1, "delta": {"content": "b"}}, {"delta": {"content": "a"}}]}
    assert feed(chunk) == [Extra("choice", 1, is_output=True), Text("a")]


@table(
    ("chunks", "others"),
    [
        pytest.param([[0], [0], [1], [0]], [1], id="as documented"),
        pytest.param([[0], [1], [0], [1], [2], [0]], [1, 2], id="each has begun in turn"),
        pytest.param([[0], [0, 1], [1], [2]], [1, 1, 2], id="two in one chunk"),
        pytest.param([[1, 0]], [1], id="the first comes last"),
        pytest.param([[1], [1], [0], [1]], [1], id="another one begins"),
        # huggingface/text-generation-inference pull request 1648
        pytest.param([[1], [2], [3], [4]], [], id="the number of the chunk"),
        # microsoft/foundry-local issue 144: numbers of chunks
        pytest.param([[0], [7], [197], [198]], [], id="the number of the token"),
        pytest.param([[1], [1], [1]], [], id="always 1"),
        pytest.param([["0"], [None], ["1"]], [], id="no number"),
    ],
)
def test_only_a_choice_that_is_not_the_first_is_another(
    chunks: list[list[object]], others: list[object]
) -> None:
    choice = FirstChoice()
    found = [
        index
        for chunk in chunks
        for index in chunk
        if choice.is_other(index, is_alone=len(chunk) == 1)
    ]
    # The first chunk of another choice passes where its index may number the chunks.
    assert found == others


def test_a_choice_that_begins_after_pieces_of_the_first_is_not_decoded() -> None:
    chunks = [
        {"choices": [{"index": index, "delta": {"content": text}}]}
        for index, text in ((0, "a"), (0, "b"), (0, "c"), (1, "d"), (2, "e"))
    ]
    assert [type(delta) for delta in feed(*chunks)] == [Text, Text, Text, Extra, Extra]


def test_a_choice_that_begins_after_one_further_piece_of_the_first_is_not_decoded() -> None:
    """Azure's first chunk has no choice."""
    chunks = [
        {"choices": [{"index": index, "delta": {"content": text}}]}
        for index, text in ((0, "a"), (0, "b"), (1, "c"))
    ]
    assert [type(each) for each in feed({"model": "m", "choices": []}, *chunks)] == [
        Text,
        Text,
        Extra,
    ]


def test_the_index_of_a_choice_may_be_the_number_of_its_chunk() -> None:
    """huggingface/text-generation-inference pull request 1648, microsoft/foundry-local issue 144:
    nothing behind the first token was sent."""
    chunks = [
        {"choices": [{"index": index, "delta": {"content": text}, "finish_reason": reason}]}
        for index, text, reason in ((0, "I", None), (1, "'", None), (2, "m", "stop"))
    ]
    assert feed(*chunks) == [Text("I"), Text("'"), Text("m"), Finish("stop")]


def test_a_whole_message_in_a_stream_counts_only_without_deltas() -> None:
    whole = {"choices": [{"message": {"content": "all"}}]}
    piece = {"choices": [{"delta": {"content": "a"}, "message": {"content": "a"}}]}
    assert feed(whole) == [Text("all")]
    assert feed(piece, whole) == [Text("a")]
    assert feed({"choices": [{}]}) == []


@pytest.mark.parametrize("reason", [None, "", 3, {}])
def test_an_invalid_finish_reason_is_ignored(reason: object) -> None:
    assert feed({"choices": [{"delta": {}, "finish_reason": reason}]}) == []


def test_the_finish_reason_follows_the_last_text() -> None:
    chunk = {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}
    assert feed(chunk) == [Text("a"), Finish("stop")]


def test_the_end_marker_ends_the_stream() -> None:
    decoder = ChatDecoder()
    assert feed(b"[DONE]", decoder=decoder) == []
    assert decoder.ended
    assert decoder.close() == []


def test_the_end_marker_implies_the_configured_finish_reason() -> None:
    assert feed(b"[DONE]", decoder=ChatDecoder(implied_finish="stop")) == [Finish("stop")]


def test_an_implied_finish_reason_never_replaces_a_real_one() -> None:
    decoder = ChatDecoder(implied_finish="stop")
    finish = {"choices": [{"delta": {}, "finish_reason": "length"}]}
    assert feed(finish, b"[DONE]", decoder=decoder) == [Finish("length")]


# Errors and noise


@table(
    "chunk",
    [
        {"error": {"message": "x", "code": 502}},
        {"error": {"message": "x"}, "choices": []},
        {"error": "x"},
        {"choices": [{"delta": {}, "error": {"message": "x"}}]},
        {"base_resp": {"status_code": 1008, "status_msg": "x"}, "choices": None},
        {"object": "error", "message": "x", "code": 400},
    ],
)
def test_an_error_in_a_chunk_is_a_failure(chunk: dict[str, Any]) -> None:
    [delta] = feed(chunk)
    assert isinstance(delta, Failure)
    [*_, last] = decode(json.dumps(chunk).encode())
    assert isinstance(last, Failure)


def test_text_and_usage_come_before_the_error() -> None:
    chunk = {
        "choices": [{"delta": {"content": "a"}, "error": {"message": "x"}}],
        "usage": {"prompt_tokens": 3},
    }
    usage, text, failure = feed(chunk)
    assert (usage, text) == (Usage(3), Text("a"))
    assert isinstance(failure, Failure)


@pytest.mark.parametrize(
    "chunk",
    [
        {"base_resp": {"status_code": 0, "status_msg": ""}, "choices": []},
        {"choices": [{"delta": {}, "error": {}}]},
        {"choices": [], "error": None},
        {"type": "ping"},
    ],
)
def test_a_field_that_only_looks_like_an_error_is_ignored(chunk: dict[str, Any]) -> None:
    assert feed(chunk) == []


UNREADABLE = [
    b"{",
    b'{"choices":3}',
    b"\xff",
    b'{"choices":[3]}',
    b"[" * 100_000,
    b"[]",
    b"<html>",
]


@table("data", UNREADABLE)
def test_an_unreadable_frame_is_a_failure(data: bytes) -> None:
    [delta] = feed(data)
    assert isinstance(delta, Failure)
    assert delta.fault.type == "protocol"


@table("choices", [3, "", {}, [None], [3]])
def test_an_error_beside_choices_of_another_type_is_that_error(choices: Any) -> None:
    chunk = {"error": {"message": "slow down", "code": 429}, "choices": choices}
    for [delta] in (feed(chunk), decode(json.dumps(chunk).encode())):
        assert isinstance(delta, Failure)
        assert delta.fault.type == "rate_limit"


def test_an_unknown_member_that_is_not_utf_8_is_ignored() -> None:
    data = b'{"id":"c","x\xcc\xff":{"y":1}}'
    assert feed(data) == []
    assert [delta for delta in decode(data) if isinstance(delta, Failure)] == []


@table("data", UNREADABLE)
def test_an_unreadable_frame_after_the_finish_reason_is_ignored(data: bytes) -> None:
    finish = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
    assert feed(finish, data) == [Finish("stop"), Extra("unreadable_frame", len(data))]


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (rb"a\ud83d", "a\N{REPLACEMENT CHARACTER}"),
        (rb"\ude00b", "\N{REPLACEMENT CHARACTER}b"),
        (rb"\ud83d\ude00\ud83d", "\N{GRINNING FACE}\N{REPLACEMENT CHARACTER}"),
        (b"a\xe2\x82", "a\N{REPLACEMENT CHARACTER}"),
        (b"a\tb\x01", "a\tb\x01"),
    ],
)
def test_half_a_character_does_not_fail_the_chunk(written: bytes, text: str) -> None:
    chunk = b'{"choices":[{"delta":{"content":"%b"}}]}' % written
    assert feed(chunk) == [Text(text)]
    body = b'{"choices":[{"message":{"content":"%b"}}]}' % written
    assert decode(body)[1:] == [Text(text), Finish(None)]


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999"])
def test_an_invalid_number_does_not_fail_the_chunk(number: bytes) -> None:
    logprob = b'{"content":[{"token":"a","logprob":%b}]}' % number
    chunk = b'{"choices":[{"delta":{"content":"a"},"logprobs":%b}]}' % logprob
    assert feed(chunk) == [Text("a")]


def test_an_error_in_a_repaired_chunk_is_a_failure() -> None:
    [delta] = feed(rb'{"error":{"message":"\ud83d","code":429}}')
    assert isinstance(delta, Failure)
    assert delta.fault.type == "rate_limit"


@pytest.mark.parametrize("data", [b'"ping"', b"1", b"null", b" ", b"true"])
def test_a_bare_word_is_a_keep_alive(data: bytes) -> None:
    assert feed(data) == [Extra("unreadable_frame", len(data))]


BOTH_FORMS = (
    b'"function_call":{"name":"f","arguments":"%b"},'
    b'"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"%b"}}]'
)


def test_a_call_in_both_forms_is_one_call() -> None:
    # llama-cpp-python 0.3.36 sends every piece of a call twice.
    chunks = [b'{"choices":[{"delta":{%b}}]}' % (BOTH_FORMS % (p, p)) for p in (b"{", b"}")]
    late = b'{"choices":[{"delta":{"function_call":{"name":"f","arguments":" "}}}]}'
    calls = [delta for delta in feed(*chunks, late) if isinstance(delta, ToolCall)]
    assert calls == [ToolCall(0, "c", "f", "{"), ToolCall(0, "c", "f", "}")]
    body = b'{"choices":[{"message":{%b},"finish_reason":"tool_calls"}]}'
    deltas = decode(body % (BOTH_FORMS % (b"{}", b"{}")))
    assert [each for each in deltas if isinstance(each, ToolCall)] == [ToolCall(0, "c", "f", "{}")]


def test_an_unknown_member_that_cannot_be_decoded_is_a_failure() -> None:
    data = b'{"number": ' + b"1" * 5000 + b"}"
    for deltas in (feed(data), decode(data)):
        assert isinstance(deltas[-1], Failure)


# Chunks that are one piece of the output


def piece(**message: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": message}]}


def arguments_of(index: int, text: str, **more: Any) -> dict[str, Any]:
    return piece(tool_calls=[{"index": index, "function": {"arguments": text}, **more}])


@table(
    ("chunks", "expected"),
    [
        ([piece(content="a"), piece(content="b")], [Text("a"), Text("b")]),
        ([piece(content="a"), piece(reasoning="b")], [Text("a"), Reasoning("b")]),
        ([piece(content="a"), piece(content="b") | {"service_tier": "flex"}], None),
        ([piece(content="a"), piece(content=""), piece(content="c")], [Text("a"), Text("c")]),
        ([piece(content="a"), piece(content="b", refusal=1), piece(content="c")], None),
        (
            [arguments_of(0, "", id="x"), arguments_of(0, "1"), arguments_of(0, "2")],
            [ToolCall(0, "x"), ToolCall(0, None, None, "1"), ToolCall(0, None, None, "2")],
        ),
        ([piece(reasoning_text="a"), piece(reasoning_text="b")], None),
        (
            [arguments_of(0, "", id="x"), arguments_of(0, "1"), arguments_of(1, "2")],
            [ToolCall(0, "x"), ToolCall(0, None, None, "1"), ToolCall(1, None, None, "2")],
        ),
    ],
)
def test_a_piece_after_a_piece_is_decoded_as_one_alone(
    chunks: list[dict[str, Any]], expected: list[Delta] | None
) -> None:
    """`None`: as a decoder that never saw a piece before gives it."""

    class LongWay(ChatDecoder):
        def _plain_piece(self, data: bytes) -> Delta | None:
            return None

    chunks = [piece(role="assistant"), *chunks]  # the first one says who answers
    deltas = feed(*chunks)
    assert deltas == feed(*chunks, decoder=LongWay())
    assert expected is None or deltas == expected
