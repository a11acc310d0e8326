"""Threads whose client format changes between turns, and whose provider changes as well.

Two ways lead from one format to another. Through the store: a client continues the response of
another one by its id. And by the history itself: a client converts what another one has kept, with
the sealed state in the place that its own format has for it. Either way each provider refuses
nothing, and gets its own state back to the byte.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.e2e.test_state_formats import (
    PAIRS,
    PROVIDERS,
    ChatThread,
    MessagesThread,
    Reachable,
    StrictProviders,
    gateway_of_all,
    post,
)
from tests.support.scripted_providers.session import (
    SESSION,
    Document,
    Turn,
    echo_items,
    request_body,
    result_items,
    user_items,
)
from tests.support.shared_gateway import UVLOOP

ORDERS = ("MRRMMR", "RMMRRM", "MMMRRR", "RRRMMM")
"""The formats of the six turns: Messages or Responses. Each provider meets both."""


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


class ChangingThread(Protocol):
    """A thread whose client changes."""

    def ask(self, index: int, turn: Turn, before: Turn | None, model: str) -> tuple[str, Document]:
        """Return the path and the body of a turn."""

    async def read(self, index: int, events: list[Document]) -> None:
        """Read the response of a turn."""

    def carries(self, index: int) -> bool:
        """Whether the state of a turn is expected to come back."""


async def play(
    gateway: Reachable, providers: StrictProviders, kinds: tuple[str, str], thread: ChangingThread
) -> list[str]:
    """Play the session; return what went wrong."""
    wrong: list[str] = []
    for index, turn in enumerate(SESSION):
        kind = kinds[index % 2]
        scripted, model = PROVIDERS[kind]
        providers.turn = turn
        providers.received.clear()
        before = SESSION[index - 1] if index else None
        path, body = thread.ask(index, turn, before, f"{kind}/{model}")
        status, events = await post(gateway, path, body)
        if status != 200 or len(providers.received) != 1:
            return [*wrong, f"{kinds} turn {index}: {status} {events}"]
        await thread.read(index, events)
        raw = providers.received[0].raw.decode()
        if '"thinking":{"type":"disabled"}' in raw:
            continue  # the last turn was another provider's: this one may not think in between
        for earlier in filter(thread.carries, range(index % 2, index, 2)):
            states = scripted.states(SESSION[earlier])
            lost = [state for state in states if json.dumps(state)[1:-1] not in raw]
            wrong += [f"{kinds} turn {index}: state of {earlier} is lost: {lost}"] * bool(lost)
    return wrong


# --- through the store ----------------------------------------------------------------------------


class StoredThread:
    """A thread in the store: each client sends what is new, and the id of the response before. A
    client of Responses reads the calls that it has results for from the stored response."""

    def __init__(self, gateway: Reachable, order: str) -> None:
        self._gateway = gateway
        self._order = order
        self._messages = MessagesThread()
        self._response_id = ""
        self._output: list[Document] = []

    def ask(self, index: int, turn: Turn, before: Turn | None, model: str) -> tuple[str, Document]:
        if self._order[index] == "R":
            items = user_items(turn) or result_items(self._output, before or turn)
            body = request_body(model, items, store=True)
            return "/responses", {**body, "previous_response_id": self._response_id or None}
        thread: Document = {"type": "create"}
        if self._response_id:
            message_id = f"msg_{self._response_id.removeprefix('resp_')}"
            thread = {"type": "continue", "previous_message_id": message_id}
        body = self._messages.body(model)
        return "/messages", {**body, "messages": [self._message(turn, before)], "thread": thread}

    def _message(self, turn: Turn, before: Turn | None) -> Document:
        if turn.user:
            return {"role": "user", "content": turn.user}
        results = [
            {"type": "tool_result", "tool_use_id": item["call_id"], "content": item["output"]}
            for item in result_items(self._output, before or turn)
        ]
        return {"role": "user", "content": results}

    async def read(self, index: int, events: list[Document]) -> None:
        if self._order[index] == "R":
            assert events[-1]["type"] == "response.completed", events[-1]
            response = events[-1]["response"]
            self._response_id, self._output = response["id"], response["output"]
            return
        assert events[-1]["type"] == "message_stop", events[-1]
        message_id = events[0]["message"]["id"]
        self._response_id = f"resp_{message_id.removeprefix('msg_')}"
        if self._order[index + 1 :].startswith("R"):
            self._output = await self._retrieve()
            return
        blocks = [each["content_block"] for each in events if "content_block" in each]
        self._output = [
            {"type": "function_call", "name": block["name"], "call_id": block["id"]}
            for block in blocks
            if block["type"] == "tool_use"
        ]

    def carries(self, index: int) -> bool:
        return True

    async def _retrieve(self) -> list[Document]:
        url = f"{self._gateway.base_url}/responses/{self._response_id}"
        async with self._gateway.client.get(url) as answer:
            assert answer.status == 200
            output: list[Document] = (await answer.json())["output"]
            return output


@pytest.mark.parametrize("order", ORDERS)
async def test_a_client_continues_the_response_of_another_one(tmp_path: Path, order: str) -> None:
    wrong: list[str] = []
    async with gateway_of_all(tmp_path, f"sqlite:///{tmp_path}/state.sqlite") as (gateway, servers):
        for kinds in [*PAIRS, *((kind, kind) for kind in PROVIDERS)]:
            thread = StoredThread(gateway, order)
            wrong += await play(gateway, servers, kinds, thread)
    assert wrong == []


class StoredChatThread(StoredThread):
    """A client of Chat Completions has its turns stored, and another one goes on with them."""

    def __init__(self, gateway: Reachable, chat_turns: int, other: str) -> None:
        super().__init__(gateway, "C" * chat_turns + other * (len(SESSION) - chat_turns))
        self._chat = ChatThread()
        self._chat.store = True

    def ask(self, index: int, turn: Turn, before: Turn | None, model: str) -> tuple[str, Document]:
        if self._order[index] != "C":
            return super().ask(index, turn, before, model)
        self._chat.ask(turn, before)
        return self._chat.path, self._chat.body(model)

    async def read(self, index: int, events: list[Document]) -> None:
        if self._order[index] != "C":
            await super().read(index, events)
            return
        self._chat.read(events)
        self._response_id = f"resp_{events[0]['id'].removeprefix('chatcmpl-')}"
        self._output = await self._retrieve()

    def carries(self, index: int) -> bool:
        """A client of Chat Completions returns nothing of a response without calls: its state comes
        back only from the store, where its response is the last one of this client."""
        return bool(SESSION[index].calls) or not self._order.startswith("C", index + 1)


@pytest.mark.parametrize("other", ["R", "M"])
@pytest.mark.parametrize("chat_turns", range(1, len(SESSION)))
async def test_another_client_continues_one_of_chat_completions(
    tmp_path: Path, chat_turns: int, other: str
) -> None:
    wrong: list[str] = []
    async with gateway_of_all(tmp_path, f"sqlite:///{tmp_path}/state.sqlite") as (gateway, servers):
        for kinds in [*PAIRS, *((kind, kind) for kind in PROVIDERS)]:
            thread = StoredChatThread(gateway, chat_turns, other)
            wrong += await play(gateway, servers, kinds, thread)
    assert wrong == []


class ContinuedByChat(StoredThread):
    """A client of Chat Completions goes on with responses that others have stored: it has their
    texts and their calls with the ids, and nothing of the reasoning."""

    def __init__(self, gateway: Reachable, order: str) -> None:
        super().__init__(gateway, order)
        self._chat = ChatThread()

    def ask(self, index: int, turn: Turn, before: Turn | None, model: str) -> tuple[str, Document]:
        self._chat.ask(turn, before)
        if self._order[index] != "C":
            return super().ask(index, turn, before, model)
        return self._chat.path, self._chat.body(model)

    async def read(self, index: int, events: list[Document]) -> None:
        if self._order[index] == "C":
            self._chat.read(events)
            return
        await super().read(index, events)
        if self._order[index] == "R":
            self._chat.add(_to_chat_message(self._output))
            return
        reader = MessagesThread()
        reader.read(events)
        self._chat.add(_to_chat_message([_to_item(block) for block in reader.blocks]))

    def carries(self, index: int) -> bool:
        """State of a response without calls has no carrier in this format."""
        return bool(SESSION[index].calls)


def _to_chat_message(items: list[Document]) -> Document:
    texts = [part["text"] for item in items for part in item.get("content", ()) if "text" in part]
    calls = [_to_chat_call(item) for item in items if "call_id" in item]
    message = {"role": "assistant", "content": "".join(texts) or None}
    return {**message, "tool_calls": calls} if calls else message


def _to_chat_call(item: Document) -> Document:
    if item["type"] == "custom_tool_call":
        made = {"name": item["name"], "input": item["input"]}
        return {"id": item["call_id"], "type": "custom", "custom": made}
    made = {"name": item["name"], "arguments": item["arguments"]}
    return {"id": item["call_id"], "type": "function", "function": made}


@pytest.mark.parametrize("order", ["RCCCCC", "MCCCCC", "RRCCCC", "MMCCCC", "RMRMCC", "MMRRRC"])
async def test_a_client_of_chat_completions_continues_others_by_their_calls(
    tmp_path: Path, order: str
) -> None:
    wrong: list[str] = []
    async with gateway_of_all(tmp_path, f"sqlite:///{tmp_path}/state.sqlite") as (gateway, servers):
        for kinds in [*PAIRS, *((kind, kind) for kind in PROVIDERS)]:
            thread = ContinuedByChat(gateway, order)
            wrong += await play(gateway, servers, kinds, thread)
    assert wrong == []


# --- by the history -------------------------------------------------------------------------------


class ConvertedThread:
    """A history that is converted to the format of each turn; nothing is stored."""

    def __init__(self, order: str) -> None:
        self._order = order
        self._items: list[Document] = []
        """What the client keeps, as items of Responses without ids."""
        self._output: list[Document] = []

    def ask(self, index: int, turn: Turn, before: Turn | None, model: str) -> tuple[str, Document]:
        self._items += user_items(turn) or result_items(self._output, before or turn)
        if self._order[index] == "R":
            return "/responses", request_body(model, self._items, store=False)
        return "/messages", {**MessagesThread().body(model), "messages": to_messages(self._items)}

    async def read(self, index: int, events: list[Document]) -> None:
        if self._order[index] == "R":
            assert events[-1]["type"] == "response.completed", events[-1]
            self._output = echo_items(events[-1]["response"]["output"])
        else:
            reader = MessagesThread()
            reader.read(events)
            self._output = [_to_item(block) for block in reader.blocks]
        self._items += self._output

    def carries(self, index: int) -> bool:
        return True


def _to_item(block: Document) -> Document:
    match block:
        case {"type": "thinking", "thinking": text, "signature": state}:
            summary = [{"type": "summary_text", "text": text}] if text else []
            return {"type": "reasoning", "summary": summary, "encrypted_content": state}
        case {"type": "text", "text": text}:
            part = {"type": "output_text", "text": text, "annotations": []}
            return {"type": "message", "role": "assistant", "content": [part]}
        case {"type": "tool_use", "name": "note"}:
            made = {"name": "note", "call_id": block["id"], "input": block["input"]["input"]}
            return {"type": "custom_tool_call", **made}
        case {"type": "tool_use"}:
            given = json.dumps(block["input"], ensure_ascii=False, separators=(",", ":"))
            made = {"name": block["name"], "call_id": block["id"], "arguments": given}
            return {"type": "function_call", **made}
    raise AssertionError(block)


def to_messages(items: list[Document]) -> list[Document]:
    """The messages of a history: items of one role become blocks of one message."""
    messages: list[Document] = []
    for role, block in map(_to_block, items):
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"].append(block)
        else:
            messages.append({"role": role, "content": [block]})
    return messages


def _to_block(item: Mapping[str, Any]) -> tuple[str, Document]:
    match item:
        case {"type": "reasoning"}:
            text = "".join(part["text"] for part in item["summary"])
            signed = {"thinking": text, "signature": item.get("encrypted_content") or ""}
            return "assistant", {"type": "thinking", **signed}
        case {"type": "message", "content": str(text), "role": role}:
            return role, {"type": "text", "text": text}
        case {"type": "message", "content": parts, "role": role}:
            return role, {"type": "text", "text": "".join(part["text"] for part in parts)}
        case {"type": "function_call"}:
            use = {"id": item["call_id"], "input": json.loads(item["arguments"])}
            return "assistant", {"type": "tool_use", "name": item["name"], **use}
        case {"type": "custom_tool_call"}:
            use = {"id": item["call_id"], "input": {"input": item["input"]}}
            return "assistant", {"type": "tool_use", "name": item["name"], **use}
    result = {"tool_use_id": item["call_id"], "content": item["output"]}
    return "user", {"type": "tool_result", **result}


@pytest.mark.parametrize("order", ORDERS)
async def test_a_history_is_converted_from_one_format_to_another(
    tmp_path: Path, order: str
) -> None:
    wrong: list[str] = []
    async with gateway_of_all(tmp_path, "memory://") as (gateway, servers):
        for kinds in [*PAIRS, *((kind, kind) for kind in PROVIDERS)]:
            thread = ConvertedThread(order)
            wrong += await play(gateway, servers, kinds, thread)
    assert wrong == []


class ConvertedToChat(ConvertedThread):
    """A history that is converted to Chat Completions in the end, with the sealed state where
    routers have it (`reasoning_details`), or where Gemini has the signature of a call."""

    def __init__(self, order: str) -> None:
        super().__init__(order)
        self._chat = ChatThread()

    def ask(self, index: int, turn: Turn, before: Turn | None, model: str) -> tuple[str, Document]:
        self._chat.ask(turn, before)
        if self._order[index] != "C":
            return super().ask(index, turn, before, model)
        return self._chat.path, self._chat.body(model)

    async def read(self, index: int, events: list[Document]) -> None:
        if self._order[index] == "C":
            self._chat.read(events)
            return
        await super().read(index, events)
        self._chat.add(_to_signed_message(self._output))

    def carries(self, index: int) -> bool:
        """What a client of Chat Completions keeps itself has no carrier without calls."""
        return bool(SESSION[index].calls) or self._order[index] != "C"


def _to_signed_message(items: list[Document]) -> Document:
    message = _to_chat_message(items)
    calls = iter(message.get("tool_calls", ()))
    sealed = ""
    for item in [*items, {}]:
        state, sealed = sealed, item.get("encrypted_content") or ""
        call = next(calls) if "call_id" in item else {}
        if state and call:
            call["extra_content"] = {"google": {"thought_signature": state}}
        elif state:
            detail = {"type": "reasoning.encrypted", "data": state}
            message.setdefault("reasoning_details", []).append(detail)
    return message


@pytest.mark.parametrize("order", ["RRRCCC", "MMMCCC", "RMCCCC", "MRRMRC"])
async def test_a_history_is_converted_to_chat_completions(tmp_path: Path, order: str) -> None:
    wrong: list[str] = []
    async with gateway_of_all(tmp_path, "memory://") as (gateway, servers):
        for kinds in [*PAIRS, *((kind, kind) for kind in PROVIDERS)]:
            wrong += await play(gateway, servers, kinds, ConvertedToChat(order))
    assert wrong == []
