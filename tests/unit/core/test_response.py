"""The Response object: every field is sent, with the API's default."""

from __future__ import annotations

import msgspec

from antiphon.core.response import Response, ResponseUsage, text_of_output

NEW = Response(id="resp_1", created_at=7, model="m")


def test_a_new_response_has_every_field_of_the_api() -> None:
    document = msgspec.to_builtins(NEW)
    assert document == {
        "id": "resp_1",
        "object": "response",
        "created_at": 7,
        "completed_at": None,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "model": "m",
        "output": (),
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "conversation": None,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "prompt_cache_key": None,
        "reasoning": {"effort": None, "summary": None},
        "safety_identifier": None,
        "service_tier": "default",
        "store": True,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto",
        "tools": (),
        "top_logprobs": 0,
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None,
        "user": None,
        "metadata": {},
    }


def test_two_responses_share_no_mutable_default() -> None:
    other = Response(id="resp_2", created_at=7, model="m")
    assert NEW.text is not other.text
    assert NEW.reasoning is not other.reasoning
    assert NEW.metadata is not other.metadata


def test_usage_has_the_details_of_input_and_output() -> None:
    assert msgspec.to_builtins(ResponseUsage(input_tokens=2, output_tokens=1, total_tokens=3)) == {
        "input_tokens": 2,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 1,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 3,
    }


def test_the_text_of_an_output_is_that_of_its_messages() -> None:
    parts = [{"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "no"}]
    message = {"type": "message", "content": parts}
    assert text_of_output([message, {"type": "reasoning"}, message]) == "aa"
