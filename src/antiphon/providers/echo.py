"""Echo: a deterministic fake model inside the process, without key or network.

It returns real Chat Completions bytes, which take the same path as those of any provider, and it
responds to every request. The model's name selects the behaviour:

    echo            repeats the last user message, a word at a time
    reasoner        sends reasoning first, unless the effort is `none`
    refuser         refuses
    error-<status>  returns that HTTP status
    error-midway    ends the stream with an error after some text
    cut             closes the stream without a finish reason
    slow            repeats the last user message like `echo`, one word every 0.2 seconds

All of them call a declared tool if `tool_choice` forces one, or if the last user message shares a
word with the tool's name or description. Reminders that an agent has put into that message
(`<system-reminder>…</system-reminder>`) are not the user's words. Once the tool outputs are there,
they answer in plain text, or in JSON if a response format is requested. Images, files and audio are
described by their type and size. A compaction gets an excerpt of every message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from antiphon.core.capabilities import Capabilities
from antiphon.core.plan.effort import EFFORTS
from antiphon.providers.echo_media import describe_part
from antiphon.providers.echo_summary import summarize
from antiphon.providers.sample import sample
from antiphon.providers.spec import Model, Spec

JSONObject: TypeAlias = Mapping[str, Any]

_MODELS = """
    echo reasoner refuser error-400 error-401 error-429 error-500 error-503 error-midway cut slow
"""
_DELAYS_S: Mapping[str, float] = {"slow": 0.2}
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


class EchoResponse(Struct, frozen=True):
    """The HTTP response of the fake provider."""

    status: int
    content_type: str
    chunks: Sequence[bytes]
    delay_s: float = 0.0
    """The time between two chunks."""


def respond(body: bytes) -> EchoResponse:
    """Respond to a Chat Completions request."""
    try:
        request = _as_object(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _error(400, "Echo: the request body is not a valid JSON object.")
    model = str(request.get("model"))
    if failing := re.fullmatch(r"error-(\d{3})", model):
        status = int(failing[1])
        return _error(status, f"Echo: model '{model}' always fails with status {status}.")
    reply = _build_reply(request, model)
    delay_s = _DELAYS_S.get(model, 0.0)
    if request.get("stream") is not True:
        completion = msgspec.json.encode(reply.to_completion(model))
        return EchoResponse(200, "application/json", [completion], delay_s)
    return EchoResponse(200, "text/event-stream", _encode_frames(reply, model), delay_s)


def _encode_frames(reply: _EchoReply, model: str) -> list[bytes]:
    """Encode the chunks, one network read each; the last of them arrive together, as they do from
    real servers."""
    output = [_encode_frame(_chunk(model, delta)) for delta in reply.to_deltas()]
    ending = [_encode_frame(chunk) for chunk in reply.to_ending(model)]
    if model != "cut":
        ending.append(b"data: [DONE]\n\n")
    return [*output, b"".join(ending)]


def _encode_frame(chunk: JSONObject) -> bytes:
    return b"data: %b\n\n" % msgspec.json.encode(chunk)


def _error(status: int, message: str) -> EchoResponse:
    error = {"message": message, "type": "echo_error", "param": None, "code": None}
    return EchoResponse(status, "application/json", [msgspec.json.encode({"error": error})])


# The wire format


class _EchoReply(Struct, frozen=True, kw_only=True):
    """The output of the model, before it is split into chunks."""

    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    calls: Sequence[tuple[str, str]] = ()
    finish: str | None = "stop"
    error: JSONObject | None = None
    prompt_tokens: int = 0

    def usage(self) -> JSONObject:
        reasoning_words = len(_split_words(self.reasoning))
        text_words = len(_split_words(self.text + self.refusal)) + 4 * len(self.calls)
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": reasoning_words + text_words,
            "total_tokens": self.prompt_tokens + reasoning_words + text_words,
            "completion_tokens_details": {"reasoning_tokens": reasoning_words},
        }

    def to_deltas(self) -> list[JSONObject]:
        """The output in pieces; the first one names the role."""
        first, *others = self._output_deltas() or [{}]
        return [{"role": "assistant", "content": "", **first}, *others]

    def _output_deltas(self) -> list[JSONObject]:
        deltas: list[JSONObject] = []
        deltas += [{"reasoning_content": word} for word in _split_words(self.reasoning)]
        deltas += [{"content": word} for word in _split_words(self.text)]
        deltas += [{"refusal": word} for word in _split_words(self.refusal)]
        for index, (name, arguments) in enumerate(self.calls):
            deltas.append({"tool_calls": [_tool_call(index, name)]})
            for begin in range(0, len(arguments), 16):
                piece = {"index": index, "function": {"arguments": arguments[begin : begin + 16]}}
                deltas.append({"tool_calls": [piece]})
        return deltas

    def to_ending(self, model: str) -> list[JSONObject]:
        """The error, or the finish reason and the usage."""
        if self.error is not None:
            return [{"error": self.error}]
        if self.finish is None:
            return []
        usage = {**_chunk(model, {}), "choices": [], "usage": self.usage()}
        return [_chunk(model, {}, self.finish), usage]

    def to_completion(self, model: str) -> JSONObject:
        message: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.refusal:
            message["refusal"] = self.refusal
        if self.calls:
            message["tool_calls"] = [
                _tool_call(index, *call) for index, call in enumerate(self.calls)
            ]
        choice = {"index": 0, "message": message, "finish_reason": self.finish}
        document = {**_chunk(model, {}), "object": "chat.completion", "choices": [choice]}
        return {**document, "usage": self.usage(), **({"error": self.error} if self.error else {})}


def _chunk(model: str, delta: JSONObject, finish: str | None = None) -> JSONObject:
    return {
        "id": "chatcmpl-echo",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


def _tool_call(index: int, name: str, arguments: str = "") -> JSONObject:
    function = {"name": name, "arguments": arguments}
    id = f"call_echo_{index}"
    return {"index": index, "id": id, "type": "function", "function": function}


def _split_words(text: str) -> list[str]:
    """Split text into words, each with the whitespace before it; they join to the same text."""
    return re.findall(r"\s*\S+|\s+", text)


# The content


def _build_reply(request: JSONObject, model: str) -> _EchoReply:
    messages = _as_objects(request.get("messages"))
    prompt_tokens = sum(len(_message_text(message.get("content"))) for message in messages) // 4 + 1
    if model == "refuser":
        return _EchoReply(refusal="I would rather not.", prompt_tokens=prompt_tokens)
    prompt, outputs = _read_conversation(messages)
    reasons = model == "reasoner" and request.get("reasoning_effort") != "none"
    reply = _EchoReply(
        reasoning=f"The user said: {prompt}" if reasons else "", prompt_tokens=prompt_tokens
    )
    tool = None if outputs else _select_tool(request, prompt)
    if tool is not None:
        call = (tool["name"], _sample_arguments(tool))
        return msgspec.structs.replace(reply, calls=(call,), finish="tool_calls")
    text = _apply_format(
        request.get("response_format"), "\n".join(outputs) or prompt or "…", messages
    )
    reply = _apply_token_limit(msgspec.structs.replace(reply, text=text), request)
    return _apply_failure(reply, model)


def _without_reminders(text: str) -> str:
    """Return the words of the user: Claude Code puts many others into the same message."""
    kept: list[str] = []
    at = 0
    while (begin := text.find(_REMINDER, at)) >= 0:
        end = text.find(_REMINDER_END, begin)
        if end < 0:
            break
        kept.append(text[at:begin].strip("\n"))
        at = end + len(_REMINDER_END)
    return "\n".join([*kept, text[at:].strip("\n")]).strip("\n") if kept else text


_REMINDER, _REMINDER_END = "<system-reminder>", "</system-reminder>"


def _read_conversation(messages: Sequence[JSONObject]) -> tuple[str, list[str]]:
    """Return the text of the last user message, and the tool outputs after it."""
    prompt = ""
    outputs: list[str] = []
    for message in messages:
        match message.get("role"):
            case "user" if not (outputs and _is_media(message.get("content"))):
                prompt = _without_reminders(_message_text(message.get("content")))
                outputs = []
            case "tool":
                outputs.append(_message_text(message.get("content")))
    return prompt, outputs


def _sample_arguments(tool: JSONObject) -> str:
    # Not the user's text: a client may run the arguments as a command, and `echo` does no harm.
    arguments = sample(tool.get("parameters") or {"type": "object"}, "echo")
    return msgspec.json.encode(arguments if isinstance(arguments, dict) else {}).decode()


def _apply_token_limit(reply: _EchoReply, request: JSONObject) -> _EchoReply:
    requested = request.get("max_tokens")
    limit = min(requested, _MAX_WORDS) if type(requested) is int and requested > 0 else _MAX_WORDS
    reasoning_words = _split_words(reply.reasoning)
    text_words = _split_words(reply.text)
    if len(reasoning_words) + len(text_words) <= limit:
        return reply
    return msgspec.structs.replace(
        reply,
        reasoning="".join(reasoning_words[:limit]),
        text="".join(text_words[: max(limit - len(reasoning_words), 0)]),
        finish="length",
    )


def _apply_failure(reply: _EchoReply, model: str) -> _EchoReply:
    if model == "cut":
        return msgspec.structs.replace(reply, finish=None)
    if model == "error-midway":
        message = "Echo: model 'error-midway' always fails in the middle of a stream."
        error = {"message": message, "type": "server_error", "code": 500}
        return msgspec.structs.replace(reply, error=error)
    return reply


def _apply_format(form: Any, text: str, messages: Sequence[JSONObject]) -> str:
    match form:
        case {"type": "json_schema", "json_schema": {"name": "conversation_summary"}}:
            said = [
                (str(each.get("role")), _message_text(each.get("content"))) for each in messages
            ]
            return msgspec.json.encode(summarize(said)).decode()
        case {"type": "json_schema", "json_schema": {"schema": schema}}:
            return msgspec.json.encode(sample(schema, text)).decode()
        case {"type": "json_object"}:
            return msgspec.json.encode({"echo": text}).decode()
    return text


def _select_tool(request: JSONObject, prompt: str) -> JSONObject | None:
    functions = (_as_object(tool.get("function")) for tool in _as_objects(request.get("tools")))
    tools = {tool["name"]: tool for tool in functions if isinstance(tool.get("name"), str)}
    prompt_words = _significant_words(prompt)
    shared = {
        name: len(prompt_words & _significant_words(f"{name} {tool.get('description') or ''}"))
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


def _significant_words(text: str) -> set[str]:
    return set(re.findall(r"[^\W\d_]{3,}", text.lower())) - _COMMON_WORDS


_COMMON_WORDS = frozenset(
    """
    about all and any are but can could does for from get give had has have here how into its not
    one onto only return returns should than that the then there these this those tool two use used
    user using was were what when where which who why will with would you your
    """.split()
)


def _message_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = _as_objects(content)
    return " ".join(str(part["text"]) if "text" in part else describe_part(part) for part in parts)


def _is_media(content: Any) -> bool:
    """Whether a message holds no text: images of a tool output follow it in such a message."""
    return isinstance(content, list) and not any("text" in part for part in _as_objects(content))


def _as_object(value: Any) -> JSONObject:
    return value if isinstance(value, dict) else {}


def _as_objects(value: Any) -> list[JSONObject]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
