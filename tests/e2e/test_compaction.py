"""Compaction on every dialect: a summary that any provider continues from, and only its client.

The scripted models know nothing but what the gateway sends to them: they summarize the facts that
they find in a request, and answer questions with them.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import CompactionConfig, ProviderConfig
from antiphon.core.compaction.request_summary import PROMPT
from antiphon.dialects.dialect import DIALECTS
from antiphon.providers.registry import SPECS
from tests.support import captured_requests as captured
from tests.support.checked_gateway import check_events
from tests.support.client_answers import Answer, post_request
from tests.support.gateways import Running, events_of, replaced, running, settings
from tests.support.rounds import round_script, text_delta
from tests.support.scripted_providers.anthropic import ScriptedAnthropic
from tests.support.scripted_providers.bedrock import ScriptedBedrock
from tests.support.scripted_providers.chat import ScriptedChat
from tests.support.scripted_providers.cohere import ScriptedCohere
from tests.support.scripted_providers.gemini import ScriptedGemini
from tests.support.scripted_providers.ollama import ScriptedOllama
from tests.support.scripted_providers.responses import ScriptedResponses
from tests.support.scripted_providers.scripted_provider import ScriptedProvider
from tests.support.scripted_providers.session import Turn
from tests.support.upstream import Connection, ReceivedRequest, Script, Upstream, upstream

Document = dict[str, Any]

PROVIDERS: dict[str, tuple[ScriptedProvider, str]] = {
    "chat": (ScriptedChat(), "m"),
    "anthropic": (ScriptedAnthropic(), "claude-opus-4-6"),
    "gemini": (ScriptedGemini("older", signed=False), "gemini-2.5-pro"),
    "openai": (ScriptedResponses(), "gpt-5.5"),
    "ollama": (ScriptedOllama(), "qwen3"),
    "cohere": (ScriptedCohere(), "command-a-reasoning-08-2025"),
    "bedrock": (ScriptedBedrock(), "anthropic.claude-opus-4-6-v1"),
}
"""One provider of each dialect."""
every_dialect = pytest.mark.parametrize("kind", PROVIDERS)

FACTS = {f"code-{number:02}": f"heron{number * 7919}" for number in range(24)}
_FACT = re.compile(r"(code-\d\d) is (heron\d+)")
_MARK = PROMPT[:60]
KEYS = {"alice": "sk-alice-0123456789", "bob": "sk-bob-9876543210"}
NOTE = "an earlier part of this conversation was compacted elsewhere and cannot be read"
TRIGGER = {"type": "compaction_trigger"}
HEADER = "antiphon-diagnostics"


def user(text: str) -> Document:
    return {"type": "message", "role": "user", "content": text}


def history() -> list[Document]:
    """A long thread: its facts are in answers, in tool results, and in the arguments of calls."""
    items: list[Document] = []
    for number, (name, value) in enumerate(FACTS.items()):
        fact, call_id = f"{name} is {value}. " + "And so on. " * 20, f"call_{number}"
        items.append(user(f"Question {number}?"))
        if number % 3 == 0:
            items.append({"type": "message", "role": "assistant", "content": fact})
            continue
        arguments = json.dumps({"note": fact if number % 3 == 1 else ""})
        call = {"type": "function_call", "call_id": call_id, "name": "look", "arguments": arguments}
        output = fact if number % 3 == 2 else "done"
        items += [call, {"type": "function_call_output", "call_id": call_id, "output": output}]
        items.append({"type": "message", "role": "assistant", "content": "Noted."})
    return items


def answer_of(body: str) -> str:
    """What a model can write that knows only this request."""
    facts = dict(_FACT.findall(body))
    if _MARK in body:
        summary = dict.fromkeys("decisions open_work files_touched last_user_wishes".split(), ())
        known = [f"{name} is {value}" for name, value in facts.items()]
        return json.dumps({"goal": "Remember the codes.", **summary, "facts": known})
    asked = re.findall(r"What is (code-\d\d)\?", body)
    return facts.get(asked[-1], "I do not know.") if asked else "Hello."


@dataclass
class CompactionGateway:
    """A gateway with client keys, in front of one model of each dialect."""

    gateway: Running
    upstreams: dict[str, Upstream]

    async def ask(
        self, kind: str, items: list[Document], client: str = "alice", **body: Any
    ) -> Answer:
        model = f"{kind}/{PROVIDERS[kind][1]}"
        headers = {"authorization": f"Bearer {KEYS[client]}"}
        answer = await post_request(
            self.gateway, {"model": model, "input": items, **body}, **headers
        )
        sent = self.upstreams[kind].requests[-1].raw
        assert PROVIDERS[kind][0].problems(sent) == []
        return answer

    async def compact(self, kind: str, **body: Any) -> Document:
        """Return the one item of a turn that compacts the long thread."""
        answer = await self.ask(kind, [*history(), TRIGGER], stream=True, **body)
        [item] = answer.response["output"]
        assert (item["type"], answer.response["status"]) == ("compaction", "completed")
        return dict(item)


def script_of(scripted: ScriptedProvider) -> Script:
    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head(content_type=scripted.content_type)
        turn = Turn(1, text=answer_of(request.raw.decode()))
        await connection.send(scripted.stream_bytes(turn))
        await connection.end()

    return script


@asynccontextmanager
async def open_gateway(
    tmp_path: Path, *kinds: str, **config: Any
) -> AsyncIterator[CompactionGateway]:
    """Open a gateway with these providers, by their kinds."""
    async with _open_upstreams(list(kinds)) as servers:
        entries = {
            kind: ProviderConfig(kind=kind, base_url=server.url, api_keys=["sk-up"])
            for kind, server in servers.items()
        }
        base = settings(tmp_path, next(iter(servers.values())).url, api_keys=KEYS)
        base = replaced(base, providers=entries, default_provider=kinds[0], **config)
        async with running(base) as gateway:
            yield CompactionGateway(gateway, servers)


@asynccontextmanager
async def _open_upstreams(kinds: list[str]) -> AsyncIterator[dict[str, Upstream]]:
    if not kinds:
        yield {}
        return
    script = script_of(PROVIDERS[kinds[0]][0])
    async with upstream(script) as server, _open_upstreams(kinds[1:]) as others:
        yield {kinds[0]: server, **others}


# Fidelity


@every_dialect
async def test_facts_of_a_compacted_thread_are_known_to_every_other_provider(
    tmp_path: Path, kind: str
) -> None:
    """Every fact is asked for after the compaction, each at another provider."""
    async with open_gateway(tmp_path, *PROVIDERS) as setup:
        item = await setup.compact(kind)
        kinds = [*PROVIDERS]
        for number, (name, value) in enumerate(FACTS.items()):
            question = [item, user(f"What is {name}?")]
            answer = await setup.ask(kinds[number % len(kinds)], question)
            assert answer.text == value, (kind, kinds[number % len(kinds)], name)


async def test_without_the_item_the_facts_are_gone(tmp_path: Path) -> None:
    """The models above do not know the facts by themselves."""
    async with open_gateway(tmp_path, "chat") as setup:
        assert (await setup.ask("chat", [user("What is code-03?")])).text == "I do not know."


async def test_the_echo_model_compacts_too(tmp_path: Path) -> None:
    async with running(settings(tmp_path)) as gateway:
        body = {"model": "echo/echo", "input": [*history(), TRIGGER]}
        [item] = (await post_request(gateway, body)).response["output"]
        after = await post_request(gateway, {"model": "echo/echo", "input": [item]})
    told = [name for name, value in FACTS.items() if f"{name} is {value}" in after.text]
    written = [name for number, name in enumerate(FACTS) if number % 3 != 1]
    assert told == written  # it repeats messages, not the arguments of calls


# What the client sees


@every_dialect
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_turn_that_compacts_has_exactly_one_item(
    tmp_path: Path, kind: str, stream: bool
) -> None:
    async with open_gateway(tmp_path, kind) as setup:
        tools = [{"type": "function", "name": "look", "parameters": {"type": "object"}}]
        more: Document = {"tools": tools, "reasoning": {"effort": "high"}, "stream": stream}
        answer = await setup.ask(kind, [*history(), TRIGGER], **more)
        sent = setup.upstreams[kind].requests[-1].raw.decode()
    if stream:
        check_events(answer.events)
        assert [event["type"] for event in answer.events] == [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.output_item.done",
            "response.completed",
        ]
    [item] = answer.response["output"]
    assert item["type"] == "compaction"
    assert item["id"].startswith("cmp_")
    assert answer.response["usage"]["total_tokens"] > 0
    assert answer.response["text"]["format"] == {"type": "text"}
    assert "compaction_trigger" not in sent


@pytest.mark.skipif(not captured.bodies(), reason=captured.ABSENT)
@every_dialect
async def test_codex_compacts_remotely_and_continues(tmp_path: Path, kind: str) -> None:
    """The captured requests of a Codex whose provider is named OpenAI, before and after."""
    bodies = captured.bodies()
    [trigger] = [body for name, body in bodies.items() if name.startswith("13-")]
    [after] = [body for name, body in bodies.items() if name.startswith("14-")]
    async with open_gateway(tmp_path, kind) as setup:
        setup.gateway.client.headers.update(captured.CLIENT)
        model = f"{kind}/{PROVIDERS[kind][1]}"
        key = {"authorization": f"Bearer {KEYS['alice']}"}
        answer = await post_request(setup.gateway, {**trigger, "model": model}, **key)
        done = [event["item"] for event in answer.events if event["type"].endswith("item.done")]
        [item] = done
        assert item["type"] == "compaction"
        items = [item if each.get("type") == "compaction" else each for each in after["input"]]
        continued = await post_request(
            setup.gateway, {**after, "model": model, "input": items}, **key
        )
        assert (continued.status, continued.text) == (200, "Hello.")
        assert HEADER not in continued.headers or "compaction" not in continued.headers[HEADER]
        assert "Remember the codes." in setup.upstreams[kind].requests[-1].raw.decode()


async def test_a_stored_thread_continues_from_its_compaction(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, "chat") as setup:
        first = await setup.ask("chat", history())
        turn = await setup.ask("chat", [TRIGGER], previous_response_id=first.response["id"])
        [item] = turn.response["output"]
        assert item["type"] == "compaction"
        more: Document = {"previous_response_id": turn.response["id"]}
        answer = await setup.ask("chat", [user("What is code-04?")], **more)
        sent = setup.upstreams["chat"].requests[-1]
    assert answer.text == FACTS["code-04"]
    assert "call_4" not in sent.raw.decode()
    assert "history.compaction.applied" in answer.headers[HEADER]


async def test_open_calls_are_named_in_the_summary(tmp_path: Path) -> None:
    call = {"type": "custom_tool_call", "call_id": "call_x", "name": "patch", "input": "*** Begin"}
    async with open_gateway(tmp_path, "chat") as setup:
        turn = await setup.ask("chat", [user("Fix it."), call, TRIGGER])
        await setup.ask("chat", turn.response["output"])
        sent = setup.upstreams["chat"].requests[-1].raw.decode()
    assert "Tool calls without a result:" in sent
    assert "patch (call_x): *** Begin" in sent


async def test_another_model_may_compact(tmp_path: Path) -> None:
    model = CompactionConfig(model="anthropic/claude-opus-4-6")
    async with open_gateway(tmp_path, "chat", "anthropic", compaction=model) as setup:
        answer = await post_request(
            setup.gateway,
            {"model": "chat/m", "input": [*history(), TRIGGER]},
            authorization=f"Bearer {KEYS['alice']}",
        )
        assert answer.response["model"] == "chat/m"
        assert setup.upstreams["chat"].requests == []
        assert len(setup.upstreams["anthropic"].requests) == 1


# Items that cannot be opened


@every_dialect
@pytest.mark.parametrize("harm", ["foreign", "tampered", "another client"])
async def test_an_item_that_cannot_be_opened_becomes_a_note(
    tmp_path: Path, kind: str, harm: str
) -> None:
    async with open_gateway(tmp_path, kind) as setup:
        item = await setup.compact(kind)
        sealed = item["encrypted_content"]
        if harm == "foreign":
            item["encrypted_content"] = "gAAAAABo"
        elif harm == "tampered":
            middle = len(sealed) // 2
            changed = "A" if sealed[middle] != "A" else "B"
            item["encrypted_content"] = sealed[:middle] + changed + sealed[middle + 1 :]
        client = "bob" if harm == "another client" else "alice"
        answer = await setup.ask(kind, [item, user("What is code-03?")], client)
        sent = setup.upstreams[kind].requests[-1].raw.decode()
    assert answer.text == "I do not know."
    assert "history.compaction.ignored:compaction" in answer.headers[HEADER]
    assert NOTE in sent
    assert item["encrypted_content"] not in sent


# Summaries that are not as they should be


def scripted_chat(*scripts: Script) -> Script:
    left = list(scripts)

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await left.pop(0)(request, connection)

    return script


@asynccontextmanager
async def answering(tmp_path: Path, *scripts: Script) -> AsyncIterator[tuple[Running, Upstream]]:
    async with (
        upstream(scripted_chat(*scripts)) as server,
        running(settings(tmp_path, server.url)) as gateway,
    ):
        yield gateway, server


ASKED: Document = {"model": "up/m", "input": [user("code-00 is heron0."), TRIGGER]}


async def test_a_summary_in_another_form_is_asked_for_once_more_and_then_kept(
    tmp_path: Path,
) -> None:
    first, second = text_delta("Here you are: code-00."), text_delta("Plain: code-00 is heron0.")
    reply = round_script(text_delta("Hello."))
    async with answering(tmp_path, round_script(first), round_script(second), reply) as opened:
        gateway, server = opened
        turn = await post_request(gateway, {**ASKED, "stream": True})
        assert [item["type"] for item in turn.response["output"]] == ["compaction"]
        await post_request(gateway, {"model": "up/m", "input": turn.response["output"]})
        assert len(server.requests) == 3
        assert "Plain: code-00 is heron0." in server.requests[-1].raw.decode()


async def test_a_second_answer_in_the_right_form_is_used(tmp_path: Path) -> None:
    summary = text_delta(answer_of(f"{_MARK} code-00 is heron0"))
    async with answering(
        tmp_path, round_script(text_delta('{"goal": "a"}')), round_script(summary)
    ) as (gateway, server):
        turn = await post_request(gateway, {**ASKED, "stream": True})
    [item] = turn.response["output"]
    assert (item["type"], len(server.requests)) == ("compaction", 2)
    check_events(turn.events)


async def test_an_empty_summary_is_a_failure_and_not_an_item(tmp_path: Path) -> None:
    lists = ("decisions", "open_work", "files_touched", "facts", "last_user_wishes")
    text = json.dumps({"goal": "", **{name: [] for name in lists}})
    async with answering(tmp_path, round_script(text_delta(text))) as (gateway, _):
        turn = await post_request(gateway, {**ASKED, "stream": True})
    assert turn.status == 502
    assert turn.error["type"] == "server_error"


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_summary_that_was_cut_off_is_incomplete(tmp_path: Path, stream: bool) -> None:
    cut = round_script(text_delta('{"goal": "Remem'), finish="length")
    async with answering(tmp_path, cut) as (gateway, _):
        turn = await post_request(gateway, {**ASKED, "stream": stream})
    assert (turn.response["status"], turn.response["output"]) == ("incomplete", [])


async def test_the_compact_endpoint_reports_a_summary_that_was_cut_off(tmp_path: Path) -> None:
    cut = round_script(text_delta('{"goal": "Remem'), finish="length")
    async with answering(tmp_path, cut) as (gateway, _):
        body = {"model": "up/m", "input": "Hello?"}
        async with gateway.client.post(
            f"{gateway.base_url}/responses/compact", json=body
        ) as answer:
            assert answer.status == 502
            assert (await answer.json())["error"].keys() == {"message", "type", "param", "code"}


async def test_a_cut_summary_leaves_the_context_as_it_is(tmp_path: Path) -> None:
    cut = round_script(text_delta('{"goal": "Remem'), finish="length")
    long = {"role": "assistant", "content": "x" * 8000}
    body: Document = {
        "model": "up/m",
        "input": [long, user("Hello?")],
        "context_management": [{"type": "compaction", "compact_threshold": 1000}],
        "stream": True,
    }
    async with answering(tmp_path, cut, round_script(text_delta("Hello."))) as (gateway, server):
        answer = await post_request(gateway, body)
    assert answer.text == "Hello."
    assert "x" * 8000 in server.requests[-1].raw.decode()


# Compaction within a run


@every_dialect
async def test_a_context_beyond_its_threshold_is_compacted_before_the_answer(
    tmp_path: Path, kind: str
) -> None:
    settings: Document = {
        "context_management": [{"type": "compaction", "compact_threshold": 1000}],
        "stream": True,
    }
    async with open_gateway(tmp_path, kind) as setup:
        answer = await setup.ask(kind, [*history(), user("What is code-05?")], **settings)
        check_events(answer.events)
        item, *others = answer.response["output"]
        assert (item["type"], others[-1]["type"]) == ("compaction", "message")
        assert "response.compaction.compacting" in [each["type"] for each in answer.events]
        assert answer.text == FACTS["code-05"]
        assert len(setup.upstreams[kind].requests) == 2
        # The next turn continues from it, and needs no other compaction.
        items = [*history(), user("What is code-05?"), item, *others, user("What is code-06?")]
        after = await setup.ask(kind, items, **settings)
        assert "compaction" not in [each["type"] for each in after.response["output"]]
        assert after.text == FACTS["code-06"]
        assert len(setup.upstreams[kind].requests) == 3


async def test_the_stream_begins_while_the_context_is_compacted(tmp_path: Path) -> None:
    """The summary is not written before the client has the first event."""
    has_event = asyncio.Event()
    summary = round_script(text_delta(answer_of(f"{_MARK} code-00 is heron0")))

    async def wait(request: ReceivedRequest, connection: Connection) -> None:
        await has_event.wait()
        await summary(request, connection)

    body: Document = {
        "model": "up/m",
        "input": [{"role": "assistant", "content": "x" * 8000}, user("Hello?")],
        "context_management": [{"type": "compaction", "compact_threshold": 1000}],
        "stream": True,
    }
    script = scripted_chat(wait, round_script(text_delta("Hello.")))
    async with (
        upstream(script) as server,
        running(settings(tmp_path, server.url, commit_after_s=0.01)) as gateway,
        gateway.client.post(f"{gateway.base_url}/responses", json=body) as response,
    ):
        begin = await response.content.readuntil(b"\n\n")
        assert b"response.created" in begin
        has_event.set()
        events = check_events(events_of(begin + await response.content.read()))
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["compaction", "message"]


# Compactions of a Responses upstream


def native_script() -> Script:
    """A Responses server that compacts by itself once, and then answers."""
    item = {"id": "cmp_up", "type": "compaction", "encrypted_content": "gAAA-native"}
    scripted = ScriptedResponses()
    head = {"id": "resp_up", "object": "response", "model": "gpt-5.5", "status": "completed"}
    done = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    events: list[Document] = [
        {"type": "response.created", "response": {**head, "status": "in_progress", "output": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {**head, "output": [item], "usage": done}},
    ]
    body = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events)

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head(content_type=scripted.content_type)
        is_first = b"gAAA-native" not in request.raw and b"cannot be read" not in request.raw
        answer = body.encode() if is_first else scripted.stream_bytes(Turn(1, text="Hello."))
        await connection.send(answer)
        await connection.end()

    return script


async def test_a_compaction_of_a_provider_goes_back_to_this_provider_alone(tmp_path: Path) -> None:
    async with upstream(native_script()) as one, upstream(native_script()) as other:
        entries = {
            "openai": ProviderConfig(base_url=one.url, api_keys=["sk-up"]),
            "other": ProviderConfig(kind="responses", base_url=other.url, api_keys=["sk-up"]),
        }
        config = replaced(settings(tmp_path, one.url), providers=entries, default_provider="openai")
        async with running(config) as gateway:
            body: Document = {"model": "openai/gpt-5.5", "stream": True}
            first = await post_request(gateway, {**body, "input": "Hello?"})
            check_events(first.events)
            [item] = first.response["output"]
            assert "native" not in item["encrypted_content"]
            items = [user("Hello?"), item, user("Go on.")]
            await post_request(gateway, {**body, "input": items})
            native = {"type": "compaction", "encrypted_content": "gAAA-native"}
            assert native in one.requests[-1].body["input"]
            switched = await post_request(gateway, {**body, "model": "other/m", "input": items})
            assert "history.compaction.ignored:compaction" in switched.headers[HEADER]
            assert NOTE in other.requests[-1].raw.decode()


def test_every_dialect_has_a_provider_here() -> None:
    assert {SPECS[name].dialect for name in PROVIDERS} == set(DIALECTS)
