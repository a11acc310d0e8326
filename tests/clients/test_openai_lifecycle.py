"""The `openai` package for Python in strict mode: stored responses, background, conversations,
compaction and WebSockets."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from tests.support.clients.gateway import client_gateway, client_setup
from tests.support.clients.proxy import changing_proxy
from tests.support.clients.python_programs import run_program
from tests.support.clients.scenario import Client, Transport
from tests.support.clients.scripted_model import Dialect, HeldReply, Reply
from tests.support.waiting import until

OPENAI = Client("openai (Python)", "pypi:openai", in_process=True)
OVER_HTTP = Client(OPENAI.name, OPENAI.package)
GREETING = Reply("Good day to you.")
play = partial(run_program, program="openai_lifecycle")


def summary_of(fact: str) -> str:
    """The summary that a model writes when the gateway asks it to compact a thread."""
    lists = ("decisions", "open_work", "files_touched", "last_user_wishes")
    return json.dumps({"goal": "Remember.", **{name: [] for name in lists}, "facts": [fact]})


@OPENAI.does("retrieve, delete, input_items", "chat")
async def test_a_stored_response(tmp_path: Path, dialect: Dialect, transport: Transport) -> None:
    async with client_setup(tmp_path, dialect, transport, [Reply("0"), Reply("3")]) as setup:
        seen = await play(setup, scenario="stored")
        asked = ["Zero?", "0", "One?", "Two?", "Three?"]
        assert seen == {
            "same": True,
            "asc": asked,
            "desc": asked[::-1],
            "page": [2, True],
            "after": asked[2:],
            "cancelled": ["BadRequestError", "invalid_value"],
            "retrieved": ["NotFoundError", None],
            "deleted": ["NotFoundError", None],
            "listed": ["NotFoundError", None],
            "continued": ["BadRequestError", "previous_response_not_found"],
        }


@OPENAI.does("background, polled", "chat")
async def test_a_background_response_is_polled(
    tmp_path: Path, dialect: Dialect, transport: Transport
) -> None:
    async with client_setup(tmp_path, dialect, transport, [GREETING]) as setup:
        seen = await play(setup, scenario="background")
        assert seen["begun"] == ["queued", True, 0]
        assert seen["ended"] == ["completed", True, GREETING.text]
        assert seen["is_kept"]


@OPENAI.does("background, cancelled", "chat")
async def test_a_background_response_is_cancelled(
    tmp_path: Path, dialect: Dialect, transport: Transport
) -> None:
    script = [HeldReply(GREETING, "Good")]
    async with client_setup(tmp_path, dialect, transport, script) as setup:
        seen = await play(setup, scenario="cancel")
        assert seen == [["cancelled", None, None]] * 3
        await until(lambda: setup.model.disconnects == 1, "the provider is disconnected")


@OPENAI.does("background, resumed from every event", "chat")
async def test_a_stream_is_resumed_from_every_event(
    tmp_path: Path, dialect: Dialect, transport: Transport
) -> None:
    async with client_setup(tmp_path, dialect, transport, [GREETING]) as setup:
        seen = await play(setup, scenario="resume")
        assert seen["numbers"] == [*range(len(seen["types"]))]
        assert (seen["types"][0], seen["types"][-1]) == ("response.created", "response.completed")
        assert (seen["unequal"], seen["resumed"]) == ([], len(seen["types"]) + 1)
        assert seen["text"] == GREETING.text


@OPENAI.does("background, connection lost", "chat")
async def test_a_client_leaves_and_comes_back(
    tmp_path: Path, dialect: Dialect, transport: Transport
) -> None:
    async with client_setup(tmp_path, dialect, transport, [GREETING, GREETING]) as setup:
        seen = await play(setup, scenario="lost")
        assert seen["numbers"] == [*range(len(seen["numbers"]))]
        assert (seen["text"], seen["last"]) == (GREETING.text, "response.completed")
        seen = await play(setup, scenario="asynchronous")
        assert seen["numbers"] == [*range(1, len(seen["numbers"]) + 1)]
        assert (seen["same"], seen["text"]) == (True, GREETING.text)


@OPENAI.does("background stream, cancelled", "chat")
async def test_a_background_stream_is_cancelled(
    tmp_path: Path, dialect: Dialect, transport: Transport
) -> None:
    script = [HeldReply(GREETING, "Good")]
    async with client_setup(tmp_path, dialect, transport, script) as setup:
        seen = await play(setup, scenario="cancelled_stream")
        assert (seen["last"], seen["status"]) == ("response.incomplete", "cancelled")
        assert seen["details"] is None
        assert seen["text"]
        assert GREETING.text.startswith(seen["text"])
        assert seen["is_kept"]
        assert seen["is_repeated"]
        await until(lambda: setup.model.disconnects == 1, "the provider is disconnected")


@OPENAI.does("conversations", "chat")
async def test_a_conversation(tmp_path: Path, dialect: Dialect, transport: Transport) -> None:
    script = [Reply("You are Ada."), Reply("Quite sure.")]
    async with client_setup(tmp_path, dialect, transport, script) as setup:
        seen = await play(setup, scenario="conversation")
        asked = ["I am Ada.", "I like tea.", "Who am I?", "You are Ada."]
        assert seen == {
            "metadata": {"topic": "names"},
            "conversation": [True, True],
            "asc": asked,
            "desc": ["Quite sure.", "Sure?", "You are Ada.", "Who am I?", "I am Ada."],
            "found": True,
            "deleted": True,
            "gone": "NotFoundError",
            "continued": "NotFoundError",
        }
        asked = [text for _, text in setup.requests[1].messages]
        assert asked == ["I am Ada.", "Who am I?", "You are Ada.", "Sure?"]


@OPENAI.does("responses.compact", "chat")
async def test_a_thread_is_compacted(
    tmp_path: Path, dialect: Dialect, transport: Transport
) -> None:
    summary = Reply(summary_of("It is heron."), tokens=21)
    script = [summary, summary, Reply("Heron.")]
    async with client_setup(tmp_path, dialect, transport, script) as setup:
        seen = await play(setup, scenario="compact")
        assert seen == {
            "objects": ["response.compaction"] * 2,
            "types": [["compaction"], ["message", "message", "compaction"]],
            "tokens": 26,
            "text": "Heron.",
        }
        assert "It is heron." in setup.requests[2].text_of_role("user")
        assert setup.requests[2].messages[-1] == ("user", "Which word?")


@OPENAI.does("input_tokens, models.retrieve", "chat")
async def test_tokens_are_counted_and_a_model_is_described(
    tmp_path: Path, dialect: Dialect, transport: Transport
) -> None:
    async with client_setup(tmp_path, dialect, transport, []) as setup:
        seen = await play(setup, scenario="about")
        assert seen["tokens"] > 1
        assert seen["model"] == "scripted"


@OVER_HTTP.does("responses.connect", "chat")
async def test_turns_over_a_websocket(tmp_path: Path, dialect: Dialect) -> None:
    async with (
        client_gateway(tmp_path, dialect, [Reply("1"), Reply("2")]) as setup,
        changing_proxy(setup) as proxy,
    ):
        seen = await play(proxy.gateway, scenario="websocket")
        assert seen == {"texts": ["1", "2"], "error": [400, "previous_response_not_found"]}
        assert proxy.seen == [("GET", "/v1/responses", 101)]
        history = [("user", "One?"), ("assistant", "1"), ("user", "Two?")]
        assert setup.requests[1].messages == history
