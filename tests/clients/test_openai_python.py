"""The `openai` package for Python."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tests.support.clients.gateway import ClientSetup, client_setup
from tests.support.clients.python_programs import run_program
from tests.support.clients.scenario import Client, Transport
from tests.support.clients.scripted_model import Call, CutReply, Dialect, Reply, rate_limited

OPENAI = Client("openai (Python)", "pypi:openai", in_process=True)
CITY = '{"name":"Ulm","people":126000}'
BOTH = [Call("get_weather", {"city": "Ulm"}), Call("get_weather", {"city": "Bonn"})]
SUNNY = ["sunny in Ulm", "sunny in Bonn"]
play = partial(run_program, program="openai_client")


@OPENAI.does("responses.create")
async def test_a_whole_answer(tmp_path: Path, dialect: Dialect, transport: Transport) -> None:
    async with client_setup(tmp_path, dialect, transport, [Reply("Good day.", tokens=21)]) as setup:
        seen = await play(setup, scenario="create")
        usage = seen["usage"]
        assert (seen["text"], seen["status"]) == ("Good day.", "completed")
        assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (21, 5, 26)
        assert setup.requests[0].messages == [("system", "Be kind."), ("user", "Good morning")]
        assert not setup.requests[0].streamed


@OPENAI.does("responses.create, streamed")
async def test_a_stream(tmp_path: Path, dialect: Dialect, transport: Transport) -> None:
    async with client_setup(tmp_path, dialect, transport, [Reply("Good day.")]) as setup:
        seen = await play(setup, scenario="create_stream")
        assert (seen["deltas"], seen["text"]) == ("Good day.", "Good day.")
        assert seen["numbers"] == [*range(len(seen["events"]))]
        assert seen["events"][:2] == ["response.created", "response.in_progress"]
        assert seen["events"][-1] == "response.completed"
        assert setup.requests[0].streamed


@OPENAI.does("responses.stream")
async def test_the_stream_helper(tmp_path: Path, dialect: Dialect, transport: Transport) -> None:
    async with client_setup(tmp_path, dialect, transport, [Reply("Good day.")]) as setup:
        seen = await play(setup, scenario="helper")
        assert (seen["snapshot"], seen["text"]) == ("Good day.", "Good day.")
        assert seen["status"] == "completed"


@OPENAI.does("responses.parse")
async def test_an_answer_of_a_type(tmp_path: Path, dialect: Dialect, transport: Transport) -> None:
    async with client_setup(tmp_path, dialect, transport, [Reply(CITY)]) as setup:
        seen = await play(setup, scenario="parse")
        assert seen == {"name": "Ulm", "people": 126000}
        assert '"people"' in setup.requests[0].text


@OPENAI.does("responses.stream, typed", "chat")
async def test_a_streamed_answer_of_a_type(
    tmp_path: Path, dialect: Dialect, transport: Transport
) -> None:
    async with client_setup(tmp_path, dialect, transport, [Reply(CITY)]) as setup:
        seen = await play(setup, scenario="parse_stream")
        assert seen == {"name": "Ulm", "people": 126000}
        assert '"people"' in setup.requests[0].text


@OPENAI.does("function tools, stateless")
async def test_two_calls_at_once(tmp_path: Path, dialect: Dialect, transport: Transport) -> None:
    script = [Reply(thought="Two cities.", calls=BOTH), Reply("Sun everywhere.")]
    async with client_setup(tmp_path, dialect, transport, script) as setup:
        first, second = await play(setup, scenario="tools")
        assert first["types"] == ["reasoning", "function_call", "function_call"]
        assert second["text"] == "Sun everywhere."
        check_results(setup)
        assert setup.requests[1].states == [setup.model.state(0, "Two cities.")]


@OPENAI.does("function tools, previous_response_id")
async def test_streamed_calls_with_stored_history(
    tmp_path: Path, dialect: Dialect, transport: Transport
) -> None:
    script = [Reply(thought="Two cities.", calls=BOTH), Reply("Sun everywhere.")]
    async with client_setup(tmp_path, dialect, transport, script) as setup:
        seen = await play(setup, scenario="tools_stream")
        assert seen["cities"] == ["Ulm", "Bonn"]
        assert seen["turns"][1]["text"] == "Sun everywhere."
        assert setup.requests[1].text_of_role("user") == "Ulm and Bonn?"
        check_results(setup)
        assert setup.requests[1].states == [setup.model.state(0, "Two cities.")]


def check_results(setup: ClientSetup) -> None:
    assert setup.requests[1].calls == [(call.name, call.arguments) for call in BOTH]
    assert setup.requests[1].results == SUNNY


@OPENAI.does("previous_response_id")
async def test_a_chain_of_responses(tmp_path: Path, dialect: Dialect, transport: Transport) -> None:
    async with client_setup(
        tmp_path, dialect, transport, [Reply("1"), Reply("2"), Reply("3")]
    ) as setup:
        seen = await play(setup, scenario="chain")
        assert [turn["text"] for turn in seen] == ["1", "2", "3"]
        assert setup.requests[2].messages == [
            ("user", "One?"),
            ("assistant", "1"),
            ("user", "Two?"),
            ("assistant", "2"),
            ("user", "Three?"),
        ]


@OPENAI.does("reasoning over turns")
async def test_reasoning_is_streamed_and_replayed(
    tmp_path: Path, dialect: Dialect, transport: Transport
) -> None:
    script = [Reply("Ready.", thought="Let me see."), Reply("Still ready.")]
    async with client_setup(tmp_path, dialect, transport, script) as setup:
        seen = await play(setup, scenario="reasoning")
        assert "".join(seen["thoughts"]) == "Let me see."
        assert any(seen["sealed"])
        assert [turn["text"] for turn in seen["turns"]] == ["Ready.", "Still ready."]
        assert setup.requests[1].states == [setup.model.state(0, "Let me see.")]


@OPENAI.does("AsyncOpenAI", "chat")
async def test_the_asynchronous_client(
    tmp_path: Path, dialect: Dialect, transport: Transport
) -> None:
    script = [Reply("One."), Reply("Two."), Reply(calls=BOTH), Reply("Sun everywhere.")]
    async with client_setup(tmp_path, dialect, transport, script) as setup:
        seen = await play(setup, scenario="asynchronous")
        texts = [turn["text"] for turn in seen["turns"]]
        assert texts == ["One.", "Two.", "", "Sun everywhere."]
        assert seen["events"][-1] == "response.completed"
        assert setup.requests[3].results == SUNNY


@OPENAI.does("waits and asks again after 429", "chat")
async def test_the_client_retries_after_the_given_delay(
    tmp_path: Path, dialect: Dialect, transport: Transport
) -> None:
    async with client_setup(
        tmp_path, dialect, transport, [rate_limited(dialect, 1), Reply("Good day.")]
    ) as setup:
        assert (await play(setup, scenario="retry"))["text"] == "Good day."


@OPENAI.does("errors are exceptions")
async def test_errors_are_what_the_client_expects(
    tmp_path: Path, dialect: Dialect, transport: Transport
) -> None:
    async with client_setup(
        tmp_path, dialect, transport, [rate_limited(dialect, 7), rate_limited(dialect, 7)]
    ) as setup:
        seen = await play(setup, scenario="errors")
        assert all(error.pop("request_id") for error in seen.values())
        for limit in (seen["limit"], seen["stream"]):
            assert (limit["class"], limit["status"]) == ("RateLimitError", 429)
            assert (limit["code"], limit["retry_after"]) == ("rate_limit_exceeded", "7")
        assert (seen["param"]["class"], seen["param"]["param"]) == (
            "BadRequestError",
            "temperature",
        )
        assert seen["chain"]["code"] == "previous_response_not_found"
        assert seen["model"]["class"] == "NotFoundError"
        assert seen["model"]["code"] == "model_not_found"


@OPENAI.does("a stream that is cut")
async def test_a_cut_is_a_failed_response(
    tmp_path: Path, dialect: Dialect, transport: Transport
) -> None:
    async with client_setup(
        tmp_path, dialect, transport, [CutReply(Reply("Good morning to everybody."), "Good")]
    ) as setup:
        seen = await play(setup, scenario="cut")
        assert seen["last"] == "response.failed"
        assert seen["code"]
        assert seen["message"]
