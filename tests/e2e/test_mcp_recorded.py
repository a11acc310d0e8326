"""Managed MCP beside recordings of the official API: the same events, item by item."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon.cli.main import main
from antiphon.core.mcp.values import McpImage, McpProblem, McpResult, McpTool, McpToolList
from tests.support.corpus import ABSENT, root
from tests.support.gateways import events_of
from tests.support.mcp.value_servers import DOWN, ValueServers, use_servers, weather_server
from tests.support.rounds import (
    call_delta,
    reasoning_delta,
    round_script,
    rounds_gateway,
    streamed_and_whole,
    text_delta,
)
from tests.support.upstream import Script

Document = dict[str, Any]
CALLED = "stream-mcp-reasoning-o4-mini-b1a2a"
ASKED = "stream-mcp-reasoning-gpt-5-nano-93067"
with_corpus = pytest.mark.skipif(root() is None, reason=ABSENT)
recorded = pytest.mark.parametrize("name", [CALLED, ASKED], ids=["called", "approval requested"])
_DIFFERENT = frozenset({"id", "item_id", "sequence_number", "obfuscation"})
"""Members that differ in every response."""


def read_recording(name: str) -> bytes:
    corpus = root()
    assert corpus is not None
    return (corpus / "openai" / "responses" / name / "response.sse").read_bytes()


def mcp_events(events: Iterable[Document]) -> list[Document]:
    """Every event of an MCP item, in order, without ids."""
    found = [each for each in events if "mcp" in each["type"] or "mcp" in item_type(each)]
    return [_strip(each) for each in found]


def item_type(event: Document) -> str:
    return str(event.get("item", {}).get("type", ""))


def _strip(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _strip(each) for name, each in value.items() if name not in _DIFFERENT}
    return [_strip(each) for each in value] if isinstance(value, list) else value


def item_order(events: Iterable[Document]) -> list[str]:
    """When items begin and end, of all types."""
    kinds = ("response.output_item.added", "response.output_item.done")
    return [f"{each['type']} {item_type(each)}" for each in events if each["type"] in kinds]


# --- the same response, made by the gateway -------------------------------------------------------


class Recorded:
    """What the model and the server said in a recording, for a gateway that calls the server."""

    def __init__(self, events: Sequence[Document]) -> None:
        done = [each["item"] for each in events if each["type"] == "response.output_item.done"]
        by_type = {item["type"]: item for item in done}
        self.listed = by_type["mcp_list_tools"]
        self.call = by_type.get("mcp_call") or by_type["mcp_approval_request"]
        self.has_answer = "message" in by_type

    @property
    def label(self) -> str:
        return str(self.listed["server_label"])

    def servers(self) -> ValueServers:
        tools = tuple(
            McpTool(
                name=tool["name"],
                description=tool["description"],
                input_schema=tool["input_schema"],
                annotations=tool["annotations"],
            )
            for tool in self.listed["tools"]
        )
        found = ValueServers(**{self.label: McpToolList(tools=tools)})
        output = self.call.get("output")
        found.tools[self.label, self.call["name"]] = lambda _: McpResult(text=output or "")
        return found

    def rounds(self) -> list[Script]:
        name = f"{self.label}__{self.call['name']}"
        thought = reasoning_delta("Hm.")
        called = round_script(thought, call_delta(("call_1", name, self.call["arguments"])))
        answer = round_script(thought, text_delta("Done."))
        return [called, answer] if self.has_answer else [called]

    def tool(self) -> Document:
        approval = "never" if self.has_answer else "always"
        address = {"server_label": self.label, "server_url": "https://recorded.example/mcp"}
        return {"type": "mcp", "require_approval": approval, **address}


@with_corpus
@recorded
async def test_the_gateway_makes_the_recorded_events(tmp_path: Path, name: str) -> None:
    events = events_of(read_recording(name))
    said = Recorded(events)
    async with rounds_gateway(tmp_path, *said.rounds()) as setup:
        use_servers(setup.gateway.engine, said.servers())
        answer = await setup.post_request(stream=True, tools=[said.tool()])
    assert mcp_events(answer.events) == mcp_events(events)
    assert item_order(answer.events) == item_order(events)
    assert answer.events[-1]["type"] == events[-1]["type"]


@with_corpus
@recorded
def test_a_replay_of_the_recording_gives_them_too(name: str) -> None:
    data = read_recording(name)
    events = antiphon.replay(data, dialect="responses")
    assert mcp_events(events) == mcp_events(events_of(data))
    assert item_order(events) == item_order(events_of(data))


# --- failures, of which there is no recording -----------------------------------------------------

SKY: Document = {
    "type": "mcp",
    "server_label": "sky",
    "server_url": "https://sky.example/mcp",
    "require_approval": "never",
}
ULM = '{"city": "Ulm"}'
PIXEL = McpImage(media_type="image/png", data="AA==")
GONE = McpProblem(type="http_error", message="HTTP 503", code=503)


def give(result: McpResult, arguments: Mapping[str, Any]) -> McpResult:
    return result


def order(events: Iterable[Document]) -> list[str]:
    return [f"{each['type']} {item_type(each)}".strip() for each in events]


async def test_a_list_that_fails_has_the_documented_order(tmp_path: Path) -> None:
    """`failed` comes before the end of its item, which has the error (docs/mcp.md)."""
    async with rounds_gateway(tmp_path) as setup:
        use_servers(setup.gateway.engine, ValueServers(sky=McpToolList(problem=DOWN)))
        answer = await setup.post_request(stream=True, tools=[SKY])
    assert order(answer.events) == [
        "response.created",
        "response.in_progress",
        "response.output_item.added mcp_list_tools",
        "response.mcp_list_tools.in_progress",
        "response.mcp_list_tools.failed",
        "response.output_item.done mcp_list_tools",
        "response.failed",
    ]
    assert answer.events[5]["item"]["error"] == DOWN.message


async def test_a_call_that_fails_has_the_order_of_one_that_does_not(tmp_path: Path) -> None:
    """With `failed` in the place of `completed`, before the end of its item (docs/mcp.md)."""
    asked = round_script(call_delta(("call_1", "sky__weather", ULM)))
    answer = round_script(text_delta("Done."))
    orders: list[list[str]] = []
    for number, result in enumerate((McpResult(text="Sunny."), McpResult(problem=GONE))):
        directory = tmp_path / str(number)
        directory.mkdir()
        servers = weather_server()
        servers.tools["sky", "weather"] = partial(give, result)
        async with rounds_gateway(directory, asked, answer) as setup:
            use_servers(setup.gateway.engine, servers)
            orders.append(order((await setup.post_request(stream=True, tools=[SKY])).events))
    completed, failed = orders
    failing = [each.replace("mcp_call.completed", "mcp_call.failed") for each in completed]
    assert failed == failing
    assert json.dumps(failed).count("response.mcp_call.failed") == 1


# --- what a trace gives of a response whose calls the gateway made --------------------------------


THOUGHT = reasoning_delta("Hm.")
ONE = round_script(THOUGHT, call_delta(("call_1", "sky__weather", ULM)))
TWO = round_script(
    call_delta(("a", "sky__weather", ULM), ("b", "sky__weather", '{"city": "Bonn"}'))
)
BAD = round_script(call_delta(("call_1", "sky__weather", "[1]")))
DONE = round_script(THOUGHT, text_delta("Done."))
RESPONSES: dict[str, tuple[list[Script], McpResult, Document]] = {
    "call": ([ONE, DONE], McpResult(text="Sunny."), {}),
    "image": ([ONE, DONE], McpResult(text="Sunny.", images=(PIXEL,)), {}),
    "several rounds": ([ONE, TWO, DONE], McpResult(text="Sunny."), {}),
    "error of a tool": ([ONE, DONE], McpResult(text="No such city.", is_error=True), {}),
    "error of a server": ([ONE, DONE], McpResult(problem=GONE), {}),
    "arguments that are none": ([BAD, DONE], McpResult(), {}),
    "approval requested": ([ONE], McpResult(), {"require_approval": "always"}),
    "no call": ([DONE], McpResult(), {}),
}


def replay_trace(
    directory: Path, trace: Path, id: str, capsys: pytest.CaptureFixture[str]
) -> tuple[list[Document], str]:
    """What `antiphon trace replay` prints, and what it notes."""
    config = directory / "antiphon.toml"
    config.write_text(f'[trace]\npath = "{trace}"\n')
    assert main(["trace", "replay", id, "--config", str(config)]) == 0
    printed = capsys.readouterr()
    return [json.loads(line) for line in printed.out.splitlines()], printed.err


@streamed_and_whole
@pytest.mark.parametrize("kind", RESPONSES)
async def test_a_traced_response_with_calls_is_made_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, stream: bool
) -> None:
    rounds, result, fields = RESPONSES[kind]
    async with rounds_gateway(tmp_path, *rounds, payloads=True) as setup:
        servers = weather_server()
        servers.tools["sky", "weather"] = partial(give, result)
        use_servers(setup.gateway.engine, servers)
        seen = await setup.post_request(stream=stream, tools=[{**SKY, **fields}])
    made, note = replay_trace(tmp_path, setup.trace, seen.response["id"], capsys)
    assert note == ""
    if stream:
        assert order(made) == order(seen.events)
    assert without_ids(made[-1]["response"]) == without_ids(seen.response)
    assert made[-1]["response"]["id"] != seen.response["id"]  # it was made again


async def test_a_traced_list_that_failed_is_made_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with rounds_gateway(tmp_path, payloads=True) as setup:
        use_servers(setup.gateway.engine, ValueServers(sky=McpToolList(problem=DOWN)))
        seen = await setup.post_request(stream=True, tools=[SKY])
    made, _ = replay_trace(tmp_path, setup.trace, seen.response["id"], capsys)
    assert order(made) == order(seen.events)


def without_ids(value: Any) -> Any:
    different = {*_DIFFERENT, "created_at", "completed_at", "encrypted_content"}
    if isinstance(value, dict):
        return {name: without_ids(each) for name, each in value.items() if name not in different}
    return [without_ids(each) for each in value] if isinstance(value, list) else value
