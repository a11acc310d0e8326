"""`context_management` of Messages: a long context is compacted, for a provider that cannot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.core.compaction.request_summary import PROMPT
from tests.e2e.test_messages import messages_client
from tests.support.checked_gateway import checked_gateway
from tests.support.upstream import (
    DONE,
    Connection,
    ReceivedRequest,
    chunk,
    send_frames,
    send_json,
    usage,
)

EDITS: Any = {
    "edits": [{"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 2000}}]
}
LONG: Any = [
    {"role": "user", "content": "Remember the code."},
    {"role": "assistant", "content": "It is heron7. " + "And so on. " * 2000},
    {"role": "user", "content": "What is the code?"},
]
FIELDS = "decisions open_work files_touched last_user_wishes".split()
SUMMARY = {"goal": "Remember.", **dict.fromkeys(FIELDS, ()), "facts": ["the code is heron7"]}


async def model(request: ReceivedRequest, connection: Connection) -> None:
    """Summarizes, or answers with what it finds in the request."""
    body = request.raw.decode()
    text = "heron7" if "heron7" in body else "I do not know."
    if json.dumps(PROMPT[:60])[1:-1] in body:
        text = json.dumps(SUMMARY)
    if not request.body.get("stream"):
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        await send_json(200, {"id": "c", "model": "m", "choices": [choice]})(request, connection)
        return
    frames = (chunk({"content": text}), chunk({}, "stop"), usage(), DONE)
    await send_frames(frames)(request, connection)


@pytest.mark.parametrize("streams", [True, False])
async def test_a_long_context_is_compacted_and_continued(tmp_path: Path, streams: bool) -> None:
    async with checked_gateway(tmp_path, model) as setup, messages_client(setup.gateway) as client:
        asked: Any = {"model": "up/m", "max_tokens": 100, "context_management": EDITS}
        if streams:
            async with client.beta.messages.stream(messages=LONG, **asked) as stream:
                message = await stream.get_final_message()
        else:
            message = await client.beta.messages.create(messages=LONG, **asked)
        compaction, answer = message.content
        assert (compaction.type, answer.type) == ("compaction", "text")
        assert "heron7" not in str(compaction.model_dump()), "the summary is sealed"
        blocks = [block.model_dump(exclude_none=True) for block in message.content]
        again: Any = [
            *LONG,
            {"role": "assistant", "content": blocks},
            {"role": "user", "content": "And now?"},
        ]
        await client.beta.messages.create(messages=again, **asked)
    last = setup.upstream.requests[-1].raw.decode()
    assert "the code is heron7" in last
    assert "And so on." not in last


async def test_a_short_context_stays_as_it_is(tmp_path: Path) -> None:
    async with checked_gateway(tmp_path, model) as setup, messages_client(setup.gateway) as client:
        message = await client.beta.messages.create(
            model="up/m", max_tokens=9, messages=LONG[:1], context_management=EDITS
        )
    assert [block.type for block in message.content] == ["text"]
    assert len(setup.upstream.requests) == 1
