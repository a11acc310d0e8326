"""Mistral's own validator accepts the order of messages, wherever the instructions are."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations, product
from typing import Any

from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.protocol.instruct.validator import ValidationMode, get_validator
from mistral_common.tokens.tokenizers.base import TokenizerVersion

from antiphon.config import Config
from antiphon.providers.registry import build_providers
from tests.support.outbound_requests import encode_request
from tests.support.tables import table

MISTRAL = build_providers(Config(), {"MISTRAL_API_KEY": "k"})["mistral"]
VALIDATOR = get_validator(TokenizerVersion.v13, ValidationMode.serving)
TOOLS = [{"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}]

DEVELOPER = ({"role": "developer", "content": "Be brief."},)
USER = ({"role": "user", "content": "Hello"},)
ASSISTANT = ({"role": "assistant", "content": "Hi."},)
CALL = (
    {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "call_1", "output": "nothing"},
)


def join(turns: Iterable[tuple[dict[str, Any], ...]]) -> list[dict[str, Any]]:
    """The items of a thread; each call has an id of its own."""
    return [
        {**item, "call_id": f"call_{number}"} if "call_id" in item else item
        for number, turn in enumerate(turns)
        for item in turn
    ]


def validate(items: list[dict[str, Any]], **more: Any) -> None:
    body = encode_request(MISTRAL, input=items, tools=TOOLS, **more)
    messages = body["messages"]
    request = ChatCompletionRequest.from_openai(
        messages,
        body["tools"],
        continue_final_message=messages[-1].get("prefix", False),
        model=body["model"],
    )
    VALIDATOR.validate_request(request)


@table("instructions", [None, "Be kind."])
@table("turns", [*permutations([DEVELOPER, USER, ASSISTANT, CALL, DEVELOPER])])
def test_instructions_are_accepted_after_any_message(
    turns: tuple[tuple[dict[str, Any], ...], ...], instructions: str | None
) -> None:
    items = [*USER, *join(turns)]  # the validator does not count the calls of a first message
    validate(items, instructions=instructions)
    assert len(items) == 7


@table("turns", [*product([DEVELOPER, USER, ASSISTANT, CALL], repeat=3)])
def test_a_long_thread_is_accepted(turns: tuple[tuple[dict[str, Any], ...], ...]) -> None:
    items = join(turns)
    validate([*USER, *items, *USER])
    assert items
