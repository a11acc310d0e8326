"""Content blocks of a Messages request as canonical items."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from antiphon.dialects.anthropic.message_ids import wrap_call_id
from antiphon.dialects.anthropic.parse_blocks import read_messages, read_system
from antiphon.errors import InvalidRequest
from tests.support.tables import table

Document = dict[str, Any]
CACHE = {"cache_control": {"type": "ephemeral"}}
CAPSULE = "ap2.AAAA"


def read(*messages: Any) -> list[Document]:
    return [*read_messages(list(messages))]


def user(*blocks: Any) -> list[Document]:
    return read({"role": "user", "content": list(blocks)})


def assistant(*blocks: Any) -> list[Document]:
    return read({"role": "assistant", "content": list(blocks)})


def text(content: str, **members: Any) -> Document:
    return {"type": "text", "text": content, **members}


def extra(**members: Any) -> Document:
    return {"extra": {"format": "messages", "members": members}}


# --- system ---------------------------------------------------------------------------------------


def test_each_block_of_the_system_prompt_is_a_message() -> None:
    one = {"type": "message", "role": "system"}
    assert [*read_system("Be.")] == [
        {**one, "content": [{"type": "input_text", "text": "Be."}], "place": [-1, 0]}
    ]
    assert [*read_system([text("a"), text("b", **CACHE)])] == [
        {**one, "content": [{"type": "input_text", "text": "a"}], "place": [-1, 0]},
        {**one, "content": [{"type": "input_text", "text": "b", **CACHE}], "place": [-1, 1]},
    ]
    assert [*read_system(None)] == [*read_system([])] == []


def test_the_billing_line_is_for_a_provider_of_the_format_only() -> None:
    line = text("x-anthropic-billing-header: cc_version=2.1.326;")
    [item] = read_system([line])
    assert item == {
        "type": "client_block",
        "format": "messages",
        "block": line,
        "role": "system",
        "hint": True,
        "place": [-1, 0],
    }


# --- messages -------------------------------------------------------------------------------------


def test_a_string_is_one_block_of_text() -> None:
    assert read({"role": "user", "content": "hi"}) == user(text("hi"))
    assert read({"role": "user", "content": []}) == []


def test_consecutive_parts_are_one_item_and_others_stand_between_them() -> None:
    result = {"type": "tool_result", "tool_use_id": "a", "content": "1"}
    items = user(text("x"), text("y"), result, text("z"))
    assert [(item["type"], item["place"]) for item in items] == [
        ("message", [0, 0]),
        ("function_call_output", [0, 2]),
        ("message", [0, 3]),
    ]
    assert [part["text"] for part in items[0]["content"]] == ["x", "y"]


def test_text_of_the_assistant_is_output() -> None:
    [item] = assistant(text("a", citations=[]))
    part = {"type": "output_text", "text": "a", **extra(citations=[])}
    assert item == {"type": "message", "role": "assistant", "content": [part], "place": [0, 0]}


def test_citations_that_the_renderer_has_made_are_left_out() -> None:
    own = {"type": "web_search_result_location", "url": "u", "encrypted_index": ""}
    native = {**own, "encrypted_index": "E"}
    [item] = assistant(text("a", citations=[own, native]), text("b", citations=[own]))
    first, second = item["content"]
    assert first == {"type": "output_text", "text": "a", **extra(citations=[native])}
    assert second == {"type": "output_text", "text": "b"}


def test_a_system_message_keeps_its_position_and_its_members() -> None:
    message = {"role": "system", "content": "now", "output_config": {"effort": "low"}}
    [_, item] = read({"role": "user", "content": "hi"}, message)
    assert (item["role"], item["place"]) == ("system", [1, 0])
    assert item["extra"] == extra(output_config={"effort": "low"})["extra"]


def test_members_of_a_message_without_text_are_left_out() -> None:
    use = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
    [item] = read({"role": "assistant", "content": [use], "mood": 1})
    assert "extra" not in item


# --- thinking -------------------------------------------------------------------------------------


def thinking(thought: str, signature: str | None = "") -> Document:
    return {"type": "thinking", "thinking": thought, "signature": signature}


def reasoning(*thoughts: str) -> Document:
    content = [{"type": "reasoning_text", "text": thought} for thought in thoughts]
    return {"type": "reasoning", "summary": [], "content": content}


def test_a_capsule_in_a_signature_is_the_sealed_state() -> None:
    [item] = assistant(thinking("hm", CAPSULE))
    assert item == {**reasoning("hm"), "encrypted_content": CAPSULE, "place": [0, 0]}
    [empty] = assistant(thinking("", CAPSULE))
    assert empty == {**reasoning(), "encrypted_content": CAPSULE, "place": [0, 0]}


def test_a_compaction_of_the_gateway_is_one_and_another_stays_with_its_provider() -> None:
    own = {"type": "compaction", "content": "x", "encrypted_content": CAPSULE}
    [item] = assistant(own)
    assert item == {"type": "compaction", "encrypted_content": CAPSULE, "place": [0, 0]}
    [other] = assistant({"type": "compaction", "content": "A summary."})
    assert other["type"] != "compaction"


def test_blocks_before_the_one_with_the_capsule_belong_to_the_same_thought() -> None:
    items = assistant(thinking("a"), thinking("b", None), thinking("c", CAPSULE), thinking("d"))
    sealed = {**reasoning("a", "b", "c"), "encrypted_content": CAPSULE, "place": [0, 0]}
    assert items == [sealed, {**reasoning("d"), "place": [0, 3]}]


def test_a_signature_of_another_server_is_state_of_its_format() -> None:
    signed = thinking("b", "sig")
    state = {"scheme": "anthropic.thinking", "value": signed}
    assert assistant(thinking("a"), signed, text("x"))[:2] == [
        {**reasoning("a"), "place": [0, 0]},
        {**reasoning("b"), "states": [state], "place": [0, 1]},
    ]


def test_redacted_thinking_is_state_without_text() -> None:
    redacted = {"type": "redacted_thinking", "data": "d"}
    state = {"scheme": "anthropic.redacted_thinking", "value": redacted}
    sealed = {"type": "redacted_thinking", "data": CAPSULE}
    assert assistant(redacted, sealed) == [
        {**reasoning(), "states": [state], "place": [0, 0]},
        {**reasoning(), "encrypted_content": CAPSULE, "place": [0, 1]},
    ]


# --- calls and results ----------------------------------------------------------------------------


def test_a_call_gets_back_the_id_of_its_provider() -> None:
    wrapped = wrap_call_id("call_0", "resp_1", 0)
    use = {"type": "tool_use", "id": wrapped, "name": "f", "input": {"a": 1}, "caller": {}, **CACHE}
    [call] = assistant(use)
    assert call == {
        "type": "function_call",
        "call_id": "call_0",
        "name": "f",
        "arguments": '{"a":1}',
        **CACHE,
        **extra(caller={}),
        "place": [0, 0],
    }
    [result] = user({"type": "tool_result", "tool_use_id": wrapped})
    assert (result["call_id"], result["output"]) == ("call_0", None)


def test_a_result_has_parts_and_may_be_an_error() -> None:
    content = [text("a"), {"type": "tool_reference", "tool_name": "Look"}]
    block = {"type": "tool_result", "tool_use_id": "a", "content": content, "is_error": True}
    [result] = user({**block, "x": 1})
    assert result["output"] == [
        {"type": "input_text", "text": "a"},
        {"type": "tool_reference", "name": "Look"},
    ]
    assert result["is_error"] is True
    assert result["extra"] == extra(x=1)["extra"]


# --- parts ----------------------------------------------------------------------------------------


def part(block: Document) -> Document:
    [item] = user(block)
    [found] = item["content"]
    assert isinstance(found, dict)
    return found


@table(
    ("source", "url"),
    [
        (
            {"type": "base64", "media_type": "image/png", "data": "AA=="},
            "data:image/png;base64,AA==",
        ),
        ({"type": "url", "url": "https://x.test/1.png"}, "https://x.test/1.png"),
    ],
)
def test_an_image_is_an_image(source: Document, url: str) -> None:
    found = part({"type": "image", "source": source, **CACHE, "alt": "a"})
    assert found == {"type": "input_image", "image_url": url, **CACHE, **extra(alt="a")}


@table(
    ("source", "members"),
    [
        (
            {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
            {"file_data": "data:application/pdf;base64,JVBERi0="},
        ),
        (
            {"type": "text", "media_type": "text/plain", "data": "é"},
            {"file_data": f"data:text/plain;base64,{base64.b64encode('é'.encode()).decode()}"},
        ),
        (
            {"type": "url", "url": "https://x.test/a"},
            {"file_url": "https://x.test/a", "media_type": "application/pdf"},
        ),
        ({"type": "file", "file_id": "file_1"}, {"file_id": "file_1"}),
    ],
)
def test_a_document_is_a_file(source: Document, members: Document) -> None:
    block = {"type": "document", "source": source}
    assert part(block) == {"type": "input_file", **members}
    about = {"title": "t", "context": "c", "citations": {"enabled": True}}
    expected = {"filename": "t", "context": "c", "citations": True}
    assert part({**block, **about}) == {"type": "input_file", **members, **expected}
    assert part({**block, "citations": {}})["extra"] == extra(citations={})["extra"]


@table(
    ("block", "shown"),
    [
        ({"type": "image", "source": {"type": "file", "file_id": "file_1"}}, None),
        ({"type": "tool_reference"}, None),
        ({"type": "hologram", "content": 7}, None),
        (
            {"type": "document", "source": {"type": "content", "content": [text("a"), text("b")]}},
            "a\nb",
        ),
        (
            {"type": "search_result", "title": "t", "content": [text("a"), 7]},
            "t\na",
        ),
        ({"type": "hologram", "content": "seen"}, "seen"),
    ],
)
def test_any_other_block_is_kept_with_its_text(block: Document, shown: str | None) -> None:
    about = {} if shown is None else {"text": shown}
    expected = {"type": "client_block", "format": "messages", "block": block}
    assert part(block) == {**expected, **about}


def test_blocks_of_server_tools_are_items_of_the_assistant() -> None:
    use = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    items = assistant(text("a"), use, text("b"))
    assert [item["type"] for item in items] == ["message", "client_block", "message"]
    assert items[1] == {
        "type": "client_block",
        "format": "messages",
        "block": use,
        "role": "assistant",
        "place": [0, 1],
    }


def test_a_breakpoint_of_another_type_is_an_unknown_member() -> None:
    odd = {"cache_control": {"type": "eternal"}}
    assert part(text("a", **odd)) == {"type": "input_text", "text": "a", **extra(**odd)}
    assert part(text("a", cache_control=None)) == {"type": "input_text", "text": "a"}


# --- errors ---------------------------------------------------------------------------------------


@table(
    ("message", "problem"),
    [
        ("hi", "messages.0: Input should be an object, not a string"),
        (
            {"role": "tool", "content": ""},
            "messages.0.role: Input should be 'user', 'assistant' or 'system'",
        ),
        ({"role": "user"}, "messages.0.content: Field required"),
        (
            {"role": "user", "content": 7},
            "messages.0.content: Input should be a string or a list",
        ),
        (
            {"role": "user", "content": ["hi"]},
            "messages.0.content.0: Input should be an object, not a string",
        ),
        ({"role": "user", "content": [{}]}, "messages.0.content.0.type: Field required"),
        (
            {"role": "user", "content": [{"type": "text"}]},
            "messages.0.content.0.text: Field required",
        ),
        (
            {"role": "assistant", "content": [{"type": "tool_use", "name": "f"}]},
            "messages.0.content.0.id: Field required",
        ),
        (
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a"}]},
            "messages.0.content.0.name: Field required",
        ),
        (
            {"role": "user", "content": [{"type": "tool_result"}]},
            "messages.0.content.0.tool_use_id: Field required",
        ),
        (
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "a", "content": [7]}],
            },
            "messages.0.content.0.content.0: Input should be an object, not an integer",
        ),
    ],
)
def test_an_error_names_the_path(message: Any, problem: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(message)
    assert caught.value.message == problem
    assert caught.value.param == problem.partition(":")[0]


def test_a_system_prompt_is_a_string_or_a_list() -> None:
    with pytest.raises(InvalidRequest) as caught:
        [*read_system(7)]
    assert caught.value.message == "system: Input should be a string or a list, not an integer"
