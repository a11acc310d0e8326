"""Parsing of the messages of a Chat Completions request to input items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from antiphon.core.history.capsule import is_capsule
from antiphon.core.items import Document
from antiphon.dialects.chat.client_call_ids import CallKey, read_call_id
from antiphon.dialects.chat.reasoning_state import SIGNATURE
from antiphon.dialects.validate import (
    Readers,
    any_object,
    by_type,
    enum,
    invalid_value,
    list_of,
    missing_parameter,
    non_empty_string,
    object_of,
    string,
    tagged_union,
    unsupported_value,
)

ROLES = ("system", "developer", "user", "assistant", "tool", "function")


def read_messages(value: Any, param: str) -> tuple[Document, ...]:
    """Validate messages, and return the input items that they mean."""
    messages = list_of(any_object, min_items=1)(value, param)
    thread = _Thread()
    return tuple(
        item
        for index, message in enumerate(messages)
        for item in thread.read(message, f"{param}[{index}]")
    )


class _Call(NamedTuple):
    """A call, and the reasoning items that came with it."""

    item: Document
    before: Sequence[Document] = ()
    """Directly in front of it."""
    before_text: Sequence[Document] = ()
    """In front of the text that precedes it."""


class _Thread:
    """The messages of one request, in order: a result finds the call that it belongs to."""

    def __init__(self) -> None:
        self._custom_calls: set[str] = set()
        self._function_calls: dict[str, str] = {}
        """Ids that were made for calls of older clients, by the name of the function."""

    def read(self, message: Document, param: str) -> Iterator[Document]:
        if "role" not in message:
            raise missing_parameter(f"{param}.role", given=message)
        role = string(message["role"], f"{param}.role")
        if role == "assistant":
            return self._read_assistant(message, param)
        if role == "tool":
            return self._read_result(message, param)
        if role == "function":
            return self._read_function_result(message, param)
        if role not in ROLES:
            raise unsupported_value(role, f"{param}.role", ROLES)
        return _read_message(role, message, param)

    def _read_assistant(self, message: Document, param: str) -> Iterator[Document]:
        """Read the state of each call from where the client has it, the most exact source first."""
        states = [*_sealed_states(message.get("reasoning_details"))]
        calls = [*self._read_calls(message.get("tool_calls"), f"{param}.tool_calls")]
        if _carry_all(calls, states):
            states = []  # the calls also know its place
        else:
            calls = [_Call(call.item) for call in calls]
        states += [state for call in calls for state in call.before_text]
        carried = [state for call in calls for state in call.before]
        yield from _join_reasoning(_reasoning_text(message), states, carried)
        parts = [*_assistant_parts(message, param)]
        if parts:
            yield {"type": "message", "role": "assistant", "content": parts}
        for call in calls:
            yield from call.before
            yield call.item
        if message.get("function_call") is not None:
            yield self._read_function_call(message["function_call"], f"{param}.function_call")

    def _read_calls(self, calls: Any, param: str) -> Iterator[_Call]:
        """Read calls, each with the reasoning items that its id or its extra content carries."""
        for call in list_of(_check_call)(calls, param) if calls is not None else ():
            key = read_call_id(call["id"])
            signature = _signature(call)
            before = [*map(_sealed, key.sealed.before)] if signature is None else [signature]
            before_text = [*map(_sealed, key.sealed.before_text)]
            yield _Call(self._read_call(call, key), before, before_text)

    def _read_call(self, call: Document, key: CallKey) -> Document:
        identity: Document = {"call_id": key.call_id}
        if key.item is not None:
            identity["id"] = key.item
        if call.get("type") == "custom":
            self._custom_calls.add(call["id"])
            custom = call["custom"]
            content = {"name": custom["name"], "input": custom["input"]}
            return {"type": "custom_tool_call", **identity, **content}
        function = call["function"]
        content = {"name": function["name"], "arguments": function.get("arguments") or ""}
        return {"type": "function_call", **identity, **content}

    def _read_function_call(self, value: Any, param: str) -> Document:
        call = _FUNCTION(value, param)
        call_id = f"call_{len(self._function_calls)}_{call['name']}"
        self._function_calls[call["name"]] = call_id
        arguments = call.get("arguments") or ""
        fields = {"call_id": call_id, "name": call["name"], "arguments": arguments}
        return {"type": "function_call", **fields}

    def _read_result(self, message: Document, param: str) -> Iterator[Document]:
        if "tool_call_id" not in message:
            raise missing_parameter(f"{param}.tool_call_id")
        call_id = string(message["tool_call_id"], f"{param}.tool_call_id")
        kind = "custom_tool_call" if call_id in self._custom_calls else "function_call"
        output = _read_content(message.get("content"), f"{param}.content")
        own_id = read_call_id(call_id).call_id
        yield {"type": f"{kind}_output", "call_id": own_id, "output": output}

    def _read_function_result(self, message: Document, param: str) -> Iterator[Document]:
        name = string(message.get("name"), f"{param}.name")
        call_id = self._function_calls.get(name)
        if call_id is None:
            problem = f"has the result of {name!r}, which no message before it has called."
            raise invalid_value(param, problem)
        output = _read_content(message.get("content"), f"{param}.content")
        yield {"type": "function_call_output", "call_id": call_id, "output": output}


# --- calls and reasoning --------------------------------------------------------------------------

_FUNCTION = object_of({"name": string}, {"arguments": string})
_CALLS: Readers = {
    "function": object_of({"function": _FUNCTION}),
    "custom": object_of({"custom": object_of({"name": string, "input": string})}),
}


def _check_call(value: Any, param: str) -> Document:
    call = object_of({"id": string}, {"type": enum(*_CALLS)})(value, param)
    _CALLS[call.get("type") or "function"](call, param)
    return call


def _reasoning_text(message: Document) -> str:
    """Return the reasoning that a client returns as text, under any of its names."""
    text = message.get("reasoning_content") or message.get("reasoning")
    return text if isinstance(text, str) else ""


def _join_reasoning(
    text: str, states: Sequence[Document], carried: Sequence[Document]
) -> Iterator[Document]:
    """Yield the reasoning items in front of a message; others are `carried` by its calls. Sealed
    state contains its own text: that of the client is for the case that it cannot be opened."""
    content: Document = {"content": [{"type": "reasoning_text", "text": text}]}
    if not text:
        yield from states
    elif states:
        yield {**states[0], **content}
        yield from states[1:]
    elif not any("encrypted_content" in state for state in carried):
        yield {"type": "reasoning", "summary": [], **content}


def _carry_all(calls: Sequence[_Call], states: Sequence[Document]) -> bool:
    """Whether the ids of calls carry all of these states."""
    carried = [state for call in calls for state in (*call.before, *call.before_text)]
    return all(state in carried for state in states)


def _sealed_states(details: Any) -> Iterator[Document]:
    for detail in details if isinstance(details, list) else ():
        match detail:
            case {"type": "reasoning.encrypted", "data": str(data)}:
                yield _sealed(data)


def _sealed(data: str) -> Document:
    return {"type": "reasoning", "summary": [], "encrypted_content": data}


def _signature(call: Document) -> Document | None:
    """Read the signature of a call that Gemini's endpoint of this format has given it."""
    match call.get("extra_content"):
        case {"google": {"thought_signature": str(value)}} if value:
            if is_capsule(value):
                return _sealed(value)
            state = {"scheme": SIGNATURE, "value": value, "attach": "tool"}
            return {"type": "reasoning", "summary": [], "states": [state]}
    return None


# --- content --------------------------------------------------------------------------------------


def _read_message(role: str, message: Document, param: str) -> Iterator[Document]:
    content = _read_content(message.get("content"), f"{param}.content")
    yield {"type": "message", "role": role, "content": content}


def _assistant_parts(message: Document, param: str) -> Iterator[Document]:
    content = message.get("content")
    if isinstance(content, str):
        if content:
            yield {"type": "output_text", "text": content}
    elif content is not None:
        for part in list_of(_ASSISTANT_PART)(content, f"{param}.content"):
            yield {**part, "type": _ASSISTANT_TYPES[part["type"]]}
    refusal = message.get("refusal")
    if refusal is not None:
        yield {"type": "refusal", "refusal": string(refusal, f"{param}.refusal")}


def _read_content(value: Any, param: str) -> str | list[Document]:
    """Read the content of a message or a result: a string, a list of parts, or nothing."""
    content = by_type(
        "a string or an array", {str: string, list: list_of(_PART), type(None): _no_content}
    )(value, param)
    return content if isinstance(content, str) else [_read_part(part) for part in content]


def _no_content(value: Any, param: str) -> str:
    return ""


def _read_part(part: Document) -> Document:
    match part:
        case {"type": "image_url", "image_url": image}:
            fields = {"url": image} if isinstance(image, str) else image
            read: Document = {"type": "input_image", "image_url": fields["url"]}
            return {**read, "detail": fields["detail"]} if fields.get("detail") else read
        case {"type": "input_audio"}:
            return part
        case {"type": "file", "file": file}:
            return {"type": "input_file", **file}
        case {"type": "refusal"}:
            return part
    return {**part, "type": "input_text"}


_TEXT = object_of({"text": string})
_IMAGE_URL = by_type("a string or an object", {str: string, dict: object_of({"url": string})})
_PART = tagged_union(
    {
        "text": _TEXT,
        "input_text": _TEXT,
        "refusal": object_of({"refusal": string}),
        "image_url": object_of({"image_url": _IMAGE_URL}),
        "input_audio": object_of(
            {"input_audio": object_of({"data": string, "format": non_empty_string})}
        ),
        "file": object_of(
            {"file": object_of({}, {"file_data": string, "file_id": string, "filename": string})}
        ),
    }
)
_ASSISTANT_TYPES: Mapping[str, str] = {"text": "output_text", "refusal": "refusal"}
_ASSISTANT_PART = tagged_union({"text": _TEXT, "refusal": object_of({"refusal": string})})
