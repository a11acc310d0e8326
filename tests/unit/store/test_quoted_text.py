"""Quotes of a request are found in a message, however they are written, at bounded cost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.store import quoted_text
from antiphon.store.quoted_text import QUOTED, WITHHELD, read_texts
from tests.support.tables import table

PROMPT = 'My sister Ottilie hides\nthe spare "key" below the third flower pot: C:\\new\\déjà.'


def remove_quotes(message: str, request: bytes, *, names: bool = False) -> str:
    return quoted_text.remove_quotes(message, read_texts(request, names=names))


def body(*contents: Any, **more: Any) -> bytes:
    messages = [{"role": "user", "content": content} for content in contents]
    return json.dumps({"model": "deepseek-v4-pro", "messages": messages, **more}).encode()


@table(
    "quote",
    [
        PROMPT,
        PROMPT.upper().replace("É", "é").replace("À", "à"),
        repr(PROMPT),
        json.dumps(PROMPT),
        json.dumps(json.dumps(PROMPT)),
        PROMPT.replace("\n", " "),
        PROMPT[5:40],
        " ".join(PROMPT),
    ],
    ids="plain upper repr json json-in-json one-line part spaced".split(),
)
def test_a_quote_is_replaced_however_it_is_written(quote: str) -> None:
    cleaned = remove_quotes(f"Refused: <{quote}> is not allowed.", body(PROMPT))
    assert cleaned.startswith("Refused: <")
    assert cleaned.endswith("> is not allowed.")
    assert QUOTED in cleaned
    for word in ("Ottilie", "sister", "flower", "spare", "O t t i l i e"):
        assert word.lower() not in cleaned.lower()


def test_the_provider_s_own_words_stay() -> None:
    message = (
        "Unsupported value: tool_choice 'required' is not supported by model `deepseek-v4-pro`;"
        " max_completion_tokens must be at most 8192. Tool look_up is missing a description."
    )
    request = body(
        PROMPT,
        tool_choice="required",
        max_completion_tokens=9000,
        tools=[{"type": "function", "function": {"name": "look_up"}}],
    )
    assert remove_quotes(message, request) == message


def test_a_short_text_is_removed_where_it_stands_as_a_word() -> None:
    assert remove_quotes("'hunter' is weak; hunters are fine", body("hunter")) == (
        f"'{QUOTED}' is weak; hunters are fine"
    )


def test_a_word_with_digits_is_removed_although_it_is_short() -> None:
    request = body("Call me at 555-0199 or mail to ada99@example.org, please. " * 3)
    cleaned = remove_quotes(
        "bad number 5550199 and bad mail ada99@example.org, limit 8192", request
    )
    assert cleaned == f"bad number {QUOTED} and bad mail {QUOTED}, limit 8192"


def test_a_run_of_base64_is_removed_and_costs_no_search() -> None:
    image = "iVBORw0KGgo" * 200_000
    request = body([{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}}])
    assert remove_quotes(f"cannot read {image[:100]}", request) == f"cannot read {QUOTED}"


def test_names_are_removed_where_that_is_asked_for() -> None:
    request = json.dumps({"input": {"canary-prompt-51ab": 1}, "role": "canary-role-77fe"}).encode()
    message = "unknown canary-prompt-51ab, role canary-role-77fe"
    assert remove_quotes(message, request, names=True) == f"unknown {QUOTED}, role {QUOTED}"
    assert "canary-prompt" in remove_quotes("unknown field canary-prompt-51xy", request)


def test_a_body_that_is_not_json_counts_as_one_text() -> None:
    assert remove_quotes("bad: Ottilie hides it there", b"{ Ottilie hides it there") == (
        f"bad: {QUOTED}"
    )


@pytest.mark.parametrize(
    "request_body",
    [
        body("word " * 1_000_000),
        body(*["x"] * 30_000),
        b"[" + b"0," * 300_000 + b"0]",
        b" " * 2**24,
    ],
    ids=["much text", "many strings", "many values", "a large body"],
)
def test_a_request_too_large_to_search_has_its_message_withheld(request_body: bytes) -> None:
    assert remove_quotes("anything at all", request_body) == WITHHELD


def test_repetitive_text_is_removed_at_bounded_cost() -> None:
    """Every place of the message matches every place of the request, but never for long."""
    message = "aaaaaaaab" * 450
    request = body("aaaaaaaac" * 400_000)
    assert remove_quotes(message, request).count("a") < len(message)
    assert remove_quotes("a" * 4000, body("a" * 4_000_000)) == QUOTED
