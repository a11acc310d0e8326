"""Web search run by the gateway for models that have none.

A scripted provider that only knows functions, a recorded search engine, and the real gateway
between them and the client. Theme 22 of what users ask for; defects 16 to 20 of the closest system.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import ProviderConfig, SearchConfig
from tests.support.checked_gateway import (
    CheckedGateway,
    Document,
    done_items,
    event_types,
    final_response,
    items_of_type,
    text,
)
from tests.support.gateways import replaced, running, settings
from tests.support.upstream import DONE, Connection, ReceivedRequest, chunk, upstream, usage

SEARCH = {"type": "web_search"}
READ = {
    "type": "function",
    "name": "read",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
}
RAIN = {"title": "Rain", "url": "https://weather.example/rain", "snippet": "It rains."}
SUN = {"title": "Sun", "url": "https://other.example/sun", "snippet": "It shines."}
ANSWERS: dict[str, Any] = {"rain": [RAIN, SUN], "sun": [SUN], "storm": "failed", "*": []}

Round = Sequence[Document]
"""What the model says in one round: deltas of a Chat Completions choice."""


def calls(*given: tuple[str, str, str]) -> Document:
    """A delta with whole calls: id, name, arguments."""
    return {
        "tool_calls": [
            {"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}}
            for index, (call_id, name, arguments) in enumerate(given)
        ]
    }


def search(query: str, call_id: str = "call_s") -> tuple[str, str, str]:
    return call_id, "web_search", json.dumps({"query": query})


def text_delta(words: str) -> Document:
    return {"content": words}


class SearchingModel:
    """A provider with one answer for each round, streamed or whole as requested."""

    def __init__(self, rounds: Sequence[Round]) -> None:
        self._rounds = iter(rounds)

    async def __call__(self, request: ReceivedRequest, connection: Connection) -> None:
        deltas = next(self._rounds)
        finish = "tool_calls" if any("tool_calls" in delta for delta in deltas) else "stop"
        if request.body.get("stream"):
            await connection.head()
            for delta in deltas:
                await connection.send(chunk(delta))
            for last in (chunk({}, finish), usage(), DONE):
                await connection.send(last)
        else:
            await connection.head(content_type="application/json")
            await connection.send(json.dumps(_whole(deltas, finish)).encode())
        await connection.end()


def _whole(deltas: Round, finish: str) -> Document:
    message: Document = {"role": "assistant", "content": ""}
    for delta in deltas:
        message["content"] += delta.get("content", "")
        if "tool_calls" in delta:
            message["tool_calls"] = [{"type": "function", **call} for call in delta["tool_calls"]]
    choice = {"index": 0, "message": message, "finish_reason": finish}
    counts = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    return {"id": "c1", "model": "scripted", "choices": [choice], "usage": counts}


@asynccontextmanager
async def search_gateway(
    tmp_path: Path, *rounds: Round, kind: str = "chat"
) -> AsyncIterator[CheckedGateway]:
    path = tmp_path / "answers.json"
    path.write_text(json.dumps(ANSWERS))
    recorded = SearchConfig(backend="recorded", url=f"file://{path}")
    async with upstream(SearchingModel(rounds)) as server:
        entry = ProviderConfig(kind=kind, base_url=server.url, api_keys=["k"])
        config = replaced(settings(tmp_path, server.url), providers={"up": entry}, search=recorded)
        async with running(config) as gateway:
            yield CheckedGateway(gateway, server)


async def answered(setup: CheckedGateway, *, stream: bool, **body: Any) -> Document:
    """Return the finished response; streamed and whole must be equal."""
    if stream:
        return final_response(await setup.stream(**body))
    return await setup.whole(**body)


def shape(response: Document) -> list[str]:
    return [item["type"] for item in response["output"]]


def searches(response: Document) -> list[Document]:
    return [item for item in response["output"] if item["type"] == "web_search_call"]


def tool_messages(body: Document) -> list[str]:
    return [message["content"] for message in body["messages"] if message["role"] == "tool"]


def citations(response: Document) -> list[tuple[str, str]]:
    """The annotated text of the last message, and the cited URLs."""
    part = response["output"][-1]["content"][0]
    return [
        (part["text"][each["start_index"] : each["end_index"]], each["url"])
        for each in part["annotations"]
    ]


both_ways = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


# --- the loop -------------------------------------------------------------------------------------


async def test_a_search_is_made_while_the_answer_streams(tmp_path: Path) -> None:
    rounds = [
        [text_delta("Let me see."), calls(search("rain"))],
        [text_delta("It rains "), text_delta("[1].")],
    ]
    async with search_gateway(tmp_path, *rounds) as setup:
        events = await setup.stream(tools=[SEARCH])
        first, second = (messages.body for messages in setup.upstream.requests)
    actual = [kind for kind in event_types(events) if "web_search" in kind]
    assert actual == [
        "response.web_search_call.in_progress",
        "response.web_search_call.searching",
        "response.web_search_call.completed",
    ]
    response = final_response(events)
    assert response["status"] == "completed"
    assert [kind for kind in shape(response) if kind != "reasoning"] == [
        "message",
        "web_search_call",
        "message",
    ]
    [item] = searches(response)
    action = {"type": "search", "query": "rain", "queries": ["rain"]}
    assert (item["status"], item["action"]) == ("completed", action)
    assert text(response) == "Let me see.It rains [1]."
    assert [tool["function"]["name"] for tool in first["tools"]] == ["web_search"]
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert second["tools"] == first["tools"]
    assert tool_messages(second) == [
        "[1] Rain\nhttps://weather.example/rain\nIt rains.\n\n"
        "[2] Sun\nhttps://other.example/sun\nIt shines."
    ]


@both_ways
async def test_an_answer_is_the_same_streamed_and_whole(tmp_path: Path, stream: bool) -> None:
    rounds = [[calls(search("rain"))], [text_delta("It rains [1].")]]
    async with search_gateway(tmp_path, *rounds) as setup:
        response = await answered(setup, stream=stream, tools=[SEARCH])
    kept = [kind for kind in shape(response) if kind != "reasoning"]
    assert kept == ["web_search_call", "message"]
    assert text(response) == "It rains [1]."
    assert citations(response) == [("[1]", RAIN["url"])]


@both_ways
async def test_usage_counts_every_round(tmp_path: Path, stream: bool) -> None:
    rounds = [[calls(search("rain"))], [text_delta("So.")]]
    async with search_gateway(tmp_path, *rounds) as setup:
        response = await answered(setup, stream=stream, tools=[SEARCH])
    assert (response["usage"]["input_tokens"], response["usage"]["output_tokens"]) == (14, 6)


@both_ways
async def test_several_searches_in_one_round_are_all_made(tmp_path: Path, stream: bool) -> None:
    rounds = [[calls(search("rain", "c1"), search("sun", "c2"))], [text_delta("Both [1] [2].")]]
    async with search_gateway(tmp_path, *rounds) as setup:
        response = await answered(setup, stream=stream, tools=[SEARCH])
        sent = setup.last_body
    assert [item["action"]["query"] for item in searches(response)] == ["rain", "sun"]
    assert len(setup.upstream.requests) == 2
    assistant = next(each for each in sent["messages"] if each["role"] == "assistant")
    assert [call["id"] for call in assistant["tool_calls"]] == ["c1", "c2"]
    assert tool_messages(sent)[1] == "[2] Sun\nhttps://other.example/sun\nIt shines."


async def test_rounds_continue_while_the_model_searches(tmp_path: Path) -> None:
    rounds = [[calls(search("rain"))], [calls(search("sun"))], [text_delta("Both.")]]
    async with search_gateway(tmp_path, *rounds) as setup:
        events = await setup.stream(tools=[SEARCH])
    assert [item["action"]["query"] for item in searches(final_response(events))] == ["rain", "sun"]
    indexes = [event["output_index"] for event in events if "output_index" in event]
    assert indexes == sorted(indexes)
    assert len(tool_messages(setup.last_body)) == 2


async def test_a_forced_search_is_forced_once(tmp_path: Path) -> None:
    rounds = [[calls(search("rain"))], [text_delta("So.")]]
    async with search_gateway(tmp_path, *rounds) as setup:
        await setup.stream(tools=[SEARCH], tool_choice={"type": "web_search"})
        first, second = (messages.body for messages in setup.upstream.requests)
    assert first["tool_choice"] == {"type": "function", "function": {"name": "web_search"}}
    assert second.get("tool_choice", "auto") == "auto"


# --- beside other calls ---------------------------------------------------------------------------


@both_ways
async def test_text_and_a_parallel_call_are_unchanged_by_a_search(
    tmp_path: Path, stream: bool
) -> None:
    arguments = '{"path": "a.txt"}'
    rounds = [
        [text_delta("Wait."), calls(search("rain"), ("call_r", "read", arguments))],
        [text_delta("It rains, says the file [1].")],
    ]
    async with search_gateway(tmp_path, *rounds) as setup:
        response = await answered(setup, stream=stream, tools=[SEARCH, READ])
        assert len(setup.upstream.requests) == 1
        [call] = [item for item in response["output"] if item["type"] == "function_call"]
        assert (call["call_id"], call["name"], call["arguments"]) == ("call_r", "read", arguments)
        assert text(response) == "Wait."
        assert [item["status"] for item in searches(response)] == ["completed"]
        output = {"type": "function_call_output", "call_id": "call_r", "output": "wet"}
        later = await answered(
            setup,
            stream=stream,
            tools=[SEARCH, READ],
            input=[output],
            previous_response_id=response["id"],
        )
        assert sorted(tool_messages(setup.last_body))[1] == "wet"
        assert sorted(tool_messages(setup.last_body))[0].startswith("[1] Rain")
    assert later["status"] == "completed"
    assert citations(later) == [("[1]", RAIN["url"])]


async def test_a_client_function_named_web_search_is_called_by_the_client(tmp_path: Path) -> None:
    theirs = {"type": "function", "name": "web_search", "parameters": {"type": "object"}}
    rounds = [[calls(("c1", "web_search", '{"q": 1}'))]]
    async with search_gateway(tmp_path, *rounds) as setup:
        events = await setup.stream(tools=[theirs, SEARCH])
    [call] = items_of_type(events, "function_call")
    assert (call["name"], call["arguments"]) == ("web_search", '{"q": 1}')
    assert searches(final_response(events)) == []
    names = [tool["function"]["name"] for tool in setup.last_body["tools"]]
    assert names[0] == "web_search"
    assert len(set(names)) == 2


# --- limits and failures --------------------------------------------------------------------------


@both_ways
async def test_max_tool_calls_limits_searches(tmp_path: Path, stream: bool) -> None:
    rounds = [[calls(search("rain"))], [calls(search("sun"))], [text_delta("Enough.")]]
    async with search_gateway(tmp_path, *rounds) as setup:
        response = await answered(setup, stream=stream, tools=[SEARCH], max_tool_calls=1)
    assert [item["action"]["query"] for item in searches(response)] == ["rain"]
    assert text(response) == "Enough."
    assert "limit of searches" in tool_messages(setup.last_body)[1]


async def test_a_model_that_only_searches_is_stopped(tmp_path: Path) -> None:
    rounds = [[calls(search("rain"))]] * 40
    async with search_gateway(tmp_path, *rounds) as setup:
        events = await setup.stream(tools=[SEARCH])
    assert final_response(events)["status"] == "completed"
    assert len(searches(final_response(events))) == 10
    assert len(setup.upstream.requests) < 15
    assert setup.last_body["tool_choice"] == "none"


@both_ways
async def test_a_search_that_fails_does_not_fail_the_answer(tmp_path: Path, stream: bool) -> None:
    rounds = [[calls(search("storm"))], [text_delta("I do not know.")]]
    async with search_gateway(tmp_path, *rounds) as setup:
        response = await answered(setup, stream=stream, tools=[SEARCH])
    assert response["status"] == "completed"
    assert [item["status"] for item in searches(response)] == ["failed"]
    assert text(response) == "I do not know."
    assert "failed" in tool_messages(setup.last_body)[0]


async def test_invalid_search_arguments_are_returned_to_the_model(tmp_path: Path) -> None:
    rounds = [
        [calls(("c1", "web_search", '{"query": '))],
        [calls(search("sun"))],
        [text_delta("Sun.")],
    ]
    async with search_gateway(tmp_path, *rounds) as setup:
        events = await setup.stream(tools=[SEARCH])
    assert [item["action"]["query"] for item in searches(final_response(events))] == ["sun"]
    assert text(final_response(events)) == "Sun."


async def test_a_provider_failure_after_a_search_fails_the_response(tmp_path: Path) -> None:
    async def script(request: ReceivedRequest, connection: Connection) -> None:
        if len(request.body["messages"]) == 1:
            await SearchingModel([[calls(search("rain"))]])(request, connection)
        else:
            await connection.head(500, content_type="application/json")
            await connection.send(b'{"error": {"message": "broken"}}')
            await connection.end()

    path = tmp_path / "answers.json"
    path.write_text(json.dumps(ANSWERS))
    recorded = SearchConfig(backend="recorded", url=f"file://{path}")
    async with upstream(script) as server:
        config = replaced(settings(tmp_path, server.url), search=recorded)
        async with running(config) as gateway:
            events = await CheckedGateway(gateway, server).stream(tools=[SEARCH])
    assert event_types(events)[-1] == "response.failed"
    assert [item["status"] for item in searches(final_response(events))] == ["completed"]


# --- what the client is told ----------------------------------------------------------------------


async def test_citations_are_annotations_that_arrive_with_their_text(tmp_path: Path) -> None:
    link = f"[the sun]({SUN['url']})"
    answer = f"It rains [1], later {link}; see code `a[1]` and [7]."
    rounds = [[calls(search("rain"))], [text_delta(char) for char in answer]]
    async with search_gateway(tmp_path, *rounds) as setup:
        events = await setup.stream(tools=[SEARCH])
    added = [event for event in events if event["type"].endswith("annotation.added")]
    assert [event["annotation_index"] for event in added] == [0, 1]
    assert citations(final_response(events)) == [("[1]", RAIN["url"]), (link, SUN["url"])]
    [first, _] = final_response(events)["output"][-1]["content"][0]["annotations"]
    assert (first["type"], first["title"]) == ("url_citation", "Rain")


async def test_sources_are_included_if_the_client_asks(tmp_path: Path) -> None:
    rounds = [[calls(search("rain"))], [text_delta("So.")]]
    async with search_gateway(tmp_path, *rounds) as setup:
        events = await setup.stream(tools=[SEARCH], include=["web_search_call.action.sources"])
    [item] = searches(final_response(events))
    assert item["action"]["sources"] == [
        {"type": "url", "url": RAIN["url"]},
        {"type": "url", "url": SUN["url"]},
    ]


# --- later turns ----------------------------------------------------------------------------------


@pytest.mark.parametrize("tools", [[SEARCH], [READ], []], ids=["search", "another", "none"])
@pytest.mark.parametrize("stored", [True, False], ids=["stored", "echoed"])
async def test_search_results_are_in_the_history_of_the_next_turn(
    tmp_path: Path, stored: bool, tools: list[Document]
) -> None:
    rounds = [
        [text_delta("Hm."), calls(search("rain"))],
        [text_delta("It rains [1].")],
        [text_delta("Still [1].")],
    ]
    async with search_gateway(tmp_path, *rounds) as setup:
        question = {"role": "user", "content": "Rain?"}
        first = final_response(await setup.stream(tools=[SEARCH], input=[question], store=stored))
        more = {"role": "user", "content": "Sure?"}
        if stored:
            body: Document = {"input": [more], "previous_response_id": first["id"]}
        else:
            body = {"input": [question, *first["output"], more], "store": False}
        later = final_response(await setup.stream(tools=tools, **body))
        [_, second, third] = (messages.body for messages in setup.upstream.requests)
    assert later["status"] == "completed"
    messages = second["messages"]
    assert third["messages"][: len(messages)] == messages
    assert [message["role"] for message in third["messages"][len(messages) :]] == [
        "assistant",
        "user",
    ]


async def test_search_results_are_in_the_history_of_another_provider(tmp_path: Path) -> None:
    rounds = [[calls(search("rain"))], [text_delta("It rains [1].")], [text_delta("Still.")]]
    async with search_gateway(tmp_path, *rounds) as setup:
        first = final_response(await setup.stream(tools=[SEARCH], model="up/one"))
        await setup.stream(
            model="up/two", input="Sure?", previous_response_id=first["id"], tools=[SEARCH]
        )
    assert tool_messages(setup.last_body)[0].startswith("[1] Rain")


# --- restrictions ---------------------------------------------------------------------------------


async def test_only_results_of_allowed_domains_are_used(tmp_path: Path) -> None:
    tool = {**SEARCH, "filters": {"allowed_domains": ["weather.example"]}}
    rounds = [[calls(search("rain"))], [text_delta("So.")]]
    async with search_gateway(tmp_path, *rounds) as setup:
        events = await setup.stream(tools=[tool])
    assert tool_messages(setup.last_body) == ["[1] Rain\nhttps://weather.example/rain\nIt rains."]
    assert final_response(events)["status"] == "completed"


async def test_a_search_without_web_access_is_refused_with_the_reason(tmp_path: Path) -> None:
    async with search_gateway(tmp_path, [text_delta("So.")]) as setup:
        status, _, document = await setup.post(tools=[{**SEARCH, "external_web_access": False}])
        assert (status, setup.upstream.requests) == (400, [])
    assert "`external_web_access`" in document["error"]["message"]


async def test_a_search_that_may_not_be_called_is_never_made(tmp_path: Path) -> None:
    rounds = [[calls(search("rain"))], [text_delta("So.")]]
    async with search_gateway(tmp_path, *rounds) as setup:
        events = await setup.stream(tools=[SEARCH], tool_choice="none")
    assert searches(final_response(events)) == []
    assert text(final_response(events)) == "So."


async def test_every_item_is_done_once_and_in_order(tmp_path: Path) -> None:
    """GodeX reused an index, and lost the search, where text came after the call."""
    rounds = [[calls(search("rain")), text_delta("After.")], [text_delta("It rains.")]]
    async with search_gateway(tmp_path, *rounds) as setup:
        events = await setup.stream(tools=[SEARCH])
    assert done_items(events) == final_response(events)["output"]
    ids = [item["id"] for item in done_items(events)]
    assert len(ids) == len(set(ids))
    assert text(final_response(events)) == "After.It rains."
