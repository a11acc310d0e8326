"""Threads of clients without a store: each request repeats the history as its client keeps it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tests.simulation.formats.reading import Document, Format, Reading
from tests.support.scripted_providers.session import INSTRUCTIONS, TOOLS

AGENTS: Mapping[Format, tuple[str, ...]] = {
    "responses": ("simulation/1.0", "codex_cli_rs/0.50.0 (simulation)", "OpenAI/Python 2.0"),
    "messages": (
        "claude-cli/2.1.326 (external, cli)",
        "claude-cli/2.1.326 (external, cli)",
        "Anthropic/Python 2.9.0",
        "Anthropic/JS 1.9.0",
    ),
    "chat": ("OpenAI/Python 2.0", "ai-sdk/openai-compatible/3.0.90", "simulation/1.0"),
}
CLAUDE = "claude-cli"
_SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
    "additionalProperties": False,
}
_FUNCTION, _CUSTOM = TOOLS
_RESULT = "rain. "
_SDK = "Anthropic/"
_NOTE_RATE = 0.3
_SERVER_RATE = 0.5
THINKING: Document = {"type": "enabled", "budget_tokens": 2048}


def write_note(question: str) -> str:
    """A message of the system that stands in the middle of a thread."""
    return f"Note n{question.split()[1].partition('-')[0]}x: be brief."


class Thread(Protocol):
    """The history of one client, and the requests that continue it."""

    messages: list[Document]

    def ask(self, rng: random.Random, text: str) -> Document:
        """Make the next request: a question, or the results of the calls, with this text."""

    def take(self, request: Document, reading: Reading) -> None:
        """Add the response to a request, as the client sends it back."""


def draw_settings(rng: random.Random, options: Mapping[str, tuple[float, Any]]) -> Document:
    """Draw some of the options, each with its own probability."""
    return {name: value for name, (rate, value) in options.items() if rng.random() < rate}


class MessagesThread:
    """A thread of a client of Messages: it sends blocks back as they were, with arguments that it
    has decoded and encoded again. An SDK may have the thread on the server, and sends what is
    new."""

    def __init__(self, agent: str) -> None:
        self.messages: list[Document] = []
        self._agent = agent
        self._waiting: list[str] = []
        """The ids of calls that wait for their results."""
        self._asked = 0
        """The number of messages before the last request."""
        self._kept = 0
        """The number of messages that the server has."""
        self._last_id = ""
        """The message that a thread on the server ends with."""

    def ask(self, rng: random.Random, text: str) -> Document:
        self._asked = len(self.messages)
        own = random.Random(f"thread of {text}")
        results = [
            {"type": "tool_result", "tool_use_id": id, "content": _RESULT + text}
            for id in self._waiting
        ]
        content: Any = results or (text if rng.random() < 0.5 else [{"type": "text", "text": text}])
        question: list[Document] = [{"role": "user", "content": content}]
        note: list[Document] = []
        if self.messages and own.random() < _NOTE_RATE:
            note = [{"role": "system", "content": write_note(text)}]
        self.messages += [*question, *note] if results else [*note, *question]
        self._waiting = []
        system = [{"type": "text", "text": INSTRUCTIONS, "cache_control": {"type": "ephemeral"}}]
        thinking = rng.choice((THINKING, THINKING, {"type": "adaptive"}, {"type": "disabled"}))
        tool = {name: _FUNCTION[name] for name in ("name", "description")}
        schema = {**tool, "input_schema": _FUNCTION["parameters"]}
        session = '{"session_id":"5f1c0f0e-0000-4000-8000-000000000001"}'
        options = {
            "system": (0.5, system),
            "tools": (0.4, [schema]),
            "thinking": (0.6, thinking),
            "metadata": (0.3, {"user_id": session}),
        }
        settings = draw_settings(rng, options)
        if self._last_id or (self._agent.startswith(_SDK) and own.random() < _SERVER_RATE):
            return self._continue(settings)
        return {"max_tokens": 4096, "messages": [*self.messages], **settings}

    def _continue(self, settings: Document) -> Document:
        """Continue the thread on the server, which has its system prompt and its tools; or begin
        it there."""
        request: Document = {"max_tokens": 4096, "messages": self.messages[self._kept :]}
        if not self._last_id:
            return {**request, **settings, "thread": {"type": "create"}}
        more = {name: settings[name] for name in settings if name not in ("system", "tools")}
        thread = {"type": "continue", "previous_message_id": f"msg_{self._last_id}"}
        return {**request, **more, "thread": thread}

    def take(self, request: Document, reading: Reading) -> None:
        closed = {call.id for call in reading.calls if call.is_closed}
        content = [
            block
            for block in reading.blocks
            if block["type"] != "tool_use" or block["id"] in closed
        ]
        if not content:
            del self.messages[self._asked :]  # the client asks something else, in a new thread
            self._last_id = ""
            self._kept = 0
            return
        self.messages.append({"role": "assistant", "content": content})
        self._waiting = [call.id for call in reading.calls if call.is_closed]
        if "thread" in request:
            self._last_id = reading.id
            self._kept = len(self.messages)


class ChatThread:
    """A thread of a client of Chat Completions: it sends text and calls back; some clients also
    send reasoning."""

    def __init__(self, agent: str) -> None:
        self.messages: list[Document] = []
        self._agent = agent
        self._waiting: list[str] = []

    def ask(self, rng: random.Random, text: str) -> Document:
        results: list[Document] = [
            {"role": "tool", "tool_call_id": id, "content": _RESULT + text} for id in self._waiting
        ]
        self.messages += results or [{"role": "user", "content": text}]
        self._waiting = []
        system = [{"role": "system", "content": INSTRUCTIONS}] if rng.random() < 0.5 else []
        options = {
            "tools": (0.4, [_nest(_FUNCTION), _nest(_CUSTOM)]),
            "reasoning_effort": (0.3, "low"),
            "stream_options": (0.6, {"include_usage": True}),
            "store": (0.4, rng.random() < 0.5),
        }
        settings = draw_settings(rng, options)
        return {"messages": [*system, *self.messages], **settings}

    def take(self, request: Document, reading: Reading) -> None:
        calls = reading.calls if reading.reason == "tool_calls" else []
        message: Document = {"role": "assistant", "content": reading.text or None}
        if calls:
            message["tool_calls"] = [_render_call(call.kind, call) for call in calls]
        elif not reading.text:
            self.messages.pop()
            return
        if reading.blocks and self._agent.startswith("ai-sdk"):
            message["reasoning_details"] = reading.blocks
        elif reading.reasoning and self._agent.startswith("simulation"):
            message["reasoning_content"] = reading.reasoning
        self.messages.append(message)
        self._waiting = [call.id for call in calls]


def _nest(tool: Document) -> Document:
    """A tool as Chat Completions has it: its members are in an object."""
    members = {name: value for name, value in tool.items() if name != "type"}
    return {"type": tool["type"], tool["type"]: members}


def _render_call(kind: str, call: Any) -> Document:
    member = "input" if kind == "custom" else "arguments"
    return {"id": call.id, "type": kind, kind: {"name": call.name, member: call.arguments}}


THREADS: Mapping[Format, Callable[[str], Thread]] = {
    "messages": MessagesThread,
    "chat": ChatThread,
}


def ask_once(format: Format, text: str, request: Document) -> Document:
    """A single question with the settings of a request (model, stream)."""
    if format == "responses":
        return {"input": text, **request}
    limit: Document = {"max_tokens": 4096} if format == "messages" else {}
    return {**limit, "messages": [{"role": "user", "content": text}], **request}


def ask_for_json(format: Format, request: Document) -> Document:
    """The same request for a response in JSON."""
    if format == "messages":
        wanted: Document = {"format": {"type": "json_schema", "schema": _SCHEMA}}
        return {**request, "output_config": wanted}
    schema = {"name": "result", "schema": _SCHEMA, "strict": True}
    return {**request, "response_format": {"type": "json_schema", "json_schema": schema}}


@dataclass(frozen=True)
class KeptTurn:
    """A turn of a thread whose client sends it back."""

    tenant: str
    format: Format
    model: str
    message: Document
    has_reasoning: bool

    @property
    def has_state(self) -> bool:
        """Whether it has what leads to the state of a provider."""
        if self.format == "chat":
            return self.has_reasoning and bool(self.message.get("tool_calls"))
        return any(block.get("signature") for block in self.message["content"])


def copy_state(text: str, foreign: KeptTurn) -> list[Document]:
    """A history with texts of its own, and the sealed state or a call id of another client."""
    question: Document = {"role": "user", "content": text}
    if foreign.format == "messages":
        return _copy_signature(question, text, foreign.message)
    calls = foreign.message["tool_calls"][:1]
    copied: Document = {"role": "assistant", "content": None, "tool_calls": calls}
    result = {"role": "tool", "tool_call_id": calls[0]["id"], "content": _RESULT + text}
    return [question, copied, result]


def _copy_signature(question: Document, text: str, message: Document) -> list[Document]:
    thoughts = [block for block in message["content"] if block.get("signature")][:1]
    call = {"type": "tool_use", "id": "toolu_0123456789abcdef", "name": "get_weather", "input": {}}
    result = {"type": "tool_result", "tool_use_id": call["id"], "content": _RESULT + text}
    return [
        question,
        {"role": "assistant", "content": [*thoughts, call]},
        {"role": "user", "content": [result]},
    ]
