"""The `openai` package for Node: stored responses, background, conversations, compaction and
WebSockets."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from tests.support.clients.gateway import client_gateway
from tests.support.clients.installed import Release
from tests.support.clients.node_programs import run_program
from tests.support.clients.scenario import Client, NodeClient
from tests.support.clients.scripted_model import Dialect, HeldReply, Reply
from tests.support.waiting import until

OPENAI = NodeClient("openai (Node)", "npm:openai")
PINNED_OPENAI = Client(OPENAI.name, OPENAI.package)
"""For WebSockets, which need a package that the newest major is installed without."""
GREETING = Reply("Good day to you.")
SUMMARY = {
    "goal": "Remember.",
    "decisions": [],
    "open_work": [],
    "files_touched": [],
    "facts": ["It is heron."],
    "last_user_wishes": [],
}
play = partial(run_program, program="openai-lifecycle")


@OPENAI.does("retrieve, delete, input_items", "chat")
async def test_a_stored_response(tmp_path: Path, dialect: Dialect, release: Release) -> None:
    async with client_gateway(tmp_path, dialect, [GREETING]) as setup:
        asked = ["One?", "Two?", "Three?"]
        assert await play(setup, scenario="stored", release=release) == {
            "text": GREETING.text,
            "same": True,
            "asc": asked,
            "desc": asked[::-1],
            "gone": ["NotFoundError", None],
        }


@OPENAI.does("background, polled", "chat")
async def test_a_background_response_is_polled(
    tmp_path: Path, dialect: Dialect, release: Release
) -> None:
    async with client_gateway(tmp_path, dialect, [GREETING]) as setup:
        seen = await play(setup, scenario="background", release=release)
        assert seen == {"begun": "queued", "ended": "completed", "text": GREETING.text}


@OPENAI.does("background, cancelled", "chat")
async def test_a_background_response_is_cancelled(
    tmp_path: Path, dialect: Dialect, release: Release
) -> None:
    async with client_gateway(tmp_path, dialect, [HeldReply(GREETING, "Good")]) as setup:
        seen = await play(setup, scenario="cancel", release=release)
        assert seen == {"statuses": ["cancelled", "cancelled"]}
        await until(lambda: setup.model.disconnects == 1, "the provider is disconnected")


@OPENAI.does("background, resumed from every event", "chat")
async def test_a_stream_is_resumed_from_every_event(
    tmp_path: Path, dialect: Dialect, release: Release
) -> None:
    async with client_gateway(tmp_path, dialect, [GREETING]) as setup:
        seen = await play(setup, scenario="resume", release=release)
        assert seen["numbers"] == [*range(len(seen["numbers"]))]
        assert (seen["unequal"], seen["text"]) == ([], GREETING.text)


@OPENAI.does("conversations", "chat")
async def test_a_conversation(tmp_path: Path, dialect: Dialect, release: Release) -> None:
    script = [Reply("You are Ada."), Reply("Quite sure.")]
    async with client_gateway(tmp_path, dialect, script) as setup:
        assert await play(setup, scenario="conversation", release=release) == {
            "text": "Quite sure.",
            "texts": ["I am Ada.", "Who am I?", "You are Ada.", "Sure?", "Quite sure."],
            "deleted": True,
        }
        asked = [text for _, text in setup.requests[1].messages]
        assert asked == ["I am Ada.", "Who am I?", "You are Ada.", "Sure?"]


@OPENAI.does("responses.compact", "chat")
async def test_a_thread_is_compacted(tmp_path: Path, dialect: Dialect, release: Release) -> None:
    script = [Reply(json.dumps(SUMMARY)), Reply("Heron.")]
    async with client_gateway(tmp_path, dialect, script) as setup:
        seen = await play(setup, scenario="compact", release=release)
        assert seen == {"types": ["message", "message", "compaction"], "text": "Heron."}
        assert "It is heron." in setup.requests[1].text_of_role("user")


@PINNED_OPENAI.does("WebSocket", "chat")
async def test_turns_over_a_websocket(tmp_path: Path, dialect: Dialect) -> None:
    async with client_gateway(tmp_path, dialect, [Reply("1"), Reply("2")]) as setup:
        assert await play(setup, scenario="websocket") == {"texts": ["1", "2"]}
        history = [("user", "One?"), ("assistant", "1"), ("user", "Two?")]
        assert setup.requests[1].messages == history
