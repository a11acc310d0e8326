"""Codex CLI: text, sessions, reasoning, images and the model catalog."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from pathlib import Path

from tests.support.clients.codex import CODEX, Codex
from tests.support.clients.gateway import KEY, client_gateway
from tests.support.clients.proxy import changing_proxy
from tests.support.clients.scripted_model import Call, Dialect, Reply

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


def png() -> bytes:
    """An image of four by four white pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checksum = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)

    size = struct.pack(">IIBBBBB", 4, 4, 8, 2, 0, 0, 0)
    pixels = zlib.compress((b"\0" + b"\xff" * 12) * 4)
    chunks = chunk(b"IHDR", size) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


@CODEX.does("text")
async def test_a_text(tmp_path: Path, dialect: Dialect) -> None:
    async with client_gateway(tmp_path, dialect, [Reply("Good morning.")]) as setup:
        codex = await Codex.at(setup)
        ran = await codex.exec("Hello?")
        assert (ran.status, ran.messages) == (0, ["Good morning."])
        assert ran.usage["input_tokens"] == 9
        assert setup.requests[0].messages[-1] == ("user", "Hello?")


@CODEX.does("resume")
async def test_a_session_is_resumed(tmp_path: Path, dialect: Dialect) -> None:
    async with client_gateway(
        tmp_path, dialect, [Reply("Nice to meet you."), Reply("You are Ada.")]
    ) as setup:
        codex = await Codex.at(setup)
        assert (await codex.exec("I am Ada.")).status == 0
        ran = await codex.exec("resume", "--last", "Who am I?")
        assert (ran.status, ran.messages) == (0, ["You are Ada."])
        history = setup.requests[1].messages
        assert [text for role, text in history if role == "assistant"] == ["Nice to meet you."]
        assert "I am Ada." in setup.requests[1].text_of_role("user")
        assert history[-1] == ("user", "Who am I?")


@CODEX.does("reasoning kept over turns")
async def test_reasoning_is_kept_over_turns(tmp_path: Path, dialect: Dialect) -> None:
    """The provider gets its own state back: within a turn, and in the next one."""
    script = [
        Reply(thought="I look.", calls=[Call("exec_command", {"cmd": "true"})]),
        Reply("Nothing there.", thought="It is empty."),
        Reply("Still nothing.", thought="Again."),
    ]
    async with client_gateway(tmp_path, dialect, script) as setup:
        codex = await Codex.at(setup)
        first = await codex.exec("Look.")
        assert (first.status, first.messages) == (0, ["Nothing there."])
        thoughts = [item["text"] for item in first.items("reasoning")]
        assert thoughts == ["I look.", "It is empty."]
        assert (await codex.exec("resume", "--last", "And now?")).status == 0
        kept = [setup.model.state(0, "I look."), setup.model.state(1, "It is empty.")]
        assert [each.states for each in setup.requests] == [[], kept[:1], kept]


@CODEX.does("image input")
async def test_an_image(tmp_path: Path, dialect: Dialect) -> None:
    async with client_gateway(tmp_path, dialect, [Reply("White.")]) as setup:
        codex = await Codex.at(setup)
        (codex.directory / "white.png").write_bytes(png())
        ran = await codex.exec("-i", "white.png", "--", "Which colour?")
        assert (ran.status, ran.messages) == (0, ["White."])
        [image] = setup.requests[0].images
        assert base64.b64decode(image).startswith(b"\x89PNG")
        assert "Which colour?" in setup.requests[0].text_of_role("user")


@CODEX.does("--output-schema")
async def test_an_output_schema(tmp_path: Path, dialect: Dialect) -> None:
    async with client_gateway(tmp_path, dialect, [Reply('{"city":"Ulm"}')]) as setup:
        codex = await Codex.at(setup)
        (codex.directory / "schema.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
        ran = await codex.exec("--output-schema", "schema.json", "Where?")
        assert ran.status == 0
        assert [json.loads(text) for text in ran.messages] == [{"city": "Ulm"}]
        wanted = setup.requests[0].schema
        assert wanted is not None
        assert wanted["properties"].keys() == {"city"}


@CODEX.does("local compaction")
async def test_a_long_session_is_compacted(tmp_path: Path, dialect: Dialect) -> None:
    """The reported token usage triggers it, and the model's summary replaces the history."""
    script = [
        Reply("Noted: the word is heron.", tokens=60_000),
        Reply("SUMMARY: the word is heron."),
        Reply("Heron."),
    ]
    async with client_gateway(tmp_path, dialect, script) as setup:
        codex = await Codex.at(setup, top="model_auto_compact_token_limit = 50000")
        assert (await codex.exec("Remember the word heron.")).status == 0
        ran = await codex.exec("resume", "--last", "What was the word?")
        assert (ran.status, ran.messages) == (0, ["Heron."])
        _, compaction, after = setup.requests
        assert compaction.tools == {}
        assert "Noted: the word is heron." in compaction.text_of_role("assistant")
        assert "Noted: the word is heron." not in after.text
        assert "SUMMARY: the word is heron." in after.text_of_role("user")
        assert after.messages[-1] == ("user", "What was the word?")


@CODEX.does("remote compaction")
async def test_a_long_session_is_compacted_by_the_gateway(tmp_path: Path, dialect: Dialect) -> None:
    """Codex expects it of a provider named OpenAI, and sends the item back from then on."""
    lists = ("decisions", "open_work", "files_touched", "last_user_wishes")
    summary = {"goal": "Remember.", **{name: [] for name in lists}, "facts": ["It is heron."]}
    script = [
        Reply("Noted: the word is heron.", tokens=60_000),
        Reply(json.dumps(summary)),
        Reply("Heron."),
    ]
    async with client_gateway(tmp_path, dialect, script) as setup:
        entry = f'[model_providers.own]\nname = "OpenAI"\nbase_url = "{setup.base_url}"'
        tables = f'{entry}\nwire_api = "responses"\nenv_key = "GW_KEY"'
        top = "model_auto_compact_token_limit = 50000"
        codex = await Codex.at(setup, top=top, tables=tables, provider="own")
        assert (await codex.exec("Remember the word heron.")).status == 0
        ran = await codex.exec("resume", "--last", "What was the word?")
        assert (ran.status, ran.messages) == (0, ["Heron."])
        _, compaction, after = setup.requests
        assert compaction.tools == {}
        assert "Noted: the word is heron." in compaction.text_of_role("assistant")
        assert "Noted: the word is heron." not in after.text
        assert "Facts:\n- It is heron." in after.text_of_role("user")
        assert after.messages[-1] == ("user", "What was the word?")


@CODEX.does("model catalog from /v1/models")
async def test_the_catalog_comes_from_the_gateway(tmp_path: Path, dialect: Dialect) -> None:
    """With a key command, Codex requests the catalog and needs no file."""
    async with (
        client_gateway(tmp_path, dialect, [Reply("Good morning.")]) as setup,
        changing_proxy(setup) as proxy,
    ):
        codex = await Codex.at(proxy.gateway, asks_for_catalog=True)
        ran = await codex.exec("Hello?")
        assert (ran.status, ran.messages, ran.complaints) == (0, ["Good morning."], [])
        assert ("GET", "/v1/models", 200) in proxy.seen
        assert (
            "apply_patch" in setup.requests[0].tools
        )  # for models that it does not know, there is none


@CODEX.does("WebSocket upgrade answered with 426")
async def test_an_upgrade_is_refused_and_http_works_at_once(
    tmp_path: Path, dialect: Dialect
) -> None:
    """The built-in provider tries WebSockets first; the refusal must not cause retries."""
    async with (
        client_gateway(tmp_path, dialect, [Reply("Good morning.")], websocket=False) as setup,
        changing_proxy(setup) as proxy,
    ):
        top = f'openai_base_url = "{proxy.gateway.base_url}"'
        codex = await Codex.at(proxy.gateway, top=top, provider="openai")
        ran = await codex.exec("Hello?", env={"CODEX_API_KEY": KEY})
        assert (ran.status, ran.messages, ran.complaints) == (0, ["Good morning."], [])
        assert proxy.seen == [("GET", "/v1/responses", 426), ("POST", "/v1/responses", 200)]


@CODEX.does("WebSocket")
async def test_a_websocket_is_used_for_the_whole_turn(tmp_path: Path, dialect: Dialect) -> None:
    """The built-in provider warms up, then sends only what is new."""
    call = Call("exec_command", {"cmd": "echo hi"})
    script = [Reply("I look.", calls=[call]), Reply("It says hi.")]
    async with (
        client_gateway(tmp_path, dialect, script) as setup,
        changing_proxy(setup) as proxy,
    ):
        top = f'openai_base_url = "{proxy.gateway.base_url}"'
        codex = await Codex.at(proxy.gateway, top=top, provider="openai")
        ran = await codex.exec("Look.", env={"CODEX_API_KEY": KEY})
        assert (ran.status, ran.messages[-1], ran.complaints) == (0, "It says hi.", [])
        assert set(proxy.seen) == {("GET", "/v1/responses", 101)}
        warm_up, *turns = proxy.frames
        assert warm_up["generate"] is False
        assert [turn["previous_response_id"] is not None for turn in turns] == [True, True]
        assert [item["type"] for item in turns[-1]["input"]] == ["function_call_output"]
        assert "hi" in setup.requests[-1].results[-1]
        assert "Look." in setup.requests[-1].text_of_role("user")
