"""The forms in which models write tool calls, for when a server fails to read them.

A form is a reader of one block, from just after its opening mark to its end, and gives the calls
in it. It is strict: what it does not know for a call is none. Where a form says where values end
only by a tag, a value may hold that tag, too, unless the next tag of the form follows it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from antiphon.core.filters.text_tools.scanner import Source, Steps
from antiphon.errors import FormatMismatch


class Call(Struct, frozen=True):
    """A call as the model wrote it; the arguments are the text of a JSON object."""

    name: str
    arguments: str


Form: TypeAlias = Callable[[Source], Steps[list[Call]]]

_NAME = re.compile(r"[\w.:/-]{1,128}", re.ASCII)
_KIMI_ID = re.compile(r"(?:functions\.)?(?P<name>.+):[0-9]+")


# Calls in JSON


class _Written(Struct, forbid_unknown_fields=True):
    # A field of another name may be the arguments by another name: no guessing.
    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")
    id: Any = None
    type: Any = None


_read_call = msgspec.json.Decoder(_Written).decode
_read_calls = msgspec.json.Decoder(list[_Written]).decode
_read_value = msgspec.json.Decoder().decode


def hermes(source: Source) -> Steps[list[Call]]:
    """`<tool_call>{"name": …, "arguments": {…}}</tool_call>`"""
    text = yield from source.json((yield from source.expect("{")))
    yield from source.expect("</tool_call>")
    return [_call(_read_call(text))]


def mistral(source: Source) -> Steps[list[Call]]:
    """`[TOOL_CALLS][{"name": …, "arguments": {…}}, …]` or `[TOOL_CALLS]NAME[ARGS]{…}`

    Servers that hide control tokens from the text may hide `[ARGS]`, too; some versions have
    `[CALL_ID]` and an id before it.
    """
    yield from source.spaces()
    if bracket := (yield from source.mark("[")):
        text = yield from source.json(bracket)
        return [_call(written) for written in _some(_read_calls(text))]
    name = yield from source.word()
    mark = yield from source.expect("[CALL_ID]", "[ARGS]", "{")
    if mark == "[CALL_ID]":
        yield from source.word()
        mark = yield from source.expect("[ARGS]")
    if mark == "[ARGS]":
        mark = yield from source.expect("{")
    return [Call(name, _object((yield from source.json(mark))))]


def kimi_section(source: Source) -> Steps[list[Call]]:
    """`<|tool_calls_section_begin|>`, calls, `<|tool_calls_section_end|>`"""
    calls: list[Call] = []
    mark = yield from source.expect("<|tool_call_begin|>")
    while mark == "<|tool_call_begin|>":
        calls += yield from kimi(source)
        mark = yield from source.expect("<|tool_call_begin|>", "<|tool_calls_section_end|>")
    return calls


def kimi(source: Source) -> Steps[list[Call]]:
    """`<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{…}<|tool_call_end|>`"""
    found = _KIMI_ID.fullmatch((yield from source.word()))
    if found is None:
        raise FormatMismatch
    yield from source.expect("<|tool_call_argument_begin|>")
    text = yield from source.json((yield from source.expect("{")))
    yield from source.expect("<|tool_call_end|>")
    return [Call(found["name"], _object(text))]


def _call(written: _Written) -> Call:
    if not _NAME.fullmatch(written.name):
        raise FormatMismatch
    raw = bytes(written.arguments)
    text = msgspec.json.decode(raw, type=str) if raw.startswith(b'"') else raw.decode()
    return Call(written.name, _object(text))


def _object(text: str) -> str:
    """The same text, if it is an object."""
    if not isinstance(_read_value(text), dict):
        raise FormatMismatch
    return text


def _some(calls: list[_Written]) -> list[_Written]:
    if not calls:
        raise FormatMismatch
    return calls


# Calls in tags


def qwen_xml(source: Source) -> Steps[list[Call]]:
    """`<tool_call><function=NAME>…</function></tool_call>`"""
    yield from source.expect("<function=")
    calls = yield from qwen_function(source)
    yield from source.expect("</tool_call>")
    return calls


def qwen_function(source: Source) -> Steps[list[Call]]:
    """`<function=NAME><parameter=KEY>VALUE</parameter>…</function>`, each on lines of its own.

    The line breaks right inside of a parameter are the template's, not the value's.
    """
    name = yield from source.word()
    yield from source.expect(">")
    arguments: dict[str, str] = {}
    mark = yield from source.expect("<parameter=", "</function>")
    while mark == "<parameter=":
        key = yield from source.until(">")
        value, mark = yield from _value(source, "</parameter>", "<parameter=", "</function>")
        _add(arguments, key, value.removeprefix("\n").removesuffix("\n"))
    return [Call(name, _joined(arguments))]


def glm(source: Source) -> Steps[list[Call]]:
    """`<tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>…</tool_call>`

    Older models put every tag on a line of its own.
    """
    name = yield from source.word()
    arguments: dict[str, str] = {}
    mark = yield from source.expect("<arg_key>", "</tool_call>")
    while mark == "<arg_key>":
        key = yield from source.until("</arg_key>")
        yield from source.expect("<arg_value>")
        value, mark = yield from _value(source, "</arg_value>", "<arg_key>", "</tool_call>")
        _add(arguments, key, value)
    return [Call(name, _joined(arguments))]


def _value(source: Source, end: str, *followers: str) -> Steps[tuple[str, str]]:
    """Everything up to an end tag that one of the followers follows; and which one it is."""
    passed: list[str] = []
    while True:
        passed.append((yield from source.until(end)))
        gap = yield from source.spaces()
        follower = yield from source.mark(*followers)
        if follower is not None:
            return "".join(passed), follower
        passed += [end, gap]


def _add(arguments: dict[str, str], key: str, value: str) -> None:
    if not key or key in arguments:
        raise FormatMismatch
    arguments[key] = _literal(value)


# Templates print what is neither text nor a container as Python does.
_PYTHON = {"True": "true", "False": "false", "None": "null"}


def _literal(text: str) -> str:
    """A value in JSON. Tags tell no types: what reads as anything but text is what it reads as."""
    if text in _PYTHON:
        return _PYTHON[text]
    try:
        is_text = isinstance(_read_value(text), str)
    except (msgspec.DecodeError, RecursionError):
        is_text = True
    return _encode(text) if is_text else text


def _joined(arguments: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{_encode(key)}: {text}" for key, text in arguments.items()) + "}"


def _encode(text: str) -> str:
    return msgspec.json.encode(text).decode()


FORMS: Mapping[str, Mapping[str, Form]] = {
    "hermes": {"<tool_call>": hermes},
    "qwen_xml": {"<tool_call>": qwen_xml, "<function=": qwen_function},
    "kimi": {"<|tool_calls_section_begin|>": kimi_section, "<|tool_call_begin|>": kimi},
    "glm": {"<tool_call>": glm},
    "mistral": {"[TOOL_CALLS]": mistral},
}
"""By the names that provider data uses: which mark opens a block of which form."""
