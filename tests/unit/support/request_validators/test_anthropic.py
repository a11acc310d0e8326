"""The validator of Anthropic requests reports a violation of each rule."""

from __future__ import annotations

import json
from typing import Any

from tests.support.request_validators.anthropic import problems
from tests.support.tables import table

Body = dict[str, Any]

TEXT = {"type": "text", "text": "hi"}
USER = {"role": "user", "content": [TEXT]}
SAID = {"role": "assistant", "content": [TEXT]}
CALL = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "a", "content": [TEXT]}
THOUGHT = {"type": "thinking", "thinking": "", "signature": "s"}
REDACTED = {"type": "redacted_thinking", "data": "d"}
LOOK = {"name": "look", "description": "Look.", "input_schema": {"type": "object"}}
IMAGE = {"type": "image", "source": {"type": "url", "url": "https://x.test/1"}}
PDF = {"type": "base64", "media_type": "application/pdf", "data": "x"}
MARK = {"cache_control": {"type": "ephemeral"}}


def user(*blocks: Any) -> Body:
    return {"role": "user", "content": list(blocks)}


def model(*blocks: Any) -> Body:
    return {"role": "assistant", "content": list(blocks)}


def problems_of(*messages: Any, **fields: Any) -> list[str]:
    body = {"model": "m", "max_tokens": 2000, "tools": [LOOK], **fields, "messages": messages}
    return problems(json.dumps(body).encode())


@table(
    "messages",
    [
        [USER],
        [USER, SAID, USER],
        [USER, model(THOUGHT, REDACTED, TEXT, CALL), user(RESULT, TEXT)],
        [user(TEXT, IMAGE, {"type": "document", "source": PDF, "title": "a"})],
        [USER, model(CALL), user(RESULT | {"content": [IMAGE]} | MARK)],
    ],
)
def test_a_valid_request_has_no_problems(messages: list[Any]) -> None:
    system = [TEXT | MARK]
    assert problems_of(*messages, system=system, thinking={"type": "adaptive"}, stream=True) == []


@table(
    ("messages", "problem"),
    [
        ([], "there are no messages"),
        ([USER | {"name": "x"}], "bad keys of a message"),
        ([{"role": "system", "content": [TEXT]}], "bad role"),
        ([{"role": "user", "content": "hi"}], "there are no blocks"),
        ([user()], "there are no blocks"),
        ([user("hi")], "a None block"),
        ([user(CALL)], "a tool_use block in user"),
        ([USER, model(IMAGE), USER], "a image block in assistant"),
        ([user(TEXT | {"x": 1})], "bad keys of a text block"),
        ([user({"type": "text"})], "bad keys of a text block"),
        ([user(TEXT | {"cache_control": {}})], "a bad cache marker"),
        ([USER, model(THOUGHT | MARK, TEXT), USER], "a cache marker on thinking"),
        ([user(*[TEXT | MARK] * 5)], "too many cache markers"),
        ([user(TEXT | {"text": " \n"})], "an empty text"),
        ([USER, model(CALL | {"id": "a:0"}), user(RESULT)], "a bad id or name"),
        ([USER, model(CALL | {"name": "a.b"}), user(RESULT)], "a bad id or name"),
        ([USER, model(CALL | {"input": []}), user(RESULT)], "an input that is not an object"),
        ([USER, model(CALL), user(RESULT | {"content": []})], "there are no blocks"),
        ([USER, model(THOUGHT | {"signature": ""}, TEXT), USER], "without a signature"),
        ([USER, model(REDACTED | {"data": ""}, TEXT), USER], "without data"),
        ([user(IMAGE | {"source": {"type": "url", "url": "file:///x"}})], "a bad source"),
        ([user(IMAGE | {"source": {"type": "file", "file_id": "x"}})], "a bad source"),
        ([user(IMAGE | {"source": PDF})], "a bad source of a image"),
        ([user({"type": "document", "source": PDF, "title": ""})], "an empty title"),
        ([SAID, USER], "must be the user's"),
        ([USER, SAID], "must be the user's"),
        ([USER, USER], "two messages of one role"),
        ([USER, model(CALL), USER], "results [] to the calls ['a']"),
        ([user(RESULT)], "results ['a'] to the calls []"),
        ([USER, model(CALL), user(TEXT, RESULT)], "a result after another block"),
        ([USER, model(CALL, TEXT), user(RESULT)], "a block after a call"),
        ([USER, model(TEXT, THOUGHT), USER], "thinking at the end"),
        ([USER, model(CALL), user(RESULT), model(CALL), user(RESULT)], "two calls share an id"),
    ],
)
def test_a_bad_message_is_reported(messages: list[Any], problem: str) -> None:
    assert any(problem in found for found in problems_of(*messages))


ENABLED = {"type": "enabled", "budget_tokens": 1024}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}


@table(
    ("fields", "problem"),
    [
        ({"mood": 1}, "unknown key mood"),
        ({"model": None}, "model is not a string"),
        ({"system": []}, "system: there are no blocks"),
        ({"tools": []}, "and no tools"),
        ({"tools": None, "tool_choice": {"type": "auto"}}, "and no tools"),
        ({"tools": [LOOK, LOOK]}, "two tools share a name"),
        ({"tools": [LOOK | {"type": "function"}]}, "bad keys of a tool"),
        ({"tools": [LOOK | {"name": "a b"}]}, "bad tool name"),
        ({"tools": [LOOK | {"input_schema": {}}]}, "not a plain object"),
        (
            {"tools": [LOOK | {"input_schema": {"type": "object", "anyOf": []}}]},
            "not a plain object",
        ),
        ({"tools": [{"type": "web_search", "name": "web_search"}]}, "a bad tool"),
        ({"tool_choice": {"type": "required"}}, "bad tool choice"),
        ({"tool_choice": {"type": "tool", "name": "x"}}, "bad tool choice"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1000}}, "a budget out of bounds"),
        ({"thinking": {"type": "enabled", "budget_tokens": 2000}}, "a budget out of bounds"),
        ({"thinking": {"type": "loud"}}, "bad thinking"),
        ({"thinking": ENABLED, "tool_choice": {"type": "any"}}, "a forced choice"),
        ({"thinking": ENABLED, "temperature": 1}, "sampling while thinking"),
        ({"thinking": ENABLED, "top_p": 0.5}, "sampling while thinking"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"temperature": 1.5}, "out of bounds"),
        ({"top_p": 2}, "out of bounds"),
        ({"temperature": 1, "top_p": 1}, "together"),
        ({"output_config": {"x": 1}}, "bad output_config"),
        ({"metadata": {"x": 1}}, "bad metadata"),
    ],
)
def test_a_bad_field_is_reported(fields: Body, problem: str) -> None:
    assert any(problem in found for found in problems_of(USER, **fields))


def test_the_providers_own_search_may_be_chosen() -> None:
    choice = {"type": "tool", "name": "web_search"}
    assert problems_of(USER, tools=[SEARCH], tool_choice=choice) == []


def test_a_thinking_block_without_thinking_is_reported() -> None:
    history = [USER, model(THOUGHT, CALL), user(RESULT)]
    assert problems_of(*history, thinking={"type": "disabled"}) == [
        "thinking blocks while thinking is disabled"
    ]


@table(
    ("rounds", "good"),
    [
        ([model(THOUGHT, CALL)], True),
        ([model(CALL)], False),
        (
            [model(THOUGHT, CALL | {"id": "b"}), user(RESULT | {"tool_use_id": "b"}), model(CALL)],
            True,
        ),
        ([model(CALL | {"id": "b"}), user(RESULT | {"tool_use_id": "b"}), model(CALL)], False),
        ([model(THOUGHT, TEXT), USER, model(CALL)], False),
    ],
)
def test_a_turn_with_a_thinking_budget_must_begin_with_thinking(
    rounds: list[Any], good: bool
) -> None:
    found = problems_of(USER, *rounds, user(RESULT), thinking=ENABLED)
    assert found == ([] if good else ["a resumed turn without thinking"])


def test_messages_must_be_the_last_field_of_an_object() -> None:
    assert problems(b"[]") == ["the body is not an object"]
    body = json.dumps({"messages": [USER], "model": "m", "max_tokens": 1}).encode()
    assert problems(body) == ["messages must be the last field"]
