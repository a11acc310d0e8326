"""Unit tests of the translator: requests out, events in, without any network."""

from __future__ import annotations

import json
from typing import Any

import pytest

import antiphon
from antiphon.core.capabilities import Capabilities
from antiphon.providers.spec import Spec

REQUEST: dict[str, Any] = {"model": "m", "input": "Hi", "stream": True}


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def answer(*deltas: dict[str, Any], finish: str = "stop") -> bytes:
    return b"".join(map(chunk, deltas)) + chunk({}, finish) + b"data: [DONE]\n\n"


def test_the_outbound_request_is_the_providers() -> None:
    translator = antiphon.Translator(REQUEST, provider="anthropic", model="claude-sonnet-4-5")
    assert translator.outbound.method == "POST"
    assert translator.outbound.path == "/v1/messages"
    body = json.loads(translator.outbound.body)
    assert body["model"] == "claude-sonnet-4-5"
    assert body["stream"] is True


def test_events_come_with_the_bytes_of_the_answer() -> None:
    translator = antiphon.Translator(REQUEST, provider="deepseek")
    events = translator.feed(chunk({"content": "Hel"}))
    assert [event["delta"] for event in events if "delta" in event] == ["Hel"]
    assert translator.response["status"] == "in_progress"
    events += translator.feed(answer({"content": "lo"})) + translator.close()
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert translator.ended
    assert antiphon.output_text(translator.response) == "Hello"
    assert translator.close() == []


def test_a_whole_answer_is_translated() -> None:
    message = {"role": "assistant", "content": "Hello"}
    body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
    translator = antiphon.Translator({**REQUEST, "stream": False}, provider="deepseek")
    events = translator.feed_whole(body.encode())
    assert events[-1]["type"] == "response.completed"
    assert antiphon.output_text(translator.response) == "Hello"


def test_calls_come_back_with_the_type_of_their_tool() -> None:
    tools = [{"type": "custom", "name": "patch"}, {"type": "local_shell"}]
    translator = antiphon.Translator({**REQUEST, "tools": tools}, provider="deepseek")
    function = {"name": "patch", "arguments": '{"input": "raw text"}'}
    call = {"index": 0, "id": "call_1", "type": "function", "function": function}
    translator.feed(answer({"tool_calls": [call]}, finish="tool_calls"))
    translator.close()
    [item] = translator.response["output"]
    assert (item["type"], item["input"]) == ("custom_tool_call", "raw text")


def test_output_that_breaks_its_contract_fails() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    form = {"type": "json_schema", "name": "n", "strict": True, "schema": schema}
    translator = antiphon.Translator({**REQUEST, "text": {"format": form}}, provider="deepseek")
    translator.feed(answer({"content": '{"a": "text"}'}))
    translator.close()
    assert translator.response["status"] == "failed"


def test_a_follow_up_corrects_the_answer() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    form = {"type": "json_schema", "name": "n", "strict": True, "schema": schema}
    request = {**REQUEST, "text": {"format": form}}
    translator = antiphon.Translator(request, provider="deepseek", follow_ups=True)
    first = translator.outbound
    translator.feed(answer({"content": '{"a": "text"}'}))
    translator.close()
    assert not translator.ended
    assert len(translator.outbound.body) > len(first.body)
    translator.feed(answer({"content": '{"a": 1}'}))
    translator.close()
    assert translator.response["status"] == "completed"
    assert antiphon.output_text(translator.response) == '{"a": 1}'


def test_leaked_markup_is_taken_out_of_the_answer_to_a_follow_up_too() -> None:
    spec = Spec(name="p", title="P", dialect="chat", capabilities=Capabilities(guards=("think",)))
    translator = antiphon.Translator(REQUEST, provider=spec, follow_ups=True)
    translator.feed(answer({"content": "<think>Hm."}))
    translator.close()
    assert not translator.ended
    translator.feed(answer({"content": "<think>So.</think>Hello"}))
    translator.close()
    assert antiphon.output_text(translator.response) == "Hello"


def test_a_broken_connection_ends_the_response() -> None:
    translator = antiphon.Translator(REQUEST, provider="deepseek")
    translator.feed(chunk({"content": "Hel"}))
    events = translator.fail("the connection was reset")
    assert events[-1]["type"] == "response.failed"
    assert translator.ended


def test_diagnostics_tell_what_was_dropped() -> None:
    translator = antiphon.Translator({**REQUEST, "presence_penalty": 1}, provider="anthropic")
    assert [each["param"] for each in translator.diagnostics] == ["presence_penalty"]


def test_an_unknown_provider_is_named() -> None:
    with pytest.raises(antiphon.InvalidRequest, match="'depseek' is unknown; did you mean"):
        antiphon.Translator(REQUEST, provider="depseek")


TOOL = {"type": "function", "name": "look", "parameters": {"type": "object"}}
CLAUDE = {
    "type": "message",
    "model": "claude-sonnet-4-5",
    "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}},
    ],
    "stop_reason": "tool_use",
}
GEMINI = {
    "candidates": [
        {
            "content": {
                "parts": [
                    {"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "c2ln"}
                ]
            },
            "finishReason": "STOP",
        }
    ]
}


def second_turn(provider: str, model: str, said: dict[str, Any], **options: Any) -> tuple[Any, Any]:
    """Two turns of a thread with a tool call; return the second request, and both translators."""
    request = {
        "model": model,
        "input": "Hi",
        "tools": [TOOL],
        "reasoning": {"effort": "medium"},
        "store": False,
    }
    first = antiphon.Translator(request, provider=provider, **options)
    first.feed_whole(json.dumps(said).encode())
    output = first.response["output"]
    [call] = [item for item in output if item["type"] == "function_call"]
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "rain"}
    asked = {"type": "message", "role": "user", "content": "Hi"}
    second = antiphon.Translator(
        {**request, "input": [asked, *output, result]}, provider=provider, **options
    )
    return json.loads(second.outbound.body), (first, second)


def codes(translator: antiphon.Translator) -> list[str]:
    return [diagnostic["code"] for diagnostic in translator.diagnostics]


def test_with_a_key_the_state_of_a_provider_comes_back_in_the_next_turn() -> None:
    keys = {"capsule_keys": ["a key that only tests use"]}
    body, translators = second_turn("anthropic", "claude-sonnet-4-5", CLAUDE, **keys)
    assert body["thinking"]["type"] == "enabled"
    [thinking, _] = body["messages"][1]["content"]
    assert thinking == {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    assert [codes(each) for each in translators] == [["usage.estimated"], []]
    body, _ = second_turn("gemini", "gemini-3-pro-preview", GEMINI, **keys)
    assert body["contents"][1]["parts"][0]["thoughtSignature"] == "c2ln"


def test_without_a_key_the_loss_of_state_is_reported() -> None:
    for provider, model, said in (
        ("anthropic", "claude-sonnet-4-5", CLAUDE),
        ("gemini", "gemini-3-pro-preview", GEMINI),
    ):
        body, (first, _) = second_turn(provider, model, said)
        assert "c2ln" not in json.dumps(body)
        assert "state.dropped" in codes(first)


def test_a_capsule_belongs_to_its_owner_and_nonces_may_be_given() -> None:
    request = {"model": "claude-sonnet-4-5", "input": "Hi", "reasoning": {"effort": "medium"}}
    nonces: list[int] = []

    def new_nonce(count: int) -> bytes:
        nonces.append(count)
        return bytes(count)

    def translate(owner: str, given: Any) -> antiphon.Translator:
        return antiphon.Translator(
            {**request, "input": given},
            provider="anthropic",
            capsule_keys=["k"],
            owner=owner,
            new_nonce=new_nonce,
        )

    first = translate("me", "Hi")
    content = [CLAUDE["content"][0], {"type": "text", "text": "Rain."}]
    first.feed_whole(json.dumps({**CLAUDE, "content": content, "stop_reason": "end_turn"}).encode())
    assert nonces == [12]
    again = [
        {"role": "user", "content": "Hi"},
        *first.response["output"],
        {"role": "user", "content": "And?"},
    ]
    assert "capsule.unused" not in codes(translate("me", again))
    assert "c2ln" not in json.dumps(json.loads(translate("them", again).outbound.body))
