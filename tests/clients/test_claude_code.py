"""Claude Code: text, its own tools, subagents, thinking, images and sessions."""

from __future__ import annotations

import base64
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from tests.clients.test_codex import png
from tests.support.clients.claude_code import CLAUDE, ClaudeCode
from tests.support.clients.gateway import ClientGateway, client_gateway
from tests.support.clients.installed import Release
from tests.support.clients.provider_requests import ProviderRequest
from tests.support.clients.scripted_model import ALL_DIALECTS, Call, Dialect, Reply, Script


def claude_gateway(
    tmp_path: Path, dialect: Dialect, script: Script, **options: Any
) -> AbstractAsyncContextManager[ClientGateway]:
    same_format = dialect == "anthropic"
    return client_gateway(tmp_path, dialect, script, same_format=same_format, **options)


def claude_of(setup: ClientGateway, release: Release) -> ClaudeCode:
    return ClaudeCode(setup, setup.base_url, release)


@CLAUDE.does("text", *ALL_DIALECTS)
async def test_a_text(tmp_path: Path, dialect: Dialect, release: Release) -> None:
    async with claude_gateway(tmp_path, dialect, [Reply("Good morning.")]) as setup:
        ran = await claude_of(setup, release).run("Hello?")
        assert ran.text == "Good morning."
        assert ran.usage["input_tokens"] == 9
        assert "Hello?" in setup.requests[0].text_of_role("user")


@CLAUDE.does("Bash, Write, Read, Edit", *ALL_DIALECTS)
async def test_its_own_tools(tmp_path: Path, dialect: Dialect, release: Release) -> None:
    path = str(tmp_path / "a.txt")
    script = [
        Reply(calls=[Call("Write", {"file_path": path, "content": "one\n"})]),
        Reply(calls=[Call("Read", {"file_path": path})]),
        Reply(calls=[Call("Edit", {"file_path": path, "old_string": "one", "new_string": "two"})]),
        Reply("I run it.", calls=[Call("Bash", {"command": f"cat {path}; echo é"})]),
        Reply("Done."),
    ]
    async with claude_gateway(tmp_path, dialect, script) as setup:
        ran = await claude_of(setup, release).run("Change the file.", "--add-dir", str(tmp_path))
        assert ran.text == "Done."
        results = setup.requests[-1].results
        assert "one" in results[1]
        assert "two\né" in results[3]
        ids = [block["id"] for block in ran.blocks("assistant", "tool_use")]
        assert len({*ids}) == 4


@CLAUDE.does("parallel calls", *ALL_DIALECTS)
async def test_parallel_calls(tmp_path: Path, dialect: Dialect, release: Release) -> None:
    calls = [Call("Bash", {"command": f"echo result-{number}"}) for number in range(3)]
    async with claude_gateway(tmp_path, dialect, [Reply(calls=calls), Reply("Three.")]) as setup:
        assert (await claude_of(setup, release).run("Run three.")).text == "Three."
        assert [f"result-{number}" for number in range(3)] == sorted(setup.requests[1].results)


@CLAUDE.does("subagent", *ALL_DIALECTS)
async def test_a_subagent(tmp_path: Path, dialect: Dialect, release: Release) -> None:
    arguments = {
        "description": "count",
        "prompt": "Count the files.",
        "subagent_type": "general-purpose",
        "run_in_background": False,
    }

    def answer(request: ProviderRequest) -> Reply:
        if "Count the files." in request.text_of_role("user"):
            return Reply("There are seven.")
        if any("seven" in result for result in request.results):
            return Reply("Seven files.")
        if request.calls:
            return Reply("Waiting.")
        return Reply(calls=[Call("Agent", arguments)])

    async with claude_gateway(tmp_path, dialect, answer) as setup:
        ran = await claude_of(setup, release).run("How many files?")
        assert ran.text == "Seven files."


@CLAUDE.does("thinking kept over turns", *ALL_DIALECTS)
async def test_thinking_is_kept_over_turns(
    tmp_path: Path, dialect: Dialect, release: Release
) -> None:
    """The provider gets its own state back: within a turn, and after a restart."""
    script = [
        Reply(thought="I look.", calls=[Call("Bash", {"command": "true"})]),
        Reply("Nothing there.", thought="It is empty."),
        Reply("Still nothing.", thought="Again."),
    ]
    async with claude_gateway(tmp_path, dialect, script) as setup:
        claude = claude_of(setup, release)
        first = await claude.run("Look.")
        assert first.text == "Nothing there."
        thoughts = [block["thinking"] for block in first.blocks("assistant", "thinking")]
        assert thoughts == ["I look.", "It is empty."]
        assert (await claude.run("And now?", "--continue")).text == "Still nothing."
        kept = [setup.model.state(0, "I look."), setup.model.state(1, "It is empty.")]
        # The signature of a text comes after it: Claude Code would print an empty result.
        last = kept[:1] if dialect == "gemini" else kept
        assert [each.states for each in setup.requests] == [[], kept[:1], last]


@CLAUDE.does("an image that it reads", *ALL_DIALECTS)
async def test_an_image(tmp_path: Path, dialect: Dialect, release: Release) -> None:
    def look(request: ProviderRequest) -> Reply:
        if request.images:
            return Reply("White.")
        return Reply(calls=[Call("Read", {"file_path": str(picture)})])

    async with claude_gateway(tmp_path, dialect, look, inputs=["text", "image"]) as setup:
        picture = claude_of(setup, release).directory / "white.png"
        picture.write_bytes(png())
        assert (await claude_of(setup, release).run("Which colour?")).text == "White."
        assert base64.b64decode(setup.requests[-1].images[0])[:4] == b"\x89PNG"
