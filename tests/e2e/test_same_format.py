"""Tools that Anthropic runs itself, for clients of Messages and others, with the real gateway.

The provider searches, cites what it has found, and pauses the turn. A client of Messages gets its
blocks as they are, and the provider gets them back as they were: from the client or from the store,
also if another provider has answered in between.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from antiphon.config import ProviderConfig, SearchConfig
from tests.e2e.test_messages import messages_client
from tests.support.checked_gateway import check_events
from tests.support.gateways import Running, events_of, replaced, running, settings
from tests.support.upstream import (
    HELLO_WORLD,
    Connection,
    ReceivedRequest,
    Upstream,
    frame,
    send_frames,
    upstream,
)

Document = dict[str, Any]

TOOLS = [{"type": "web_search_20250305", "name": "web_search", "max_uses": 2}]
FOUND = {
    "type": "web_search_result",
    "url": "https://oslo.example/",
    "title": "Oslo",
    "encrypted_content": "RW5jcnlwdGVk",
    "page_age": "2 days ago",
}
CITATION = {
    "type": "web_search_result_location",
    "url": "https://oslo.example/",
    "title": "Oslo",
    "encrypted_index": "SW5kZXg=",
    "cited_text": "It rains in Oslo.",
}
BLOCKS: list[Document] = [
    {"type": "text", "text": "One moment."},
    {
        "type": "server_tool_use",
        "id": "srvtoolu_01A",
        "name": "web_search",
        "input": {"query": "weather oslo"},
    },
    {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_01A",
        "content": [FOUND],
        "caller": {"type": "direct"},
    },
    {"type": "text", "text": "It "},
    {"type": "text", "text": "rains", "citations": [CITATION]},
    {"type": "text", "text": " in Oslo."},
]
USAGE = {
    "input_tokens": 7,
    "output_tokens": 9,
    "cache_read_input_tokens": 0,
    "cache_creation_input_tokens": 0,
    "server_tool_use": {"web_search_requests": 1, "web_fetch_requests": 0},
}


def start_of(block: Document) -> tuple[Document, list[Document]]:
    """A block as it starts, and its deltas."""
    match block:
        case {"input": value}:
            pieces = json.dumps(value)
            texts = (pieces[:5], pieces[5:])
            deltas = [{"type": "input_json_delta", "partial_json": text} for text in texts]
            return {**block, "input": {}}, deltas
        case {"text": text}:
            cited = block.get("citations", [])
            deltas = [{"type": "citations_delta", "citation": each} for each in cited]
            empty: Document = {"citations": []} if cited else {}
            return {"type": "text", "text": "", **empty}, [
                *deltas,
                {"type": "text_delta", "text": text},
            ]
    return block, []


def stream_of(blocks: list[Document], reason: str = "end_turn") -> list[bytes]:
    """The frames of a streamed message."""
    message = {"id": "msg_1", "model": "claude", "content": [], "usage": {"input_tokens": 7}}
    events: list[Document] = [{"type": "message_start", "message": message}]
    for index, block in enumerate(blocks):
        start, deltas = start_of(block)
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [
            {"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas
        ]
        events.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": reason, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": USAGE})
    return [frame(event) for event in [*events, {"type": "message_stop"}]]


def body_of(blocks: list[Document], reason: str = "end_turn") -> bytes:
    message = {"type": "message", "id": "msg_1", "role": "assistant", "model": "claude"}
    end = {"stop_reason": reason, "stop_sequence": None, "usage": USAGE}
    return json.dumps({**message, "content": blocks, **end}).encode()


class Providers:
    """Anthropic, and a server of Chat Completions, on one port."""

    def __init__(self) -> None:
        self.blocks = BLOCKS
        self.reason = "end_turn"
        self.search: Literal["managed"] | None = None
        """Who searches for Anthropic; None: it does so itself."""
        self.rounds: list[tuple[list[Document], str]] = []
        """What Anthropic sends first, one after another."""

    async def script(self, request: ReceivedRequest, connection: Connection) -> None:
        if self.rounds:
            self.blocks, self.reason = self.rounds.pop(0)
        if not request.path.endswith("/messages"):
            await send_frames(HELLO_WORLD)(request, connection)
        elif request.body.get("stream"):
            await send_frames(stream_of(self.blocks, self.reason))(request, connection)
        else:
            await connection.head(content_type="application/json")
            await connection.send(body_of(self.blocks, self.reason))
            await connection.end()


@asynccontextmanager
async def gateway_of_both(
    tmp_path: Path, providers: Providers
) -> AsyncIterator[tuple[Running, Upstream]]:
    async with upstream(providers.script) as server:
        entries = {
            name: ProviderConfig(kind=kind, base_url=server.url, api_keys=["k"])
            for name, kind in (("claude", "anthropic"), ("other", "chat"))
        }
        if providers.search is not None:
            entries["claude"] = replace(entries["claude"], web_search=providers.search)
        config = replaced(
            settings(tmp_path),
            providers=entries,
            search=SearchConfig(backend="echo"),
        )
        async with running(config) as gateway:
            yield gateway, server


def asked(*messages: Document, model: str = "claude/claude-sonnet-4-5", **more: Any) -> Document:
    return {"model": model, "max_tokens": 100, "tools": TOOLS, "messages": [*messages], **more}


def user(text: str) -> Document:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


async def post(gateway: Running, body: Document) -> tuple[Document, str]:
    """The message, and the diagnostics of the response."""
    url = f"{gateway.base_url}/messages"
    async with gateway.client.post(url, json=body) as response:
        message: Document = await response.json()
        assert response.status == 200, message
        return message, response.headers.get("antiphon-diagnostics", "")


async def test_the_sdk_streams_the_blocks_of_the_provider(tmp_path: Path) -> None:
    async with (
        gateway_of_both(tmp_path, Providers()) as (gateway, server),
        messages_client(gateway) as client,
    ):
        question: Any = asked(user("Oslo?"))
        async with client.messages.stream(**question) as stream:
            message = await stream.get_final_message()
        content = [block.to_dict() for block in message.content]
        assert content == BLOCKS
        assert message.usage.server_tool_use is not None
        assert message.usage.server_tool_use.web_search_requests == 1
        again: Any = asked(user("Oslo?"), {"role": "assistant", "content": content}, user("Sure?"))
        await client.messages.create(**again)
        sent = server.requests[-1].body
    assert sent["messages"] == again["messages"]
    assert sent["tools"] == TOOLS


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_stored_thread_sends_the_blocks_back(tmp_path: Path, stream: bool) -> None:
    async with gateway_of_both(tmp_path, Providers()) as (gateway, server):
        first = asked(user("Oslo?"), thread={"type": "create"})
        if stream:
            url = f"{gateway.base_url}/messages"
            async with gateway.client.post(url, json={**first, "stream": True}) as response:
                message = events_of(await response.read())[0]["message"]
        else:
            message, _ = await post(gateway, first)
            assert message["content"] == BLOCKS
        thread = {"type": "continue", "previous_message_id": message["id"]}
        await post(gateway, asked(user("Sure?"), thread=thread))
        sent = server.requests[-1].body["messages"]
    assert sent == [user("Oslo?"), {"role": "assistant", "content": BLOCKS}, user("Sure?")]


@pytest.mark.parametrize("length", [2, 4], ids=["in a search", "after text"])
@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-opus-4-7"])
async def test_a_turn_that_the_provider_has_paused_is_continued_as_it_was(
    tmp_path: Path, model: str, length: int
) -> None:
    """Also with a model that takes no prefill: this is none."""
    providers = Providers()
    providers.blocks, providers.reason = BLOCKS[:length], "pause_turn"
    async with gateway_of_both(tmp_path, providers) as (gateway, server):
        message, _ = await post(gateway, asked(user("Oslo?"), model=f"claude/{model}"))
        assert (message["content"], message["stop_reason"]) == (BLOCKS[:length], "pause_turn")
        paused = {"role": "assistant", "content": message["content"]}
        await post(gateway, asked(user("Oslo?"), paused, model=f"claude/{model}"))
        assert server.requests[-1].body["messages"] == [user("Oslo?"), paused]


async def test_another_provider_gets_the_text_and_anthropic_its_blocks_again(
    tmp_path: Path,
) -> None:
    async with gateway_of_both(tmp_path, Providers()) as (gateway, server):
        message, _ = await post(gateway, asked(user("Oslo?")))
        thread = [user("Oslo?"), {"role": "assistant", "content": message["content"]}]
        other, reported = await post(gateway, asked(*thread, user("Sure?"), model="other/m"))
        sent = server.requests[-1].body["messages"]
        assert [each["role"] for each in sent] == ["user", "assistant", "user"]
        assert sent[1]["content"] == "One moment.\n\nIt rains in Oslo."
        assert "history.part.ignored" in reported
        answer = {"role": "assistant", "content": other["content"]}
        last = [*thread, user("Sure?"), answer, user("Thanks")]
        await post(gateway, asked(*last))
        assert server.requests[-1].body["messages"] == last


async def test_documents_by_their_addresses_reach_anthropic_whatever_these_end_with(
    tmp_path: Path,
) -> None:
    """An address in this format is that of a PDF. Other providers see it in the text."""
    blocks = [
        {"type": "document", "source": {"type": "url", "url": url}}
        for url in ("https://a.test/b.pdf", "https://a.test/pdf/2610.00001")
    ]
    question = {"role": "user", "content": [*blocks, {"type": "text", "text": "What is new?"}]}
    async with gateway_of_both(tmp_path, Providers()) as (gateway, server):
        _, reported = await post(gateway, asked(question))
        assert server.requests[-1].body["messages"] == [question]
        assert "history.file" not in reported
        _, reported = await post(gateway, asked(question, model="other/m"))
        assert "history.file.replaced" in reported
        assert "https://a.test/pdf/2610.00001" in str(server.requests[-1].body["messages"])


async def test_code_that_the_provider_ran_is_a_call_for_another_one(tmp_path: Path) -> None:
    use = {
        "type": "server_tool_use",
        "id": "srvtoolu_01B",
        "name": "bash_code_execution",
        "input": {"command": "date"},
    }
    output = {"type": "bash_code_execution_result", "stdout": "Monday", "return_code": 0}
    done = {
        "type": "bash_code_execution_tool_result",
        "tool_use_id": "srvtoolu_01B",
        "content": output,
    }
    said = {"role": "assistant", "content": [use, done, {"type": "text", "text": "Monday."}]}
    async with gateway_of_both(tmp_path, Providers()) as (gateway, server):
        thread = asked(user("Which day?"), said, user("Sure?"))
        await post(gateway, thread)
        assert server.requests[-1].body["messages"] == thread["messages"]
        await post(gateway, thread | {"model": "other/m"})
        _, call, result, text, _ = server.requests[-1].body["messages"]
    function = call["tool_calls"][0]["function"]
    assert (function["name"], json.loads(function["arguments"])) == (use["name"], use["input"])
    assert json.loads(result["content"]) == output
    assert text["content"] == "Monday."


# --- searches of the gateway ----------------------------------------------------------------------


async def test_anthropic_never_gets_a_search_that_the_gateway_has_made(tmp_path: Path) -> None:
    """It would refuse results and citations without encrypted content of its own."""
    search = {
        "type": "server_tool_use",
        "id": "srvtoolu_ap1x",
        "name": "web_search",
        "input": {"query": "oslo"},
    }
    found = {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_ap1x",
        "content": [{**FOUND, "encrypted_content": ""}],
    }
    place = {"start_index": 0, "end_index": 6}
    cited = {**CITATION, "encrypted_index": "", "cited_text": "", **place}
    text = {"type": "text", "text": "Rain."}
    said = {"role": "assistant", "content": [search, found, {**text, "citations": [cited]}]}
    async with gateway_of_both(tmp_path, Providers()) as (gateway, server):
        _, reported = await post(gateway, asked(user("Oslo?"), said, user("Sure?")))
        sent = server.requests[-1].body["messages"]
    assert sent[1] == {"role": "assistant", "content": [text]}
    assert "history" not in reported


async def test_a_search_of_the_gateway_for_anthropic_is_no_block_of_its_own(tmp_path: Path) -> None:
    providers = Providers()
    providers.search = "managed"
    call: Document = {
        "type": "tool_use",
        "id": "toolu_01ABCDEFGHIJKLMNOP",
        "name": "web_search",
        "input": {"query": "oslo"},
        "caller": {"type": "direct"},
    }
    providers.rounds = [
        ([{"type": "text", "text": "One moment."}, call], "tool_use"),
        ([{"type": "text", "text": "It "}, {"type": "text", "text": "rains [1]."}], "end_turn"),
        ([{"type": "text", "text": "Yes."}], "end_turn"),
    ]
    async with gateway_of_both(tmp_path, providers) as (gateway, server):
        message, _ = await post(gateway, asked(user("Oslo?")))
        content = message["content"]
        kinds = "text server_tool_use web_search_tool_result text text".split()
        assert [block["type"] for block in content if block["type"] != "thinking"] == kinds
        assert content[-1]["citations"][0]["start_index"] == len("rains ")
        assert message["stop_reason"] == "end_turn"
        said = {"role": "assistant", "content": content}
        await post(gateway, asked(user("Oslo?"), said, user("Sure?")))
        raw = server.requests[-1].raw.decode()
    assert "srvtoolu_ap1" not in raw
    assert "encrypted_index" not in raw
    assert call["id"] in raw  # with its result, as the model has seen it


# --- other formats --------------------------------------------------------------------------------


async def test_a_client_of_responses_gets_text_and_annotations(tmp_path: Path) -> None:
    body = {
        "model": "claude/claude-sonnet-4-5",
        "input": "Oslo?",
        "tools": [{"type": "web_search"}],
    }
    async with gateway_of_both(tmp_path, Providers()) as (gateway, _):
        events = check_events(await gateway.stream(body))
    [message] = events[-1]["response"]["output"]
    [part] = message["content"]
    assert part["text"] == "One moment.It rains in Oslo."
    start = len("One moment.It ")
    assert part["annotations"] == [
        {
            "type": "url_citation",
            "url": "https://oslo.example/",
            "title": "Oslo",
            "start_index": start,
            "end_index": start + len("rains"),
        }
    ]
    assert "extra" not in json.dumps(events)


async def test_a_stored_response_is_shown_as_the_responses_api_has_it(tmp_path: Path) -> None:
    async with gateway_of_both(tmp_path, Providers()) as (gateway, _):
        message, _ = await post(gateway, asked(user("Oslo?"), thread={"type": "create"}))
        url = f"{gateway.base_url}/responses/{message['id'].replace('msg_', 'resp_')}"
        async with gateway.client.get(url) as response:
            shown = await response.json()
    assert [item["type"] for item in shown["output"]] == ["message", "message"]
    assert [part["text"] for part in shown["output"][1]["content"]] == ["It ", "rains", " in Oslo."]
    assert "extra" not in json.dumps(shown["output"])


async def test_a_client_of_responses_continues_a_stored_thread(tmp_path: Path) -> None:
    async with gateway_of_both(tmp_path, Providers()) as (gateway, server):
        message, _ = await post(gateway, asked(user("Oslo?"), thread={"type": "create"}))
        previous = message["id"].replace("msg_", "resp_")
        body = {"input": "Sure?", "previous_response_id": previous}
        for model in ("claude/claude-sonnet-4-5", "other/m"):
            status, _, _ = await gateway.post({"model": model, **body})
            assert status == 200
        native, chat = (request.body["messages"] for request in server.requests[-2:])
    assert native[1] == {"role": "assistant", "content": BLOCKS}
    assert chat[1]["content"] == "One moment.\n\nIt rains in Oslo."
