"""The answer of the compact endpoint: user messages in one form, then the compaction item."""

from __future__ import annotations

from typing import Any

from antiphon.core.compaction.compacted_response import compacted_response, find_compaction
from antiphon.core.response import Response, ResponseUsage

ITEM = {"type": "compaction", "id": "cmp_1", "encrypted_content": "x"}
USAGE = ResponseUsage(input_tokens=3, output_tokens=4, total_tokens=7)


def response(*output: Any) -> Response:
    return Response(id="resp_1", created_at=5, model="m", output=output, usage=USAGE)


def test_the_compaction_item_of_a_response_is_found() -> None:
    assert find_compaction(response({"type": "web_search_call"}, ITEM)) == ITEM
    assert find_compaction(response()) is None


def test_the_output_has_the_messages_of_the_user_and_the_item() -> None:
    picture = {"type": "input_image", "image_url": "https://x.test/a.png"}
    items: list[dict[str, Any]] = [
        {"role": "user", "content": "Hello?"},
        {"role": "assistant", "content": "Hi."},
        {"type": "message", "role": "user", "id": "msg_7", "content": [picture]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"role": "user", "content": None},
    ]
    found = compacted_response(items, ITEM, response(ITEM), lambda prefix: f"{prefix}_new")
    user = {"type": "message", "role": "user", "status": "completed"}
    assert found == {
        "id": "resp_1",
        "object": "response.compaction",
        "created_at": 5,
        "output": [
            {"id": "msg_new", **user, "content": [{"type": "input_text", "text": "Hello?"}]},
            {"id": "msg_7", **user, "content": [picture]},
            {"id": "msg_new", **user, "content": []},
            ITEM,
        ],
        "usage": USAGE,
    }
