"""Limits of a store, and turns as JSON."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import UNSET, structs

from antiphon.core.items import Document, Message, OutputText
from antiphon.core.response import Response
from antiphon.errors import StoreRefused
from antiphon.store.turn import StoreLimits, Turn, decode_turn, encode_response, encode_turn
from tests.support.tables import table
from tests.support.turns import turn


def test_a_turn_expires_after_its_time_to_live_or_never() -> None:
    assert StoreLimits(ttl_s=100).expiry(1000) == 1100
    assert StoreLimits(ttl_s=None).expiry(1000) is None


@table(
    ("ttl_s", "expires_at", "expected"),
    [(100, 1051, False), (100, 1050, True), (100, None, False), (None, 1001, False)],
)
def test_a_turn_needs_renewal_once_half_of_its_lifetime_is_over(
    ttl_s: int | None, expires_at: int | None, expected: bool
) -> None:
    assert StoreLimits(ttl_s=ttl_s).needs_renewal(expires_at, 1000) is expected


def test_a_decoded_turn_has_its_current_expiry() -> None:
    body = encode_turn(turn("a", expires_at=5), StoreLimits())
    assert decode_turn(body, 9) == turn("a", expires_at=9)


@table("limit", ["max_turn_bytes", "max_bytes"])
def test_a_turn_of_exactly_the_limit_is_accepted_and_a_larger_one_refused(limit: str) -> None:
    size = len(encode_turn(turn("a"), StoreLimits()))
    assert len(encode_turn(turn("a"), StoreLimits(**{limit: size}))) == size
    with pytest.raises(StoreRefused) as caught:
        encode_turn(turn("a"), StoreLimits(**{limit: size - 1}))
    assert caught.value.message == (
        f"Response 'a' cannot be stored: {size:,} bytes exceed the limit of {size - 1:,}."
        " Send `store: false`, or raise `max_turn_bytes` in [store]."
    )


def test_a_turn_that_cannot_be_encoded_is_refused_with_the_reason() -> None:
    with pytest.raises(StoreRefused, match=r"Response 'a' cannot be stored: .*object"):
        encode_turn(turn("a", input=({"x": object()},)), StoreLimits())
    with pytest.raises(StoreRefused, match=r"Response 'a' cannot be stored: .*object"):
        encode_response(Response(id="a", created_at=1, model="m", metadata={"x": object()}))


MESSAGE = Message(id="msg_1", status="completed", content=(OutputText("One"), OutputText(" two")))
RESPONSE = Response(
    id="resp_1",
    created_at=1,
    model="m",
    status="completed",
    output=(MESSAGE, {"type": "hosted", "id": "h_1"}),
    output_text="One two",
)


def to_document(response: Response) -> Document:
    return msgspec.json.decode(msgspec.json.encode(response), type=Document)


def turn_of(response: Response) -> Turn:
    output = tuple(msgspec.to_builtins(response.output))
    return turn(response.id, output=output, response=msgspec.to_builtins(response))


def test_a_stored_turn_has_its_output_once() -> None:
    stored = turn_of(RESPONSE)
    assert stored.encoded == encode_response(RESPONSE)
    body = encode_turn(stored, StoreLimits())
    assert body.count(b"One") == 1
    assert body.count(b"h_1") == 1


@table(
    "response",
    [
        RESPONSE,
        structs.replace(RESPONSE, output=(), output_text=""),
        structs.replace(RESPONSE, status="in_progress", output=(), output_text=UNSET),
        structs.replace(RESPONSE, output_text="Another text"),
    ],
)
def test_the_response_of_a_decoded_turn_is_as_it_was_sent(response: Response) -> None:
    loaded = decode_turn(encode_turn(turn_of(response), StoreLimits()), None)
    assert msgspec.json.encode(loaded.response) == msgspec.json.encode(response)


def test_a_turn_of_an_earlier_version_keeps_the_output_of_its_response_object() -> None:
    output = to_document(RESPONSE)["output"]
    body = msgspec.json.encode(
        {
            "id": "resp_1",
            "created_at": 1,
            "status": "completed",
            "model": "m",
            "provider": "p",
            "output": output,
            "response": RESPONSE,
        }
    )
    loaded = decode_turn(body, None)
    assert msgspec.json.encode(loaded.response) == msgspec.json.encode(RESPONSE)
    assert loaded.output == tuple(output)


def test_a_turn_with_another_response_object_has_its_status_and_output() -> None:
    changed = {**to_document(RESPONSE), "status": "failed", "output": [{"type": "x"}]}
    found = turn_of(RESPONSE).with_response(changed)
    assert (found.status, found.output, found.response) == ("failed", ({"type": "x"},), changed)


@table("conversation", [None, {"id": "conv_1"}])
def test_a_turn_knows_its_conversation(conversation: Document | None) -> None:
    response = structs.replace(RESPONSE, conversation=conversation)
    assert turn_of(response).conversation_id == (conversation and conversation["id"])
