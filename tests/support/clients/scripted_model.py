"""A scripted model behind the real wire format of a provider.

A script has one step for each request: a `Reply`, an HTTP error (`ErrorReply`), a truncated stream
(`CutReply`), one that is held (`HeldReply`) or one that was recorded (`RecordedReply`). Where it
depends on the request, a step is a function of the request; and a whole script may be one function,
for clients that send several requests at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeAlias

from tests.support.clients.provider_requests import (
    AnthropicProviderRequest,
    ChatProviderRequest,
    Document,
    GeminiProviderRequest,
    ProviderRequest,
    ResponsesProviderRequest,
)
from tests.support.request_validators import anthropic as anthropic_request_validator
from tests.support.request_validators import chat as chat_request_validator
from tests.support.request_validators import gemini as gemini_request_validator
from tests.support.request_validators import responses as responses_request_validator
from tests.support.scripted_providers import session
from tests.support.scripted_providers.anthropic import ScriptedAnthropic
from tests.support.scripted_providers.chat import ScriptedChat
from tests.support.scripted_providers.gemini import ScriptedGemini
from tests.support.scripted_providers.responses import ScriptedResponses
from tests.support.scripted_providers.scripted_provider import ScriptedProvider
from tests.support.upstream import Connection, ReceivedRequest, send_json

Dialect: TypeAlias = Literal["chat", "anthropic", "gemini", "responses"]
DIALECTS: tuple[Dialect, ...] = ("chat", "anthropic", "gemini")
"""What most scenarios run with."""
ALL_DIALECTS: tuple[Dialect, ...] = (*DIALECTS, "responses")
FIRST = 11  # the first turn of a scripted provider has content that clients need not handle


@dataclass(frozen=True)
class Call:
    """A tool call by the client's name; the model looks up the provider's name for it."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Reply:
    text: str = ""
    thought: str = ""
    calls: Sequence[Call] = ()
    tokens: int = 9
    """Reported input tokens."""


@dataclass(frozen=True)
class ErrorReply:
    """An HTTP error; a header's name has underscores."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CutReply:
    """A stream that is cut off after the frame that contains the text `after`."""

    reply: Reply
    after: str


Wait: TypeAlias = Callable[[], Awaitable[object]]


@dataclass(frozen=True)
class HeldReply:
    """A stream that waits after the frame that contains the text `after`.

    Without `wait`, it waits until the gateway disconnects.
    """

    reply: Reply
    after: str
    wait: Wait | None = None
    is_held_at_start: bool = False
    """Whether it waits before its first frame, too."""


@dataclass(frozen=True)
class RecordedReply:
    """A recorded stream of the same dialect, which waits before its last frame."""

    frames: Sequence[bytes]
    wait: Wait


Step: TypeAlias = Reply | ErrorReply | CutReply | HeldReply | RecordedReply
Script: TypeAlias = (
    Sequence[Step | Callable[[ProviderRequest], Step]] | Callable[[ProviderRequest], Step]
)

_PROVIDERS: Mapping[Dialect, ScriptedProvider] = {
    "chat": ScriptedChat(replay="always"),
    "anthropic": ScriptedAnthropic(),
    "gemini": ScriptedGemini(),
    "responses": ScriptedResponses(),
}
_REQUEST_TYPES: Mapping[Dialect, type[ProviderRequest]] = {
    "chat": ChatProviderRequest,
    "anthropic": AnthropicProviderRequest,
    "gemini": GeminiProviderRequest,
    "responses": ResponsesProviderRequest,
}
_PROBLEMS: Mapping[Dialect, Callable[[bytes], list[str]]] = {
    "chat": chat_request_validator.problems,
    "anthropic": anthropic_request_validator.problems,
    "gemini": partial(gemini_request_validator.problems, signed=True, json_beside_tools=True),
    "responses": responses_request_validator.problems,
}


class ScriptedModel:
    """Runs a script, and records and validates the requests."""

    def __init__(self, dialect: Dialect, script: Script) -> None:
        self._dialect = dialect
        self._scripted = _PROVIDERS[dialect]
        self._script = script if callable(script) else None
        self._steps = [] if callable(script) else list(script)
        self._number = FIRST
        self.requests: list[ProviderRequest] = []
        self.problems: list[str] = []
        """What a real provider would have rejected, and requests beyond the script."""
        self.disconnects = 0
        """How many held streams the gateway has left."""

    @property
    def is_finished(self) -> bool:
        """Whether every step of the script was used."""
        return not self._steps

    def state(self, index: int, thought: str) -> str:
        """The reasoning state of the answer with this index, which has to be replayed."""
        [state] = self._scripted.states(session.Turn(FIRST + index, thought=thought))
        return state

    async def __call__(self, request: ReceivedRequest, connection: Connection) -> None:
        if request.path.endswith(
            ("/count_tokens", ":countTokens", "/input_tokens")
        ):  # no call of the model
            await send_json(200, {"input_tokens": 9, "totalTokens": 9})(request, connection)
            return
        parsed = _REQUEST_TYPES[self._dialect](request)
        self.requests.append(parsed)
        self.problems += _PROBLEMS[self._dialect](request.raw)
        step = self._next(parsed)
        if isinstance(step, ErrorReply):
            await send_json(step.status, step.body, **step.headers)(request, connection)
        elif isinstance(step, CutReply):
            await self._send_cut_reply(step, parsed, connection)
        elif isinstance(step, HeldReply):
            await self._send_held_reply(step, parsed, connection)
        elif isinstance(step, RecordedReply):
            await self._send_recorded_reply(step, connection)
        else:
            await self._send_reply(step, parsed, connection)

    def _next(self, parsed: ProviderRequest) -> Step:
        try:
            step = self._script or self._steps.pop(0)
            return step(parsed) if callable(step) else step
        except (AssertionError, LookupError) as error:
            self.problems.append(f"not in the script: {error}: {parsed.messages[-1:]}")
            return ErrorReply(400, {"error": {"message": "The script is over.", "code": 400}})

    async def _send_reply(
        self, reply: Reply, parsed: ProviderRequest, connection: Connection
    ) -> None:
        if not parsed.streamed:
            whole = self._whole(self._turn(reply, parsed), reply.tokens)
            await send_json(200, whole)(parsed.received, connection)
            return
        await connection.head(content_type=self._scripted.content_type)
        for frame in self._reply_frames(reply, parsed):
            await connection.send(frame)
        await connection.end()

    async def _send_cut_reply(
        self, step: CutReply, parsed: ProviderRequest, connection: Connection
    ) -> None:
        await connection.head(content_type=self._scripted.content_type)
        for frame in self._reply_frames(step.reply, parsed):
            await connection.send(frame)
            if step.after.encode() in frame:
                break
        connection.cut()

    async def _send_held_reply(
        self, step: HeldReply, parsed: ProviderRequest, connection: Connection
    ) -> None:
        if step.is_held_at_start and step.wait:
            await step.wait()
        await connection.head(content_type=self._scripted.content_type)
        frames = self._reply_frames(step.reply, parsed)
        held = next(n for n, frame in enumerate(frames) if step.after.encode() in frame)
        for number, frame in enumerate(frames):
            await connection.send(frame)
            if number == held and step.wait:
                await step.wait()
            elif number == held:
                await connection.wait_disconnected()
                self.disconnects += 1
                return
        await connection.end()

    async def _send_recorded_reply(self, step: RecordedReply, connection: Connection) -> None:
        await connection.head(content_type=self._scripted.content_type)
        for frame in step.frames[:-1]:
            await connection.send(frame)
        await step.wait()
        await connection.send(step.frames[-1])
        await connection.end()

    def _reply_frames(self, reply: Reply, parsed: ProviderRequest) -> list[bytes]:
        data = self._scripted.stream_bytes(self._turn(reply, parsed))
        pattern = rb'("(?:prompt_tokens|input_tokens|promptTokenCount)"):9\b'
        data = re.sub(pattern, rb"\1:%d" % reply.tokens, data)
        pattern = rb'("(?:total_tokens|totalTokenCount)"):14\b'
        data = re.sub(pattern, rb"\1:%d" % (reply.tokens + 5), data)
        return [frame + b"\n\n" for frame in data.split(b"\n\n") if frame]

    def _turn(self, reply: Reply, parsed: ProviderRequest) -> session.Turn:
        calls = tuple(
            session.Call(parsed.tool(call.name), _compact(call.arguments), "")
            for call in reply.calls
        )
        turn = session.Turn(self._number, thought=reply.thought, text=reply.text, calls=calls)
        self._number += 1
        return turn

    def _whole(self, turn: session.Turn, tokens: int) -> Document:
        """A whole answer: the native message of the turn in its envelope."""
        if self._dialect == "responses":
            return self._whole_response(turn, tokens)
        [message] = self._scripted.assistant_items(turn)
        if self._dialect == "chat":
            finish = "tool_calls" if turn.calls else "stop"
            choice = {"index": 0, "message": message, "finish_reason": finish}
            usage = {"prompt_tokens": tokens, "completion_tokens": 5, "total_tokens": tokens + 5}
            return {"id": "c", "model": "m", "choices": [choice], "usage": usage}
        if self._dialect == "anthropic":
            stop = {"stop_reason": "tool_use" if turn.calls else "end_turn", "stop_sequence": None}
            usage = {"input_tokens": tokens, "output_tokens": 5}
            return {"type": "message", "id": "msg", "model": "m", **message, **stop, "usage": usage}
        thoughts = [{"text": turn.thought, "thought": True}] if turn.thought else []
        content = {**message, "parts": [*thoughts, *message["parts"]]}
        usage = {"promptTokenCount": tokens, "candidatesTokenCount": 5}
        usage["totalTokenCount"] = tokens + 5
        candidate = {"index": 0, "content": content, "finishReason": "STOP"}
        return {"candidates": [candidate], "modelVersion": "m", "usageMetadata": usage}

    def _whole_response(self, turn: session.Turn, tokens: int) -> Document:
        data = self._scripted.stream_bytes(turn)
        events = [json.loads(line[6:]) for line in data.splitlines() if line.startswith(b"data: ")]
        items = [each["item"] for each in events if each["type"] == "response.output_item.done"]
        usage = {"input_tokens": tokens, "output_tokens": 5, "total_tokens": tokens + 5}
        return {**events[-1]["response"], "output": items, "usage": usage}


def _compact(arguments: Mapping[str, Any]) -> str:
    return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))


# Errors in the format of each vendor


def context_overflow(dialect: Dialect) -> ErrorReply:
    """The input exceeds the context window."""
    if dialect == "anthropic":
        error = {
            "type": "invalid_request_error",
            "message": "prompt is too long: 1000001 tokens > 1000000 maximum",
        }
        return ErrorReply(400, {"type": "error", "error": error})
    if dialect == "gemini":
        message = (
            "The input token count (1048577) exceeds the maximum number of tokens allowed (1048576)"
        )
        return ErrorReply(
            400, {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}
        )
    message = "This model's maximum context length is 128000 tokens, but you sent 128001."
    error = {
        "message": message,
        "type": "invalid_request_error",
        "param": "messages",
        "code": "context_length_exceeded",
    }
    return ErrorReply(400, {"error": error})


def rate_limited(dialect: Dialect, retry_after_s: int) -> ErrorReply:
    """A rate limit with Retry-After."""
    bodies: Mapping[Dialect, Document] = {
        "chat": {
            "error": {"message": "Slow down.", "type": "requests", "code": "rate_limit_exceeded"}
        },
        "anthropic": {
            "type": "error",
            "error": {"type": "rate_limit_error", "message": "Slow down."},
        },
        "gemini": {"error": {"code": 429, "message": "Slow down.", "status": "RESOURCE_EXHAUSTED"}},
    }
    bodies = {**bodies, "responses": bodies["chat"]}
    return ErrorReply(429, bodies[dialect], {"retry_after": str(retry_after_s)})
