"""Claude Code: retries, cut streams, long prompts, web search, and a change of provider."""

from __future__ import annotations

import json
from pathlib import Path

from msgspec import structs

from antiphon.config import SearchConfig
from tests.clients.test_claude_code import claude_gateway, claude_of
from tests.support.clients.claude_code import CLAUDE, ClaudeCode
from tests.support.clients.gateway import ClientSetup, configured, scripted_upstream
from tests.support.clients.installed import Release
from tests.support.clients.scripted_model import (
    ALL_DIALECTS,
    Call,
    CutReply,
    Dialect,
    ErrorReply,
    HeldReply,
    Reply,
    Step,
    context_overflow,
    rate_limited,
)
from tests.support.clients.stream_proxy import stream_proxy
from tests.support.gateways import replaced, running

OVERLOADED = ErrorReply(
    529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
)


@CLAUDE.does("429 with Retry-After", *ALL_DIALECTS)
async def test_a_rate_limit_is_waited_for(
    tmp_path: Path, dialect: Dialect, release: Release
) -> None:
    script: list[Step] = [rate_limited(dialect, 1), Reply("There.")]
    async with claude_gateway(tmp_path, dialect, script) as setup:
        assert (await claude_of(setup, release).run("Hello?")).text == "There."


@CLAUDE.does("529, and its retries", *ALL_DIALECTS)
async def test_an_overloaded_provider_is_asked_again(
    tmp_path: Path, dialect: Dialect, release: Release
) -> None:
    async with claude_gateway(
        tmp_path, dialect, [OVERLOADED, OVERLOADED, Reply("There.")]
    ) as setup:
        assert (await claude_of(setup, release).run("Hello?")).text == "There."


@CLAUDE.does("an error that no retry can change", *ALL_DIALECTS)
async def test_a_rejected_key_of_the_gateway_is_reported_at_once(
    tmp_path: Path, dialect: Dialect, release: Release
) -> None:
    refused = ErrorReply(401, {"error": {"message": "Wrong key.", "code": 401}})
    async with claude_gateway(tmp_path, dialect, [refused]) as setup:
        ran = await claude_of(setup, release).run("Hello?")
        assert ran.result["is_error"]
        assert "/login" not in ran.result["result"]


@CLAUDE.does("a provider that cuts its stream", *ALL_DIALECTS)
async def test_a_stream_that_the_provider_cuts(
    tmp_path: Path, dialect: Dialect, release: Release
) -> None:
    """An error after the first byte: the request is repeated without a stream."""
    script: list[Step] = [CutReply(Reply("Half of it, and no end."), "Half"), Reply("Whole.")]
    async with claude_gateway(tmp_path, dialect, script) as setup:
        assert (await claude_of(setup, release).run("Hello?")).text == "Whole."


@CLAUDE.does("dropped connection, re-attached", *ALL_DIALECTS)
async def test_a_connection_that_is_lost_does_not_bill_twice(
    tmp_path: Path, dialect: Dialect, release: Release
) -> None:
    async def wait() -> None:
        await proxy.is_attached.wait()

    script = [HeldReply(Reply("The whole of it."), "The ", wait)]
    async with (
        claude_gateway(tmp_path, dialect, script) as setup,
        stream_proxy(setup) as proxy,
    ):
        proxy.cut_next(4)
        ran = await ClaudeCode(proxy.gateway, proxy.gateway.base_url, release).run("Hello?")
        assert ran.text == "The whole of it."
        assert len(setup.requests) == 1


@CLAUDE.does("a prompt that is too long, compacted", *ALL_DIALECTS)
async def test_a_prompt_that_is_too_long_is_compacted(
    tmp_path: Path, dialect: Dialect, release: Release
) -> None:
    script: list[Step] = [
        Reply("Nice to meet you."),
        context_overflow(dialect),
        Reply("<analysis>Short.</analysis><summary>Ada has introduced herself.</summary>"),
        Reply("You are Ada."),
    ]
    async with claude_gateway(tmp_path, dialect, script) as setup:
        claude = claude_of(setup, release)
        assert (await claude.run("I am Ada.")).text == "Nice to meet you."
        assert (await claude.run("Who am I?", "--continue")).text == "You are Ada."
        assert "Ada has introduced herself." in setup.requests[-1].text


@CLAUDE.does("compaction on request", *ALL_DIALECTS)
async def test_a_session_is_compacted(tmp_path: Path, dialect: Dialect, release: Release) -> None:
    script = [
        Reply("Nice to meet you."),
        Reply("<analysis>Short.</analysis><summary>Ada has introduced herself.</summary>"),
        Reply("You are Ada."),
    ]
    async with claude_gateway(tmp_path, dialect, script) as setup:
        claude = claude_of(setup, release)
        await claude.run("I am Ada.")
        await claude.run("/compact", "--continue")
        assert (await claude.run("Who am I?", "--continue")).text == "You are Ada."
        assert "Ada has introduced herself." in setup.requests[-1].text
        assert "Nice to meet you." not in setup.requests[-1].text


@CLAUDE.does("a session resumed with another provider", *ALL_DIALECTS)
async def test_a_session_is_resumed_with_another_provider(
    tmp_path: Path, dialect: Dialect, release: Release
) -> None:
    """Signatures of one provider never reach another, and return to their own."""
    other: Dialect = "anthropic" if dialect != "anthropic" else "chat"
    replies = [
        Reply("One.", thought="I am the first.", calls=[Call("Bash", {"command": "true"})]),
        Reply("First."),
        Reply("Third.", thought="Again."),
    ]
    home = tmp_path / "home"
    home.mkdir()
    async with (
        scripted_upstream(dialect, replies, same_format=dialect == "anthropic") as (one, one_url),
        scripted_upstream(
            other, [Reply("Second.", thought="I am another.")], same_format=other == "anthropic"
        ) as (two, two_url),
    ):
        turns = ((one, one_url, dialect), (two, two_url, other), (one, one_url, dialect))
        for (model, url, name), expected in zip(
            turns, ("First.", "Second.", "Third."), strict=True
        ):
            async with running(configured(tmp_path, url, name)) as gateway:
                claude = ClaudeCode(ClientSetup(model, home, {}), gateway.base_url, release)
                options = [] if expected == "First." else ["--continue"]
                assert (await claude.run("Go on.", *options)).text == expected
        assert one.state(0, "I am the first.") not in two.requests[0].text
        assert one.state(0, "I am the first.") in one.requests[-1].states


@CLAUDE.does("web search by the gateway", *ALL_DIALECTS)
async def test_a_web_search(tmp_path: Path, dialect: Dialect, release: Release) -> None:
    found = {"title": "Rain", "url": "https://weather.example/rain", "snippet": "It rains."}
    answers = tmp_path / "answers.json"
    answers.write_text(json.dumps({"weather in Oslo": [found], "*": []}))
    script = [
        Reply(calls=[Call("ToolSearch", {"query": "select:WebSearch"})]),
        Reply(calls=[Call("WebSearch", {"query": "weather in Oslo"})]),
        Reply(calls=[Call("web_search", {"query": "weather in Oslo"})]),
        Reply("It rains in Oslo [1]."),
        Reply("Take an umbrella."),
    ]
    search = SearchConfig(backend="recorded", url=f"file://{answers}")
    home = tmp_path / "home"
    home.mkdir()
    same_format = dialect == "anthropic"
    async with scripted_upstream(dialect, script, same_format=same_format) as (model, url):
        config = configured(tmp_path, url, dialect)
        managed = structs.replace(config.providers["up"], web_search="managed")
        config = replaced(config, search=search, providers={"up": managed})
        async with running(config) as gateway:
            claude = ClaudeCode(ClientSetup(model, home, {}), gateway.base_url, release)
            ran = await claude.run("Which weather?")
            assert ran.text == "Take an umbrella."
        [result] = [each for each in model.requests[-1].results if "weather.example" in each]
        assert "It rains in Oslo" in result


@CLAUDE.does("count_tokens", *ALL_DIALECTS)
async def test_the_context_is_counted(tmp_path: Path, dialect: Dialect, release: Release) -> None:
    async with claude_gateway(tmp_path, dialect, []) as setup:
        ran = await claude_of(setup, release).run("/context")
        assert "System prompt" in ran.text
