"""Echo: an upstream inside the process, with no key and no network, that behaves like a model.

It speaks real Chat Completions bytes, so everything it says takes the whole path. It is
deterministic, and it has an answer to anything. The model's name chooses the behaviour:

    echo            repeats the last user message, a word at a time
    reasoner        thinks first, unless the effort is `none`
    refuser         refuses
    error-<status>  answers with that HTTP status
    error-midway    breaks off with an error after some words
    cut             hangs up without a finish reason

All of them call a declared tool if they are told to, or if the last user message shares a word with
the tool's name or description; they answer in plain text once the outputs are there, and in JSON if
a format is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from antiphon.core.plan.plan import Capabilities
from antiphon.core.planning.make_plan import EFFORTS
from antiphon.providers.sample import sample
from antiphon.providers.spec import Model, Spec
from antiphon.wire.items import Document

_MODELS = "echo reasoner refuser error-400 error-401 error-429 error-500 error-503 error-midway cut"
_MAX_WORDS = 8192

SPEC = Spec(
    name="echo",
    title="Echo (built in, offline)",
    base_url="echo://local",
    needs_key=False,
    in_process=True,
    any_model=False,
    capabilities=Capabilities(
        parameters=frozenset({"temperature", "top_p", "max_output_tokens", "parallel_tool_calls"}),
        inputs=frozenset({"text", "image", "file", "audio"}),
        efforts={effort: effort for effort in EFFORTS},
        replay_reasoning="always",
        context_window=128_000,
        max_output_tokens=_MAX_WORDS,
    ),
    models=tuple(Model(id=name) for name in _MODELS.split()),
)


class EchoAnswer(Struct, frozen=True):
    """What an HTTP upstream would have answered."""

    status: int
    content_type: str
    chunks: Sequence[bytes]


def answer(body: bytes) -> EchoAnswer:
    """Answer a Chat Completions request."""
    try:
        request = _document(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _error(400, "Echo cannot read this body.")
    model = str(request.get("model"))
    if asked := re.fullmatch(r"error-(\d{3})", model):
        return _error(int(asked[1]), f"Echo was asked to fail with {asked[1]}.")
    reply = _reply(request, model)
    if request.get("stream") is not True:
        return EchoAnswer(200, "application/json", [msgspec.json.encode(reply.whole(model))])
    frames = [b"data: %b\n\n" % msgspec.json.encode(chunk) for chunk in reply.chunks(model)]
    if model != "cut":
        frames.append(b"data: [DONE]\n\n")
    return EchoAnswer(200, "text/event-stream", frames)


def _error(status: int, message: str) -> EchoAnswer:
    error = {"message": message, "type": "echo_error", "param": None, "code": None}
    return EchoAnswer(status, "application/json", [msgspec.json.encode({"error": error})])


# How it is said


class _Reply(Struct, frozen=True, kw_only=True):
    """What the model says, before it is cut into chunks."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls: Sequence[tuple[str, str]] = ()
    finish: str | None = "stop"
    error: Document | None = None
    prompt_tokens: int = 0

    def usage(self) -> Document:
        thought = len(_words(self.reasoning))
        spoken = len(_words(self.text + self.refusal)) + 4 * len(self.calls)
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": thought + spoken,
            "total_tokens": self.prompt_tokens + thought + spoken,
            "completion_tokens_details": {"reasoning_tokens": thought},
        }

    def chunks(self, model: str) -> Iterator[Document]:
        yield _chunk(model, {"role": "assistant", "content": ""})
        for word in _words(self.reasoning):
            yield _chunk(model, {"reasoning_content": word})
        for word in _words(self.text):
            yield _chunk(model, {"content": word})
        for word in _words(self.refusal):
            yield _chunk(model, {"refusal": word})
        for index, (name, arguments) in enumerate(self.calls):
            yield _chunk(model, {"tool_calls": [_call(index, name)]})
            for begin in range(0, len(arguments), 16):
                piece = {"index": index, "function": {"arguments": arguments[begin : begin + 16]}}
                yield _chunk(model, {"tool_calls": [piece]})
        if self.error is not None:
            yield {"error": self.error}
        elif self.finish is not None:
            yield _chunk(model, {}, self.finish)
            yield {**_chunk(model, {}), "choices": [], "usage": self.usage()}

    def whole(self, model: str) -> Document:
        message: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.refusal:
            message["refusal"] = self.refusal
        if self.calls:
            message["tool_calls"] = [_call(index, *call) for index, call in enumerate(self.calls)]
        choice = {"index": 0, "message": message, "finish_reason": self.finish}
        document = {**_chunk(model, {}), "object": "chat.completion", "choices": [choice]}
        return {**document, "usage": self.usage(), **({"error": self.error} if self.error else {})}


def _chunk(model: str, delta: Document, finish: str | None = None) -> Document:
    return {
        "id": "chatcmpl-echo",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


def _call(index: int, name: str, arguments: str = "") -> Document:
    function = {"name": name, "arguments": arguments}
    return {"index": index, "id": f"call_echo_{index}", "type": "function", "function": function}


def _words(text: str) -> list[str]:
    """The text in pieces that join to it again: each word with the space before it."""
    return re.findall(r"\s*\S+|\s+", text)


# What is said


def _reply(request: Document, model: str) -> _Reply:
    messages = _documents(request.get("messages"))
    prompt_tokens = sum(len(_text(message.get("content"))) for message in messages) // 4 + 1
    if model == "refuser":
        return _Reply(refusal="I would rather not.", prompt_tokens=prompt_tokens)
    said, outputs = _heard(messages)
    thinks = model == "reasoner" and request.get("reasoning_effort") != "none"
    reply = _Reply(
        reasoning=f"The user said: {said}" if thinks else "", prompt_tokens=prompt_tokens
    )
    tool = None if outputs else _wanted_tool(request, said)
    if tool is not None:
        call = (tool["name"], _arguments(tool))
        return msgspec.structs.replace(reply, calls=(call,), finish="tool_calls")
    text = _formatted(request.get("response_format"), "\n".join(outputs) or said or "…")
    return _spoiled(_limited(msgspec.structs.replace(reply, text=text), request), model)


def _heard(messages: Sequence[Document]) -> tuple[str, list[str]]:
    """What the user said last, and what tools have answered since."""
    said = ""
    outputs: list[str] = []
    for message in messages:
        match message.get("role"):
            case "user" if not (outputs and _is_media(message.get("content"))):
                said, outputs = _text(message.get("content")), []
            case "tool":
                outputs.append(_text(message.get("content")))
    return said, outputs


def _arguments(tool: Document) -> str:
    # Not the user's words: a client may well run what it is told to, and `echo` does no harm.
    made = sample(tool.get("parameters") or {"type": "object"}, "echo")
    return msgspec.json.encode(made if isinstance(made, dict) else {}).decode()


def _limited(reply: _Reply, request: Document) -> _Reply:
    asked = request.get("max_tokens")
    limit = min(asked, _MAX_WORDS) if type(asked) is int and asked > 0 else _MAX_WORDS
    thought, spoken = _words(reply.reasoning), _words(reply.text)
    if len(thought) + len(spoken) <= limit:
        return reply
    return msgspec.structs.replace(
        reply,
        reasoning="".join(thought[:limit]),
        text="".join(spoken[: max(limit - len(thought), 0)]),
        finish="length",
    )


def _spoiled(reply: _Reply, model: str) -> _Reply:
    if model == "cut":
        return msgspec.structs.replace(reply, finish=None)
    if model == "error-midway":
        error = {"message": "Echo was asked to break off.", "type": "server_error", "code": 500}
        return msgspec.structs.replace(reply, error=error)
    return reply


def _formatted(form: Any, text: str) -> str:
    match form:
        case {"type": "json_schema", "json_schema": {"schema": schema}}:
            return msgspec.json.encode(sample(schema, text)).decode()
        case {"type": "json_object"}:
            return msgspec.json.encode({"echo": text}).decode()
    return text


def _wanted_tool(request: Document, said: str) -> Document | None:
    functions = (_document(tool.get("function")) for tool in _documents(request.get("tools")))
    tools = {tool["name"]: tool for tool in functions if isinstance(tool.get("name"), str)}
    topic = _vocabulary(said)
    shared = {
        name: len(topic & _vocabulary(f"{name} {tool.get('description') or ''}"))
        for name, tool in tools.items()
    }
    best = max(shared, key=lambda name: shared[name], default="")
    match request.get("tool_choice"):
        case "none":
            return None
        case {"function": {"name": str(name)}}:
            return tools.get(name)
        case "required":
            return tools.get(best)
    return tools[best] if shared.get(best) else None


def _vocabulary(text: str) -> set[str]:
    return set(re.findall(r"[^\W\d_]{3,}", text.lower())) - _COMMON_WORDS


_COMMON_WORDS = frozenset(
    """
    about all and any are but can could does for from get give had has have here how into its not
    one onto only return returns should than that the then there these this those tool two use used
    user using was were what when where which who why will with would you your
    """.split()
)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return " ".join(str(part.get("text", f"[{part.get('type')}]")) for part in _documents(content))


def _is_media(content: Any) -> bool:
    """Whether nothing is said: images of a tool's output come like this, after it."""
    return isinstance(content, list) and not any("text" in part for part in _documents(content))


def _document(value: Any) -> Document:
    return value if isinstance(value, dict) else {}


def _documents(value: Any) -> list[Document]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
