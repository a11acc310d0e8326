"""The `openai` package for Node: whole answers, its stream helper, tools, chains, errors."""

from __future__ import annotations

from pathlib import Path

from tests.support.clients.gateway import client_gateway
from tests.support.clients.installed import Release
from tests.support.clients.node_programs import run_program
from tests.support.clients.scenario import NodeClient
from tests.support.clients.scripted_model import Call, CutReply, Dialect, Reply, rate_limited

OPENAI = NodeClient("openai (Node)", "npm:openai")
CITY = '{"name":"Paris","people":2102650}'


@OPENAI.does("whole answer")
async def test_a_whole_answer(tmp_path: Path, dialect: Dialect, release: Release) -> None:
    async with client_gateway(tmp_path, dialect, [Reply("Good morning.", tokens=12)]) as setup:
        seen = await run_program(setup, "openai", "create", release)
        assert (seen["output_text"], seen["status"]) == ("Good morning.", "completed")
        assert seen["types"][0] == "message"
        assert (seen["usage"]["input_tokens"], seen["usage"]["total_tokens"]) == (12, 17)
        assert setup.requests[0].messages == [("system", "Be kind."), ("user", "Hello?")]
        assert not setup.requests[0].streamed


@OPENAI.does("stream helper")
async def test_the_stream_helper_puts_the_text_together(
    tmp_path: Path, dialect: Dialect, release: Release
) -> None:
    async with client_gateway(tmp_path, dialect, [Reply("Good morning.")]) as setup:
        seen = await run_program(setup, "openai", "stream", release)
        assert seen["text"] == seen["output_text"] == "Good morning."
        assert seen["events"][0] == "response.created"
        assert seen["events"][-1] == "response.completed"
        assert setup.requests[0].streamed


@OPENAI.does("reasoning")
async def test_the_stream_helper_puts_the_reasoning_together(
    tmp_path: Path, dialect: Dialect, release: Release
) -> None:
    async with client_gateway(
        tmp_path, dialect, [Reply("Done.", thought="First, think.")]
    ) as setup:
        [reasoning, message, *_] = (await run_program(setup, "openai", "reasoning", release))[
            "output"
        ]
        thoughts = [*reasoning["summary"], *reasoning.get("content", [])]
        assert [thought["text"] for thought in thoughts] == ["First, think."]
        assert message["content"][0]["text"] == "Done."


@OPENAI.does("tool round trip")
async def test_two_calls_at_once_and_their_results(
    tmp_path: Path, dialect: Dialect, release: Release
) -> None:
    calls = [Call("get_weather", {"city": "Paris"}), Call("get_weather", {"city": "Rome"})]
    script = [Reply("One moment.", thought="Two cities.", calls=calls), Reply("It is sunny.")]
    async with client_gateway(tmp_path, dialect, script) as setup:
        seen = await run_program(setup, "openai", "tool", release)
        assert seen["output_text"] == "It is sunny."
        paris, rome = seen["calls"]
        assert paris[:2] == ["get_weather", {"city": "Paris"}]
        assert rome[:2] == ["get_weather", {"city": "Rome"}]
        assert paris[2] != rome[2]
        assert setup.requests[1].calls == [(call.name, call.arguments) for call in calls]
        assert setup.requests[1].results == ["sunny in Paris", "sunny in Rome"]
        assert setup.requests[1].states == [setup.model.state(0, "Two cities.")]


@OPENAI.does("structured output")
async def test_a_parsed_answer(tmp_path: Path, dialect: Dialect, release: Release) -> None:
    async with client_gateway(tmp_path, dialect, [Reply(CITY), Reply(CITY)]) as setup:
        seen = await run_program(setup, "openai", "parse", release)
        city = {"name": "Paris", "people": 2102650}
        assert seen == {"whole": city, "streamed": city}
        assert [asked.schema is not None for asked in setup.requests] == [True, True]


@OPENAI.does("previous_response_id")
async def test_a_chain_has_its_history(tmp_path: Path, dialect: Dialect, release: Release) -> None:
    async with client_gateway(tmp_path, dialect, [Reply("Hello, Ada."), Reply("Ada.")]) as setup:
        seen = await run_program(setup, "openai", "chain", release)
        assert seen == {"texts": ["Hello, Ada.", "Ada."], "follows": True}
        history = setup.requests[1].messages
        assert (history[0], history[-1]) == (
            ("user", "My name is Ada."),
            ("user", "What is my name?"),
        )
        assert "".join(text for _, text in history[1:-1]) == "Hello, Ada."


@OPENAI.does("unknown model", "chat")
async def test_an_unknown_model_is_not_found(
    tmp_path: Path, dialect: Dialect, release: Release
) -> None:
    async with client_gateway(tmp_path, dialect, []) as setup:
        seen = await run_program(setup, "openai", "missing", release)
        assert (seen["name"], seen["status"]) == ("NotFoundError", 404)
        assert (seen["code"], seen["param"]) == ("model_not_found", "model")
        assert "nobody/knows" in seen["message"]


@OPENAI.does("429, then again")
async def test_a_rate_limit_is_reported_and_the_client_retries(
    tmp_path: Path, dialect: Dialect, release: Release
) -> None:
    refused = rate_limited(dialect, 1)
    async with client_gateway(tmp_path, dialect, [refused, refused, Reply("At last.")]) as setup:
        seen = await run_program(setup, "openai", "limited", release)
        error = seen["refused"]
        assert (error["name"], error["status"]) == ("RateLimitError", 429)
        assert (error["code"], error["retry_after"]) == ("rate_limit_exceeded", "1")
        assert seen["output_text"] == "At last."


@OPENAI.does("cut stream")
async def test_a_stream_that_is_cut_ends_in_a_failure(
    tmp_path: Path, dialect: Dialect, release: Release
) -> None:
    reply = Reply("A sentence that does not come to its end.")
    async with client_gateway(tmp_path, dialect, [CutReply(reply, after="sentence")]) as setup:
        seen = await run_program(setup, "openai", "cut", release)
        assert "response.output_text.delta" in seen["events"]
        assert seen["events"][-1] == "response.failed"
        assert seen["status"] == "failed"
