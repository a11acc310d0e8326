"""Rendering of events for clients of Chat Completions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from msgspec import structs

from antiphon.core.client_profile import OTHER, Profile
from antiphon.core.deltas import (
    Annotation,
    Delta,
    ItemEnd,
    Reasoning,
    ReasoningState,
    Refusal,
    Text,
    ToolCall,
    Usage,
)
from antiphon.core.events import ArgumentsDelta, Event, Failed, Incomplete
from antiphon.core.faults.fault import protocol_fault
from antiphon.core.items import (
    ApplyPatchCall,
    FunctionCall,
    LocalShellCall,
    ShellCall,
    ToolSearchCall,
)
from antiphon.core.request import Request
from antiphon.core.response import IncompleteDetails, Response
from antiphon.core.stream.machine import ResponseMachine
from antiphon.dialects.chat.call_items import Call, read_call
from antiphon.dialects.chat.client_call_ids import read_call_id, write_call_id
from antiphon.dialects.chat.render import ChatRenderer, completion_id, finish_reason, render_whole
from antiphon.dialects.client_dialect import EventBatch
from tests.support.machines import machine

SDK = Profile(name="openai-python")
ROUTER_CLIENT = Profile(name="ai-sdk")
CITATION = {
    "type": "url_citation",
    "url": "https://a",
    "title": "A",
    "start_index": 0,
    "end_index": 1,
}


SUMMARY = (Reasoning("one", "summary", 0), Reasoning("two", "summary", 1))


def request(*, usage: bool = False) -> Request:
    options = {"include_usage": True} if usage else None
    return Request(raw={}, model="m", stream=True, stream_options=options)


def finished(*deltas: Delta, reason: str = "stop") -> tuple[list[Event], ResponseMachine]:
    made = machine(seal=lambda states, text: "ap2.sealed", empty_arguments="{}")
    events = made.start()
    for delta in deltas:
        events += made.feed(delta)
    return [*events, *made.finish(reason)], made


def render(
    events: Sequence[Event], profile: Profile = OTHER, *, usage: bool = False
) -> list[dict[str, Any]]:
    """The chunks of a stream, without the members that all of them share."""
    return chunks_of(ChatRenderer(request(usage=usage), profile), events)


def chunks_of(renderer: ChatRenderer, events: Sequence[Event]) -> list[dict[str, Any]]:
    data = renderer.feed(EventBatch(0, events)) + renderer.close()
    frames = [frame.removeprefix("data: ") for frame in data.decode().split("\n\n") if frame]
    if frames[-1] == "[DONE]":
        frames.pop()
    return [json.loads(frame) for frame in frames]


def deltas_of(chunks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [chunk["choices"][0]["delta"] for chunk in chunks if chunk.get("choices")]


def test_every_chunk_has_the_same_id_time_and_model() -> None:
    chunks = render(finished(Text("hel"), Text("lo"))[0])
    shared = ("id", "object", "created", "model")
    assert {tuple(chunk[name] for name in shared) for chunk in chunks} == {
        ("chatcmpl-1", "chat.completion.chunk", 1_700_000_000, "m")
    }
    assert deltas_of(chunks) == [
        {"role": "assistant", "content": ""},
        {"content": "hel"},
        {"content": "lo"},
        {},
    ]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, None, None, "stop"]


def test_the_stream_ends_with_done_and_silence_is_a_comment() -> None:
    renderer = ChatRenderer(request(), OTHER)
    assert renderer.close() == b"data: [DONE]\n\n"
    assert renderer.keepalive(-1) == renderer.keepalive(7) == b": keep-alive\n\n"
    assert renderer.keepalive_diagnostic is None


def test_usage_is_a_last_chunk_without_choices_if_it_was_requested() -> None:
    usage = Usage(
        input_tokens=10, output_tokens=5, cached_tokens=4, cache_write_tokens=2, reasoning_tokens=3
    )
    events, _ = finished(Text("a"), usage)
    last = render(events, usage=True)[-1]
    assert last["choices"] == []
    assert last["usage"] == {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "total_tokens": 15,
        "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    assert all("usage" not in chunk for chunk in render(events))


def test_reasoning_has_both_names_in_one_chunk() -> None:
    events, _ = finished(Reasoning("hm"), Text("a"))
    assert {"reasoning_content": "hm", "reasoning": "hm"} in deltas_of(render(events))


def test_parts_of_a_summary_are_separated() -> None:
    events, _ = finished(*SUMMARY)
    texts = [delta.get("reasoning", "") for delta in deltas_of(render(events))]
    assert "".join(texts) == "one\n\ntwo"


def test_sealed_state_goes_to_clients_that_send_it_back() -> None:
    state = ReasoningState("x", "y")
    events, _ = finished(Reasoning("hm"), state, Text("a"))
    details = [delta for delta in deltas_of(render(events, ROUTER_CLIENT)) if len(delta) == 1]
    [sealed] = [delta for delta in details if "reasoning_details" in delta]
    assert sealed["reasoning_details"][0]["data"] == "ap2.sealed"
    assert not any("reasoning_details" in delta for delta in deltas_of(render(events)))
    without, _ = finished(Text("a"))
    others = deltas_of(render(without, ROUTER_CLIENT))
    assert not any("reasoning_details" in delta for delta in others)


@pytest.mark.parametrize(("profile", "member"), [(SDK, "refusal"), (OTHER, "content")])
def test_a_refusal_is_where_the_client_looks_for_it(profile: Profile, member: str) -> None:
    events, made = finished(Refusal("no"))
    assert {member: "no"} in deltas_of(render(events, profile))
    message = json.loads(render_whole(made.snapshot, request(), profile))["choices"][0]["message"]
    assert message[member] == "no"


def test_a_refusal_as_content_does_not_run_into_the_text_before_it() -> None:
    events, made = finished(Text("Well"), Refusal("I can"), Refusal("not."))
    content = [delta["content"] for delta in deltas_of(render(events)) if "content" in delta]
    assert "".join(content) == "Well\n\nI cannot."
    [choice] = json.loads(render_whole(made.snapshot, request(), OTHER))["choices"]
    assert choice["message"]["content"] == "Well\n\nI cannot."


def test_a_call_has_its_name_once_and_its_arguments_as_they_arrive() -> None:
    events, _ = finished(
        ToolCall(index=0, call_id="c1", name="get_weather", arguments='{"a"'),
        ToolCall(index=0, arguments=": 1}"),
        ToolCall(index=1, call_id="c2", name="exec", arguments='{"input": "ls"}'),
        reason="tool_calls",
    )
    chunks = render(events)
    calls = [delta["tool_calls"][0] for delta in deltas_of(chunks) if "tool_calls" in delta]
    assert calls[0] == {
        "index": 0,
        "id": write_call_id("c1", "fc_n1"),
        "type": "function",
        "function": {"name": "get_weather", "arguments": ""},
    }
    first = [call for call in calls[1:] if call["index"] == 0]
    assert "".join(call["function"]["arguments"] for call in first) == '{"a": 1}'
    named, *rest = [call for call in calls if call["index"] == 1]
    assert (named["type"], named["custom"]["name"]) == ("custom", "exec")
    assert "".join(call["custom"]["input"] for call in rest) == "ls"
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_a_client_that_sends_functions_gets_one_function_call() -> None:
    """It knows no `tool_calls`: the API had one call in a message then."""
    old = structs.replace(request(), raw={"functions": [{"name": "f"}]})
    events, made = finished(
        ToolCall(index=0, call_id="c1", name="f", arguments='{"a": 1}'),
        reason="tool_calls",
    )
    chunks = chunks_of(ChatRenderer(old, OTHER), events)
    calls = [delta["function_call"] for delta in deltas_of(chunks) if "function_call" in delta]
    assert calls[0] == {"name": "f", "arguments": ""}
    assert "".join(call["arguments"] for call in calls) == '{"a": 1}'
    assert chunks[-1]["choices"][0]["finish_reason"] == "function_call"
    assert "tool_calls" not in str(chunks)
    [choice] = json.loads(render_whole(made.snapshot, old, OTHER))["choices"]
    assert choice["finish_reason"] == "function_call"
    assert choice["message"] == {
        "role": "assistant",
        "content": None,
        "refusal": None,
        "function_call": {"name": "f", "arguments": '{"a": 1}'},
    }
    text, _ = finished(Text("hi"))
    assert chunks_of(ChatRenderer(old, OTHER), text)[-1]["choices"][0]["finish_reason"] == "stop"


def test_a_call_without_arguments_has_an_empty_object() -> None:
    events, made = finished(
        ToolCall(index=0, call_id="c1", name="get_weather"), reason="tool_calls"
    )
    calls = [delta["tool_calls"][0] for delta in deltas_of(render(events)) if "tool_calls" in delta]
    assert "".join(call["function"]["arguments"] for call in calls) == "{}"
    message = json.loads(render_whole(made.snapshot, request(), OTHER))["choices"][0]["message"]
    assert message["tool_calls"][0]["function"]["arguments"] == "{}"
    assert message["content"] is None


def test_a_call_whose_arguments_are_not_streamed_has_them_in_the_end() -> None:
    arguments = '{"commands": ["ls"]}'
    events, _ = finished(ToolCall(index=0, call_id="c1", name="shell", arguments=arguments))
    calls = [delta["tool_calls"][0] for delta in deltas_of(render(events)) if "tool_calls" in delta]
    assert [call["function"].get("name") for call in calls] == ["shell", None]
    assert json.loads(calls[1]["function"]["arguments"])["commands"] == ["ls"]


def test_an_empty_piece_of_arguments_is_no_chunk() -> None:
    renderer = ChatRenderer(request(), OTHER)
    assert renderer.feed(EventBatch(0, [ArgumentsDelta("fc_1", 0, "")])) == b""


def test_a_citation_is_nested_under_its_type() -> None:
    events, made = finished(Text("a"), Annotation(CITATION))
    nested = {name: value for name, value in CITATION.items() if name != "type"}
    rendered = {"type": "url_citation", "url_citation": nested}
    assert {"annotations": [rendered]} in deltas_of(render(events))
    message = json.loads(render_whole(made.snapshot, request(), OTHER))["choices"][0]["message"]
    assert message["annotations"] == [rendered]


def test_all_citations_of_a_text_are_in_one_chunk() -> None:
    second = {**CITATION, "url": "https://b"}
    events, _ = finished(Text("a"), Annotation(CITATION), Text("b"), Annotation(second))
    [chunk] = [delta for delta in deltas_of(render(events)) if "annotations" in delta]
    urls = [each["url_citation"]["url"] for each in chunk["annotations"]]
    assert urls == ["https://a", "https://b"]


def test_the_citations_of_several_texts_are_joined_by_the_official_client() -> None:
    from openai.lib.streaming.chat import ChatCompletionStreamState
    from openai.types.chat import ChatCompletionChunk

    cited = Annotation(CITATION)
    events, made = finished(Text("a"), cited, ItemEnd(), Text("b"), cited, cited)
    renderer = ChatRenderer(request(), SDK)
    state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
    frames = renderer.feed(EventBatch(0, events)).split(b"\n\n")[:-1]
    for frame in frames:
        chunk = json.loads(frame.removeprefix(b"data: "))
        state.handle_chunk(ChatCompletionChunk.model_validate(chunk))
    [choice] = state.get_final_completion().choices
    whole = json.loads(render_whole(made.snapshot, request(), SDK))["choices"][0]["message"]
    joined = [each.url_citation.model_dump() for each in choice.message.annotations or ()]
    assert joined == [each["url_citation"] for each in whole["annotations"]]
    assert len(joined) == 3


@pytest.mark.parametrize(
    "other",
    [
        {"type": "file_citation", "file_id": "f", "filename": "a.pdf", "index": 1},
        {"type": "url_citation", "title": "without an address"},
    ],
)
def test_a_citation_that_the_format_does_not_have_is_left_out(other: dict[str, Any]) -> None:
    events, made = finished(Text("a"), Annotation(other))
    assert not any("annotations" in delta for delta in deltas_of(render(events)))
    message = json.loads(render_whole(made.snapshot, request(), OTHER))["choices"][0]["message"]
    assert "annotations" not in message


def test_log_probabilities_are_beside_their_text() -> None:
    token = {"token": "a", "logprob": -0.1, "bytes": [97], "top_logprobs": []}
    events, made = finished(Text("a", logprobs=(token,)))
    [choice] = [chunk["choices"][0] for chunk in render(events) if chunk["choices"][0]["logprobs"]]
    assert choice["logprobs"] == {"content": [token], "refusal": None}
    whole = json.loads(render_whole(made.snapshot, request(), OTHER))["choices"][0]
    assert whole["logprobs"] == {"content": [token], "refusal": None}


def test_a_failure_is_an_error_and_nothing_follows_it() -> None:
    made = machine()
    events = [*made.start(), *made.feed(Text("half")), *made.fail(protocol_fault("broken"))]
    renderer = ChatRenderer(request(), OTHER)
    data = renderer.feed(EventBatch(0, events)) + renderer.close()
    last = json.loads(data.decode().strip().rpartition("data: ")[2])
    assert set(last) == {"error"}
    assert last["error"]["code"] == "server_error"
    assert b"[DONE]" not in data
    assert b'"finish_reason":"' not in data
    silent = Failed(Response(id="resp_1", created_at=0, model="m"))
    assert b"server_error" in ChatRenderer(request(), OTHER).feed(EventBatch(0, [silent]))


@pytest.mark.parametrize(
    ("reason", "finish"), [("max_output_tokens", "length"), ("content_filter", "content_filter")]
)
def test_an_incomplete_response_says_why(reason: str, finish: str) -> None:
    response = Response(
        id="resp_1", created_at=0, model="m", incomplete_details=IncompleteDetails(reason)
    )
    assert finish_reason(response) == finish
    [chunk] = [
        c
        for c in render([*machine().start(), Incomplete(response)])
        if c["choices"][0]["finish_reason"]
    ]
    assert chunk["choices"][0]["finish_reason"] == finish


def test_a_whole_response_has_everything_in_one_message() -> None:
    events, made = finished(
        Reasoning("hm"),
        ReasoningState("x", "y"),
        Text("It is warm."),
        ToolCall(index=0, call_id="c1", name="get_weather", arguments="{}"),
        Usage(input_tokens=1, output_tokens=2),
        reason="tool_calls",
    )
    document = json.loads(render_whole(made.snapshot, request(), OTHER))
    [choice] = document["choices"]
    assert document["object"] == "chat.completion"
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] == "It is warm."
    assert choice["message"]["reasoning_content"] == choice["message"]["reasoning"] == "hm"
    assert choice["message"]["reasoning_details"][0]["data"] == "ap2.sealed"
    assert read_call_id(choice["message"]["tool_calls"][0]["id"]).call_id == "c1"
    assert document["usage"]["total_tokens"] == 3
    assert events


def test_a_summary_is_the_reasoning_of_a_whole_response_without_raw_text() -> None:
    _, made = finished(*SUMMARY)
    message = json.loads(render_whole(made.snapshot, request(), OTHER))["choices"][0]["message"]
    assert message["reasoning"] == "one\n\ntwo"


def test_calls_of_every_type_are_functions_of_this_format() -> None:
    fields: dict[str, Any] = {"id": "i", "call_id": "c", "status": "completed"}
    calls = [
        read_call(ShellCall(action={"commands": []}, **fields)),
        read_call(LocalShellCall(action={"command": []}, **fields)),
        read_call(ApplyPatchCall(operation={"type": "x"}, **fields)),
        read_call(ToolSearchCall(arguments={"query": "q"}, **fields)),
        read_call(FunctionCall(name="f", **fields)),
    ]
    assert calls == [
        Call("i", "c", "shell", '{"commands":[]}'),
        Call("i", "c", "local_shell", '{"command":[]}'),
        Call("i", "c", "apply_patch", '{"operation":{"type":"x"}}'),
        Call("i", "c", "tool_search", '{"query":"q"}'),
        Call("i", "c", "f", "{}"),
    ]
    cut = FunctionCall(id="i", call_id="c", status="incomplete", name="f")
    assert read_call(cut) == Call("i", "c", "f", "")
    assert read_call({"type": "web_search_call"}) is None


def test_the_id_is_that_of_the_response() -> None:
    assert completion_id(Response(id="resp_ab", created_at=0, model="m")) == "chatcmpl-ab"
    assert msgspec.json.encode(completion_id(Response(id="x", created_at=0, model="m")))


def test_the_id_of_a_call_carries_state_that_may_not_be_stored() -> None:
    call = ToolCall(index=0, call_id="c1", name="get_weather", arguments="{}")
    events, made = finished(
        Reasoning("a"), ReasoningState("x", "y"), Text("b"), ReasoningState("x", "z"), call
    )
    unstored = Request(raw={}, model="m", stream=True, state_carrier="call_ids")
    whole = json.loads(render_whole(made.snapshot, unstored, OTHER))["choices"][0]["message"]
    renderer = ChatRenderer(unstored, OTHER)
    data = renderer.feed(EventBatch(0, events))
    key = read_call_id(whole["tool_calls"][0]["id"])
    assert key.sealed == (("ap2.sealed",), ("ap2.sealed",))
    assert f'"id":"{whole["tool_calls"][0]["id"]}"'.encode() in data


def test_state_that_is_too_long_for_an_id_is_left_out() -> None:
    made = machine(seal=lambda states, text: "ap2." + "x" * 1000)
    made.start()
    made.feed(Reasoning("a"))
    made.feed(ToolCall(index=0, call_id="c1", name="f", arguments="{}"))
    made.finish()
    unstored = Request(raw={}, model="m", state_carrier="call_ids")
    whole = json.loads(render_whole(made.snapshot, unstored, OTHER))["choices"][0]["message"]
    assert read_call_id(whole["tool_calls"][0]["id"]).sealed == ((), ())
