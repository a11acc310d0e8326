"""aider: edits that a model writes as text, a session that goes on, errors and cut streams."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.clients.gateway import MODEL, OFFLINE, ClientGateway, client_gateway
from tests.support.clients.installed import AIDER
from tests.support.clients.scenario import Client
from tests.support.clients.scripted_model import (
    ALL_DIALECTS,
    CutReply,
    Dialect,
    ErrorReply,
    Reply,
    Step,
)

PROGRAM = AIDER / "bin" / "aider"
AIDER_CHAT = Client("aider", "pypi:aider-chat")
OPTIONS = """
    --yes-always --no-git --no-gitignore --no-check-update --no-analytics --no-pretty
    --no-show-model-warnings --no-show-release-notes --no-suggest-shell-commands --no-detect-urls
    --no-fancy-input --edit-format whole --map-tokens 0
""".split()
EDIT = "This is it.\n\nnote.txt\n```\nA second line\n```\n"

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="aider needs Python 3.10 to 3.12")


async def run_aider(setup: ClientGateway, message: str, *options: str) -> str:
    """Run one message on the file `note.txt`; return what is printed."""
    directory = setup.home / "work"
    directory.mkdir(exist_ok=True)
    env = {**OFFLINE, "OPENAI_API_BASE": setup.base_url, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    argv = [str(PROGRAM), "--model", f"openai/{MODEL}", *OPTIONS, *options]
    done = await setup.run([*argv, "--message", message, "note.txt"], env=env, cwd=directory)
    return done.check_success().out


def note(setup: ClientGateway) -> str:
    return (setup.home / "work" / "note.txt").read_text(encoding="utf-8")


@AIDER_CHAT.does("edit of a file, streamed", *ALL_DIALECTS)
async def test_an_edit(tmp_path: Path, dialect: Dialect) -> None:
    async with client_gateway(tmp_path, dialect, [Reply(EDIT, thought="A line.")]) as setup:
        shown = await run_aider(setup, "Add a line")
        assert "This is it." in shown
        assert "A line." in shown
        assert note(setup) == "A second line\n"
        assert setup.requests[0].streamed
        assert "Add a line" in setup.requests[0].text_of_role("user")


@AIDER_CHAT.does("edit of a file, whole", *ALL_DIALECTS)
async def test_an_edit_that_is_not_streamed(tmp_path: Path, dialect: Dialect) -> None:
    async with client_gateway(tmp_path, dialect, [Reply(EDIT, tokens=21)]) as setup:
        shown = await run_aider(setup, "Add a line", "--no-stream")
        assert "Tokens: 21 sent, 5 received." in shown
        assert note(setup) == "A second line\n"
        assert not setup.requests[0].streamed


@AIDER_CHAT.does("session continued", *ALL_DIALECTS)
async def test_a_session_is_continued(tmp_path: Path, dialect: Dialect) -> None:
    async with client_gateway(tmp_path, dialect, [Reply("Hello, Ada."), Reply("Ada.")]) as setup:
        await run_aider(setup, "I am Ada")
        assert "Ada." in await run_aider(setup, "Who am I?", "--restore-chat-history")
        assert "I am Ada" in setup.requests[-1].text_of_role("user")
        assert "Hello, Ada." in setup.requests[-1].text_of_role("assistant")


@AIDER_CHAT.does("error of the provider", "chat")
async def test_an_error_is_shown(tmp_path: Path, dialect: Dialect) -> None:
    rejected = ErrorReply(400, {"error": {"message": "No.", "type": "invalid_request_error"}})
    async with client_gateway(tmp_path, dialect, [rejected]) as setup:
        assert "See the gateway's log for its reason" in await run_aider(setup, "Hello?")


@AIDER_CHAT.does("cut stream", "chat")
async def test_a_cut_stream_is_asked_for_again(tmp_path: Path, dialect: Dialect) -> None:
    script: list[Step] = [CutReply(Reply(EDIT), "This"), Reply(EDIT)]
    async with client_gateway(tmp_path, dialect, script) as setup:
        shown = await run_aider(setup, "Add a line")
        assert "before its response was complete" in shown
        assert note(setup) == "A second line\n"
