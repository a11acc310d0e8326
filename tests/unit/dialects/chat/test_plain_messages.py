"""Messages without tools, with user and assistant in alternation."""

from __future__ import annotations

from typing import Any

from antiphon.dialects.chat.plain_messages import flatten_messages


def message(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


CALL = {"id": "1", "type": "function", "function": {"name": "look", "arguments": '{"a": 1}'}}


def test_consecutive_messages_of_one_role_are_merged() -> None:
    flattened = flatten_messages(
        [
            message("system", "a"),
            message("developer", "b"),
            message("user", "c"),
            message("system", "d"),
            message("assistant", "e"),
            message("assistant", "f"),
        ]
    )
    assert flattened == [
        message("system", "a"),
        message("user", "b\n\nc\n\nd"),
        message("assistant", "e\n\nf"),
    ]


def test_calls_and_results_become_text() -> None:
    flattened = flatten_messages(
        [
            message("user", "look!"),
            message("assistant", None, tool_calls=[CALL], reasoning_content="hm"),
            message("tool", "rain", tool_call_id="1"),
            message("assistant", "I saw.", tool_calls=[CALL]),
            message("tool", [{"type": "text", "text": "sun"}, {"type": "image_url"}]),
            message("tool", ""),
        ]
    )
    assert flattened == [
        message("user", "look!"),
        message("assistant", '[called look with {"a": 1}]'),
        message("user", "[a tool answered]: rain"),
        message("assistant", 'I saw.\n\n[called look with {"a": 1}]'),
        message("user", "[a tool answered]: sun\n\n[a tool answered]: [nothing]"),
    ]


def test_the_first_message_is_the_users() -> None:
    assert [each["role"] for each in flatten_messages([message("assistant", "hi")])] == [
        "user",
        "assistant",
    ]
    assert [each["role"] for each in flatten_messages([message("system", "s")])] == [
        "system",
        "user",
    ]


def test_images_stay_beside_text() -> None:
    picture = {"type": "image_url", "image_url": {"url": "u"}}
    flattened = flatten_messages([message("user", "look"), message("user", [picture])])
    assert flattened == [message("user", [{"type": "text", "text": "look"}, picture])]


def test_empty_content_gets_a_placeholder() -> None:
    assert flatten_messages([message("user", "")]) == [message("user", "[nothing]")]
