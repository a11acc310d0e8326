"""Coding agents that use Chat Completions: Cline, Continue, opencode, pi and Qwen Code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.clients.chat_agents import AGENTS, ChatAgent
from tests.support.clients.gateway import client_gateway
from tests.support.clients.scripted_model import (
    ALL_DIALECTS,
    CutReply,
    Dialect,
    ErrorReply,
    Reply,
    Step,
)

HELD_BACK = "See the gateway's log for its reason"
"""The words of the gateway about an error whose text is the provider's own."""
CUT = "closed the connection before its response was complete"


def every_agent(scenario: str, *dialects: Dialect, continued: bool = False) -> pytest.MarkDecorator:
    """Run a test with each agent and dialect; `continued`: with those that continue a session."""
    cases = [
        pytest.param(
            dialect,
            agent,
            marks=pytest.mark.scenario(agent.client.name, agent.client.package, scenario),
            id=f"{dialect}-{agent.client.package.partition(':')[2]}",
        )
        for agent in AGENTS
        for dialect in dialects
        if agent.can_continue or not continued
    ]
    return pytest.mark.parametrize(("dialect", "agent"), cases)


@every_agent("text and reasoning, streamed", "chat")
async def test_a_text(tmp_path: Path, dialect: Dialect, agent: ChatAgent) -> None:
    script = [Reply("Good morning.", thought="A greeting.")]
    async with client_gateway(tmp_path, dialect, script) as setup:
        ran = await agent.run(setup, "Hello to you")
        ran.done.check_success()
        assert [*ran.texts] == ["Good morning."]
        assert [*ran.thoughts] == (["A greeting."] if agent.shows_thoughts else [])
        assert setup.requests[0].streamed
        assert "Hello to you" in setup.requests[0].text_of_role("user")


@every_agent("commands, one and two at once", *ALL_DIALECTS)
async def test_commands_are_run_and_their_results_sent(
    tmp_path: Path, dialect: Dialect, agent: ChatAgent
) -> None:
    """The provider gets its reasoning back with the call, though no agent has a place for it."""
    script = [
        Reply("I look.", thought="First.", calls=[agent.call("echo one > one.txt; echo seen")]),
        Reply(calls=[agent.call("echo two > two.txt"), agent.call("echo three > three.txt")]),
        Reply("Done."),
    ]
    async with client_gateway(tmp_path, dialect, script) as setup:
        ran = await agent.run(setup, "Make the files")
        ran.done.check_success()
        assert [*ran.texts] == (["I look.", "Done."] if agent.shows_every_text else ["Done."])
        made = {path.name: path.read_text() for path in agent.directory(setup).glob("*.txt")}
        assert made == {f"{name}.txt": f"{name}\n" for name in ("one", "two", "three")}
        assert "seen" in setup.requests[1].results[0]
        assert len(setup.requests[2].results) == 3
        assert setup.requests[1].states == [setup.model.state(0, "First.")]


@every_agent("session continued", "anthropic", "gemini", continued=True)
async def test_a_session_is_continued(tmp_path: Path, dialect: Dialect, agent: ChatAgent) -> None:
    """The second process has the history alone; the gateway has the state of the provider."""
    script = [
        Reply(thought="A name.", calls=[agent.call("echo Ada > name.txt")]),
        Reply("Hello, Ada."),
        Reply("You are Ada."),
    ]
    async with client_gateway(tmp_path, dialect, script) as setup:
        await agent.run(setup, "I am Ada")
        ran = await agent.run(setup, "Who am I?", is_continued=True)
        ran.done.check_success()
        assert ran.texts[-1] == "You are Ada."
        last = setup.requests[-1]
        assert "I am Ada" in last.text_of_role("user")
        assert "Hello, Ada." in last.text_of_role("assistant")
        assert setup.model.state(0, "A name.") in last.states


@every_agent("error of the provider", "chat")
async def test_an_error_is_shown(tmp_path: Path, dialect: Dialect, agent: ChatAgent) -> None:
    rejected = ErrorReply(400, {"error": {"message": "No.", "type": "invalid_request_error"}})
    async with client_gateway(tmp_path, dialect, [rejected]) as setup:
        ran = await agent.run(setup, "Hello to you")
        assert HELD_BACK in ran.done.out + ran.done.err


@every_agent("cut stream", "chat")
async def test_a_cut_stream_is_no_whole_answer(
    tmp_path: Path, dialect: Dialect, agent: ChatAgent
) -> None:
    """An agent repeats its request, or reports the error."""
    cut = CutReply(Reply("Half of it, and no end."), "Half")
    script: list[Step] = [cut, Reply("Whole.")] if agent.repeats_after_a_cut else [cut]
    async with client_gateway(tmp_path, dialect, script) as setup:
        ran = await agent.run(setup, "Hello to you")
        if agent.repeats_after_a_cut:
            ran.done.check_success()
            assert ran.texts[-1].endswith("Whole.")
        else:
            assert CUT in ran.done.out + ran.done.err
