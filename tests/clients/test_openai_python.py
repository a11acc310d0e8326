"""The `openai` package for Python."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from tests.support.clients.gateway import Stage, stage
from tests.support.clients.python_programs import played
from tests.support.clients.scenario import Client
from tests.support.clients.scripted_model import Call, Cut, Dialect, Say, limited

OPENAI = Client("openai (Python)", "pypi:openai")
CITY = '{"name":"Ulm","people":126000}'
BOTH = [Call("get_weather", {"city": "Ulm"}), Call("get_weather", {"city": "Bonn"})]
SUNNY = ["sunny in Ulm", "sunny in Bonn"]
play = partial(played, program="openai_client")


@OPENAI.does("responses.create")
async def test_a_whole_answer(tmp_path: Path, dialect: Dialect) -> None:
    async with stage(tmp_path, dialect, [Say("Good day.", tokens=21)]) as s:
        seen = await play(s, scenario="create")
        usage = seen["usage"]
        assert (seen["text"], seen["status"]) == ("Good day.", "completed")
        assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (21, 5, 26)
        assert s.asked[0].said == [("system", "Be kind."), ("user", "Good morning")]
        assert not s.asked[0].streamed


@OPENAI.does("responses.create, streamed")
async def test_a_stream(tmp_path: Path, dialect: Dialect) -> None:
    async with stage(tmp_path, dialect, [Say("Good day.")]) as s:
        seen = await play(s, scenario="create_stream")
        assert (seen["deltas"], seen["text"]) == ("Good day.", "Good day.")
        assert seen["numbers"] == [*range(len(seen["events"]))]
        assert seen["events"][:2] == ["response.created", "response.in_progress"]
        assert seen["events"][-1] == "response.completed"
        assert s.asked[0].streamed


@OPENAI.does("responses.stream")
async def test_the_stream_helper(tmp_path: Path, dialect: Dialect) -> None:
    async with stage(tmp_path, dialect, [Say("Good day.")]) as s:
        seen = await play(s, scenario="helper")
        assert (seen["snapshot"], seen["text"]) == ("Good day.", "Good day.")
        assert seen["status"] == "completed"


@OPENAI.does("responses.parse")
async def test_an_answer_of_a_type(tmp_path: Path, dialect: Dialect) -> None:
    async with stage(tmp_path, dialect, [Say(CITY)]) as s:
        seen = await play(s, scenario="parse")
        assert seen == {"name": "Ulm", "people": 126000}
        assert '"people"' in s.asked[0].text


@OPENAI.does("responses.stream, typed", "chat")
async def test_a_streamed_answer_of_a_type(tmp_path: Path, dialect: Dialect) -> None:
    async with stage(tmp_path, dialect, [Say(CITY)]) as s:
        seen = await play(s, scenario="parse_stream")
        assert seen == {"name": "Ulm", "people": 126000}
        assert '"people"' in s.asked[0].text


@OPENAI.does("function tools, stateless")
async def test_two_calls_at_once(tmp_path: Path, dialect: Dialect) -> None:
    script = [Say(thought="Two cities.", calls=BOTH), Say("Sun everywhere.")]
    async with stage(tmp_path, dialect, script) as s:
        first, second = await play(s, scenario="tools")
        assert first["types"] == ["reasoning", "function_call", "function_call"]
        assert second["text"] == "Sun everywhere."
        check_results(s)
        assert s.asked[1].states == [s.player.state(0, "Two cities.")]


@OPENAI.does("function tools, previous_response_id")
async def test_streamed_calls_and_a_server_that_remembers(tmp_path: Path, dialect: Dialect) -> None:
    script = [Say(thought="Two cities.", calls=BOTH), Say("Sun everywhere.")]
    async with stage(tmp_path, dialect, script) as s:
        seen = await play(s, scenario="tools_stream")
        assert seen["cities"] == ["Ulm", "Bonn"]
        assert seen["turns"][1]["text"] == "Sun everywhere."
        assert s.asked[1].says("user") == "Ulm and Bonn?"
        check_results(s)
        assert s.asked[1].states == [s.player.state(0, "Two cities.")]


def check_results(s: Stage) -> None:
    assert s.asked[1].calls == [(call.name, call.arguments) for call in BOTH]
    assert s.asked[1].results == SUNNY


@OPENAI.does("previous_response_id")
async def test_a_chain_of_responses(tmp_path: Path, dialect: Dialect) -> None:
    async with stage(tmp_path, dialect, [Say("1"), Say("2"), Say("3")]) as s:
        seen = await play(s, scenario="chain")
        assert [turn["text"] for turn in seen] == ["1", "2", "3"]
        assert s.asked[2].said == [
            ("user", "One?"),
            ("assistant", "1"),
            ("user", "Two?"),
            ("assistant", "2"),
            ("user", "Three?"),
        ]


@OPENAI.does("reasoning over turns")
async def test_thoughts_are_shown_and_come_back(tmp_path: Path, dialect: Dialect) -> None:
    script = [Say("Ready.", thought="Let me see."), Say("Still ready.")]
    async with stage(tmp_path, dialect, script) as s:
        seen = await play(s, scenario="reasoning")
        assert "".join(seen["thoughts"]) == "Let me see."
        assert any(seen["sealed"])
        assert [turn["text"] for turn in seen["turns"]] == ["Ready.", "Still ready."]
        assert s.asked[1].states == [s.player.state(0, "Let me see.")]


@OPENAI.does("waits and asks again after 429", "chat")
async def test_the_client_comes_back_when_it_is_told_to(tmp_path: Path, dialect: Dialect) -> None:
    async with stage(tmp_path, dialect, [limited(dialect, 1), Say("Good day.")]) as s:
        assert (await play(s, scenario="retry"))["text"] == "Good day."


@OPENAI.does("errors are exceptions")
async def test_errors_are_what_the_client_expects(tmp_path: Path, dialect: Dialect) -> None:
    async with stage(tmp_path, dialect, [limited(dialect, 7), limited(dialect, 7)]) as s:
        seen = await play(s, scenario="errors")
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
async def test_a_cut_is_a_failed_response(tmp_path: Path, dialect: Dialect) -> None:
    async with stage(tmp_path, dialect, [Cut(Say("Good morning to everybody."), "Good")]) as s:
        seen = await play(s, scenario="cut")
        assert seen["last"] == "response.failed"
        assert seen["code"]
        assert seen["message"]
