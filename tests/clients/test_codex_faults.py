"""Codex CLI: faults of the provider behind the gateway."""

from __future__ import annotations

from pathlib import Path

from tests.support.clients.codex import CODEX, Codex
from tests.support.clients.gateway import client_gateway
from tests.support.clients.scripted_model import (
    Call,
    CutReply,
    Dialect,
    Reply,
    Script,
    context_overflow,
    rate_limited,
)

CALLED = Reply(calls=[Call("exec_command", {"cmd": "echo ran >> log.txt"})])


@CODEX.does("context overflow")
async def test_a_context_overflow_is_reported(tmp_path: Path, dialect: Dialect) -> None:
    async with client_gateway(tmp_path, dialect, [context_overflow(dialect)]) as setup:
        codex = await Codex.at(setup)
        ran = await codex.exec("Hello?")
        assert ran.status == 1
        assert "ran out of room in the model's context window" in ran.failure
        assert len(setup.requests) == 1


@CODEX.does("429 with Retry-After")
async def test_a_rate_limit_is_waited_for(tmp_path: Path, dialect: Dialect) -> None:
    async with client_gateway(
        tmp_path, dialect, [rate_limited(dialect, 1), Reply("Good morning.")]
    ) as setup:
        codex = await Codex.at(setup)
        ran = await codex.exec("Hello?")
        assert (ran.status, ran.messages) == (0, ["Good morning."])
        assert len(setup.requests) == 2


@CODEX.does("429 that the gateway waits for")
async def test_a_rate_limit_that_codex_does_not_notice(tmp_path: Path, dialect: Dialect) -> None:
    script: Script = [rate_limited(dialect, 1), Reply("Good morning.")]
    async with client_gateway(tmp_path, dialect, script, attempts=2) as setup:
        codex = await Codex.at(setup)
        ran = await codex.exec("Hello?")
        assert (ran.status, ran.messages, ran.complaints) == (0, ["Good morning."], [])


@CODEX.does("cut stream")
async def test_a_cut_stream_is_recovered(tmp_path: Path, dialect: Dialect) -> None:
    reply = Reply("Good morning to you.")
    async with client_gateway(tmp_path, dialect, [CutReply(reply, "Good mor"), reply]) as setup:
        codex = await Codex.at(setup)
        ran = await codex.exec("Hello?")
        assert (ran.status, ran.messages[-1]) == (0, "Good morning to you.")
        [complaint] = ran.complaints
        assert complaint.startswith("Reconnecting... 1/5")
        assert len(setup.requests) == 2


@CODEX.does("cut within a call", "chat", "anthropic")
async def test_half_a_call_is_not_run(tmp_path: Path, dialect: Dialect) -> None:
    async with client_gateway(
        tmp_path, dialect, [CutReply(CALLED, "echo"), CALLED, Reply("Done.")]
    ) as setup:
        codex = await Codex.at(setup)
        ran = await codex.exec("Go.")
        assert (ran.status, ran.messages) == (0, ["Done."])
        assert (codex.directory / "log.txt").read_text(encoding="utf-8") == "ran\n"
        assert [len(each.calls) for each in setup.requests] == [0, 0, 1]


@CODEX.does("cut after a call")
async def test_a_call_before_a_cut_is_run_once(tmp_path: Path, dialect: Dialect) -> None:
    """The call was complete, so Codex has run it; the retry includes its result."""
    async with client_gateway(
        tmp_path, dialect, [CutReply(CALLED, "log.txt"), Reply("Done.")]
    ) as setup:
        codex = await Codex.at(setup)
        ran = await codex.exec("Go.")
        assert (ran.status, ran.messages) == (0, ["Done."])
        assert (codex.directory / "log.txt").read_text(encoding="utf-8") == "ran\n"
        assert [len(each.results) for each in setup.requests] == [0, 1]
