"""Echo: an upstream inside the process, with no key and no network, that behaves like a model.

It speaks real Chat Completions bytes, so everything it says takes the whole path. It is
deterministic. The model's name chooses the behaviour:

    echo            repeats the last user message, a word at a time
    reasoner        thinks first
    refuser         refuses
    error-<status>  answers with that HTTP status
    error-midway    breaks off with an error after some words
    cut             hangs up without a finish reason
    <any>           calls a declared tool if it is told to, or if the last user message shares a
                    word with the tool's name or description; answers in plain text once the
                    outputs are there; answers with JSON if a format is asked for
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from antiphon.core.plan import Capabilities
from antiphon.providers.sample import sample
from antiphon.providers.spec import Model, Spec

_MODELS = ("echo", "reasoner", "refuser", "error-429", "error-500", "error-midway", "cut")
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

SPEC = Spec(
    name="echo",
    title="Echo (built in, offline)",
    base_url="echo://local",
    needs_key=False,
    in_process=True,
    any_model=False,
    capabilities=Capabilities(
        parameters=frozenset(
            {"temperature", "top_p", "max_output_tokens", "parallel_tool_calls", "top_logprobs"}
        ),
        inputs=frozenset({"text", "image", "file", "audio"}),
        efforts={effort: effort for effort in _EFFORTS},
        replay_reasoning="always",
        context_window=128_000,
    ),
    models=tuple(Model(id=name) for name in _MODELS),
)


class EchoAnswer(Struct, frozen=True):
    """What an HTTP upstream would have answered."""

    status: int
    content_type: str
    chunks: Sequence[bytes]


def answer(body: bytes) -> EchoAnswer:
    """Answer a Chat Completions request."""
    request: Mapping[str, Any] = msgspec.json.decode(body)
    model = str(request["model"])
    if refused := re.fullmatch(r"error-(\d{3})", model):
        return _error(int(refused[1]))
    reply = _reply(request, model)
    if request.get("stream"):
        chunks = [_frame(chunk) for chunk in reply.chunks(model)]
        ending = [] if model == "cut" else [b"data: [DONE]\n\n"]
        return EchoAnswer(200, "text/event-stream", [*chunks, *ending])
    return EchoAnswer(200, "application/json", [msgspec.json.encode(reply.whole(model))])


def _frame(chunk: Mapping[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(chunk) + b"\n\n"


def _error(status: int) -> EchoAnswer:
    error = {
        "message": f"Echo was asked to fail with {status}.",
        "type": "echo_error",
        "param": None,
        "code": None,
    }
    return EchoAnswer(status, "application/json", [msgspec.json.encode({"error": error})])


class _Reply(Struct, frozen=True, kw_only=True):
    """What the model says, before it is cut into chunks."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls: Sequence[tuple[str, str]] = ()
    finish: str | None = "stop"
    error: Mapping[str, Any] | None = None
    prompt_tokens: int = 0

    def usage(self) -> dict[str, Any]:
        thought = len(_words(self.reasoning))
        spoken = len(_words(self.text + self.refusal)) + 4 * len(self.calls)
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": thought + spoken,
            "total_tokens": self.prompt_tokens + thought + spoken,
            "completion_tokens_details": {"reasoning_tokens": thought},
        }

    def chunks(self, model: str) -> Iterator[dict[str, Any]]:
        yield _chunk(model, {"role": "assistant", "content": ""})
        for word in _words(self.reasoning):
            yield _chunk(model, {"reasoning_content": word})
        for word in _words(self.text):
            yield _chunk(model, {"content": word})
        for word in _words(self.refusal):
            yield _chunk(model, {"refusal": word})
        for index, (name, arguments) in enumerate(self.calls):
            yield _chunk(model, {"tool_calls": [_opened_call(index, name)]})
            for begin in range(0, len(arguments), 16):
                piece = {"index": index, "function": {"arguments": arguments[begin : begin + 16]}}
                yield _chunk(model, {"tool_calls": [piece]})
        if self.error is not None:
            yield {"error": self.error}
        elif self.finish is not None:
            yield _chunk(model, {}, self.finish)
            yield {**_chunk(model, {}), "choices": [], "usage": self.usage()}

    def whole(self, model: str) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.refusal:
            message["refusal"] = self.refusal
        if self.calls:
            message["tool_calls"] = [
                {**_opened_call(index, name), "function": {"name": name, "arguments": arguments}}
                for index, (name, arguments) in enumerate(self.calls)
            ]
        answered = {"index": 0, "message": message, "finish_reason": self.finish}
        document = {**_chunk(model, {}), "object": "chat.completion", "choices": [answered]}
        return {**document, "usage": self.usage(), **({"error": self.error} if self.error else {})}


def _chunk(model: str, delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {
        "id": "chatcmpl-echo",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


def _opened_call(index: int, name: str) -> dict[str, Any]:
    return {
        "index": index,
        "id": f"call_echo_{index}",
        "type": "function",
        "function": {"name": name, "arguments": ""},
    }


# What to say


def _reply(request: Mapping[str, Any], model: str) -> _Reply:
    messages: Sequence[Mapping[str, Any]] = request["messages"]
    said = _last_user_text(messages)
    prompt_tokens = sum(len(_words(_text(message.get("content")))) for message in messages)
    if model == "refuser":
        return _Reply(refusal="I would rather not.", prompt_tokens=prompt_tokens)
    outputs = _outputs_since_last_user(messages)
    tool = None if outputs else _wanted_tool(request, said)
    reasoning = f"The user said: {said}" if model == "reasoner" else ""
    if tool is not None:
        arguments = msgspec.json.encode(sample(tool.get("parameters") or {}, said)).decode()
        call = (tool["name"], arguments if arguments != "null" else "{}")
        return _Reply(
            calls=(call,), reasoning=reasoning, finish="tool_calls", prompt_tokens=prompt_tokens
        )
    text = _formatted(request, "\n".join(outputs) or said or "…")
    reply = _Reply(text=text, reasoning=reasoning, prompt_tokens=prompt_tokens)
    return _spoiled(_limited(reply, request), model)


def _limited(reply: _Reply, request: Mapping[str, Any]) -> _Reply:
    limit = request.get("max_tokens", request.get("max_completion_tokens"))
    words = _words(reply.text)
    if not isinstance(limit, int) or len(words) <= limit:
        return reply
    return msgspec.structs.replace(reply, text="".join(words[:limit]), finish="length")


def _spoiled(reply: _Reply, model: str) -> _Reply:
    if model == "cut":
        return msgspec.structs.replace(reply, finish=None)
    if model == "error-midway":
        error = {"message": "Echo was asked to break off.", "type": "server_error", "code": 500}
        return msgspec.structs.replace(reply, error=error)
    return reply


def _formatted(request: Mapping[str, Any], text: str) -> str:
    match request.get("response_format"):
        case {"type": "json_schema", "json_schema": {"schema": schema}}:
            return msgspec.json.encode(sample(schema, text)).decode()
        case {"type": "json_object"}:
            return msgspec.json.encode({"echo": text}).decode()
    return text


def _wanted_tool(request: Mapping[str, Any], said: str) -> Mapping[str, Any] | None:
    tools = [tool["function"] for tool in request.get("tools") or () if "function" in tool]
    match request.get("tool_choice"):
        case "none":
            return None
        case {"function": {"name": name}}:
            return next((tool for tool in tools if tool["name"] == name), None)
        case "required":
            return next(
                (tool for tool in tools if _shares_a_word(tool, said)), (tools or [None])[0]
            )
    return next((tool for tool in tools if _shares_a_word(tool, said)), None)


def _shares_a_word(tool: Mapping[str, Any], said: str) -> bool:
    about = f"{tool['name']} {tool.get('description') or ''}"
    return bool(_vocabulary(about) & _vocabulary(said))


def _vocabulary(text: str) -> set[str]:
    found = re.findall(r"[^\W\d_]{3,}", text.replace("_", " ").lower())
    return set(found) - _STOP_WORDS


_STOP_WORDS = frozenset(
    "the and for with you your are was were has have had not but can could would should will "
    "this that these those from into onto what which who when where why how please get give its "
    "about then than there here one two any all use used using return returns tool user".split()
)


def _last_user_text(messages: Sequence[Mapping[str, Any]]) -> str:
    for message in reversed(messages):
        if message.get("role") == "user":
            return _text(message.get("content"))
    return ""


def _outputs_since_last_user(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    outputs: list[str] = []
    for message in messages:
        if message.get("role") == "user":
            outputs = []
        elif message.get("role") == "tool":
            outputs.append(_text(message.get("content")))
    return outputs


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    return " ".join(str(part.get("text", f"[{part.get('type')}]")) for part in parts)


def _words(text: str) -> list[str]:
    """The text in pieces that join to it again, a word and its space each."""
    return re.findall(r"\s*\S+\s*$|\s*\S+|\s+", text)
