"""The `llm` command, with a model of its own configuration."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.clients.gateway import MODEL, ClientGateway, FinishedProcess, client_gateway
from tests.support.clients.installed import python_command
from tests.support.clients.scenario import Client
from tests.support.clients.scripted_model import Call, Dialect, Reply

LLM = Client("llm", "pypi:llm")
TOOL = '''
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"
'''


async def llm(setup: ClientGateway, *arguments: str) -> FinishedProcess:
    """Run the command; everything it writes stays in the scratch directory."""
    path = setup.home / "llm"
    path.mkdir(exist_ok=True)
    model = {
        "model_id": MODEL,
        "model_name": MODEL,
        "api_base": setup.base_url,
        "responses": True,
        "supports_tools": True,
        "supports_schema": True,
        "reasoning": True,
    }
    # What is JSON is YAML.
    (path / "extra-openai-models.yaml").write_text(json.dumps([model]), encoding="utf-8")
    argv = [python_command("llm"), "-m", MODEL, *arguments]
    return (await setup.run(argv, env={"LLM_USER_PATH": str(path)})).check_success()


@LLM.does("streamed")
async def test_a_streamed_text(tmp_path: Path, dialect: Dialect) -> None:
    async with client_gateway(tmp_path, dialect, [Reply("Good day.", thought="Be kind.")]) as setup:
        assert (await llm(setup, "-s", "Be kind.", "Good morning")).out == "Good day.\n"
        assert setup.requests[0].messages == [("system", "Be kind."), ("user", "Good morning")]
        assert setup.requests[0].streamed


@LLM.does("not streamed, usage")
async def test_a_whole_text(tmp_path: Path, dialect: Dialect) -> None:
    async with client_gateway(tmp_path, dialect, [Reply("Good day.", tokens=21)]) as setup:
        done = await llm(setup, "--no-stream", "--usage", "Good morning")
        assert done.out == "Good day.\n"
        assert "21 input, 5 output" in done.err
        assert not setup.requests[0].streamed


@LLM.does("tools")
async def test_tools(tmp_path: Path, dialect: Dialect) -> None:
    calls = [Call("get_weather", {"city": "Ulm"}), Call("get_weather", {"city": "Bonn"})]
    script = [Reply(thought="Two cities.", calls=calls), Reply("Sun.")]
    async with client_gateway(tmp_path, dialect, script) as setup:
        done = await llm(setup, "--functions", TOOL, "Ulm and Bonn?")
        assert done.out.endswith("Sun.\n")
        assert setup.requests[1].calls == [(call.name, call.arguments) for call in calls]
        assert setup.requests[1].results == ["sunny in Ulm", "sunny in Bonn"]
        assert setup.requests[1].states == [setup.model.state(0, "Two cities.")]


@LLM.does("schema")
async def test_an_answer_by_schema(tmp_path: Path, dialect: Dialect) -> None:
    async with client_gateway(
        tmp_path, dialect, [Reply('{"name":"Ulm","people":126000}')]
    ) as setup:
        done = await llm(setup, "--schema", "name, people int", "Which city?")
        assert json.loads(done.out) == {"name": "Ulm", "people": 126000}
        assert '"people"' in setup.requests[0].text


@LLM.does("conversation", "chat")
async def test_a_conversation_is_continued(tmp_path: Path, dialect: Dialect) -> None:
    async with client_gateway(tmp_path, dialect, [Reply("1"), Reply("2")]) as setup:
        await llm(setup, "One?")
        assert (await llm(setup, "--continue", "Two?")).out == "2\n"
        assert setup.requests[1].messages == [
            ("user", "One?"),
            ("assistant", "1"),
            ("user", "Two?"),
        ]
