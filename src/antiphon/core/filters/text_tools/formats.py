"""The formats in which models write tool calls, for servers that fail to parse them.

A format is a reader of one block, from just after its opening mark to its end, that returns the
calls in it. It is strict: a block that does not match it exactly has no call. In formats whose
values end with a tag, a value may contain that tag, unless the next tag of the format follows it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from antiphon.core.filters.text_tools.scanner import MarkupScanner, Scan
from antiphon.errors import FormatMismatch


class WrittenToolCall(Struct, frozen=True):
    """A call as the model wrote it; the arguments are the text of a JSON object."""

    name: str
    arguments: str


CallFormat: TypeAlias = Callable[[MarkupScanner], Scan[list[WrittenToolCall]]]

_NAME = re.compile(r"[\w.:/-]{1,128}", re.ASCII)
_IS_TEXT = 'string="true">'
_IS_JSON = 'string="false">'
_KIMI_ID = re.compile(r"(?:functions\.)?(?P<name>.+):[0-9]+")


# Calls in JSON


class _JSONToolCall(Struct, forbid_unknown_fields=True):
    # An unknown field may hold the arguments under another name: such a block is not a call.
    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")
    id: Any = None
    type: Any = None


_decode_call = msgspec.json.Decoder(_JSONToolCall).decode
_decode_calls = msgspec.json.Decoder(list[_JSONToolCall]).decode
_decode_json = msgspec.json.Decoder().decode


def hermes(scanner: MarkupScanner) -> Scan[list[WrittenToolCall]]:
    """`<tool_call>{"name": …, "arguments": {…}}</tool_call>`"""
    text = yield from scanner.json((yield from scanner.expect("{")))
    yield from scanner.expect("</tool_call>")
    return [_convert_call(_decode_call(text))]


def mistral(scanner: MarkupScanner) -> Scan[list[WrittenToolCall]]:
    """`[TOOL_CALLS][{"name": …, "arguments": {…}}, …]` or `[TOOL_CALLS]NAME[ARGS]{…}`

    Servers that remove control tokens from the text may remove `[ARGS]`, too; some versions have
    `[CALL_ID]` and an id before it.
    """
    yield from scanner.spaces()
    if bracket := (yield from scanner.mark("[")):
        text = yield from scanner.json(bracket)
        return [_convert_call(written) for written in _check_not_empty(_decode_calls(text))]
    name = yield from scanner.name()
    mark = yield from scanner.expect("[CALL_ID]", "[ARGS]", "{")
    if mark == "[CALL_ID]":
        yield from scanner.name()
        mark = yield from scanner.expect("[ARGS]")
    if mark == "[ARGS]":
        mark = yield from scanner.expect("{")
    return [WrittenToolCall(name, _check_object((yield from scanner.json(mark))))]


def kimi_section(scanner: MarkupScanner) -> Scan[list[WrittenToolCall]]:
    """`<|tool_calls_section_begin|>`, calls, `<|tool_calls_section_end|>`

    The model also writes `tool_call` instead of `tool_calls`.
    """
    calls: list[WrittenToolCall] = []
    mark = yield from scanner.expect("<|tool_call_begin|>")
    while mark == "<|tool_call_begin|>":
        calls += yield from kimi(scanner)
        mark = yield from scanner.expect(
            "<|tool_call_begin|>", "<|tool_calls_section_end|>", "<|tool_call_section_end|>"
        )
    return calls


def kimi(scanner: MarkupScanner) -> Scan[list[WrittenToolCall]]:
    """`<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{…}<|tool_call_end|>`"""
    found = _KIMI_ID.fullmatch((yield from scanner.name()))
    if found is None:
        raise FormatMismatch
    yield from scanner.expect("<|tool_call_argument_begin|>")
    text = yield from scanner.json((yield from scanner.expect("{")))
    yield from scanner.expect("<|tool_call_end|>")
    return [WrittenToolCall(found["name"], _check_object(text))]


def _convert_call(written: _JSONToolCall) -> WrittenToolCall:
    if not _NAME.fullmatch(written.name):
        raise FormatMismatch
    raw = bytes(written.arguments)
    text = msgspec.json.decode(raw, type=str) if raw.startswith(b'"') else raw.decode()
    return WrittenToolCall(written.name, _check_object(text))


def _check_object(text: str) -> str:
    """Return the same text if it is a JSON object."""
    if not isinstance(_decode_json(text), dict):
        raise FormatMismatch
    return text


def _check_not_empty(calls: list[_JSONToolCall]) -> list[_JSONToolCall]:
    if not calls:
        raise FormatMismatch
    return calls


# Calls in tags


def qwen_xml(scanner: MarkupScanner) -> Scan[list[WrittenToolCall]]:
    """`<tool_call><function=NAME>…</function></tool_call>`"""
    yield from scanner.expect("<function=")
    calls = yield from qwen_function(scanner)
    yield from scanner.expect("</tool_call>")
    return calls


def qwen_function(scanner: MarkupScanner) -> Scan[list[WrittenToolCall]]:
    """`<function=NAME><parameter=KEY>VALUE</parameter>…</function>`, each on lines of its own.

    The line breaks right inside a parameter belong to the template, not to the value.
    """
    name = yield from scanner.name()
    yield from scanner.expect(">")
    arguments: dict[str, str] = {}
    mark = yield from scanner.expect("<parameter=", "</function>")
    while mark == "<parameter=":
        key = yield from scanner.until(">")
        value, mark = yield from _tagged_value(
            scanner, "</parameter>", "<parameter=", "</function>"
        )
        _add_argument(arguments, key, value.removeprefix("\n").removesuffix("\n"))
    return [WrittenToolCall(name, _join_arguments(arguments))]


def glm(scanner: MarkupScanner) -> Scan[list[WrittenToolCall]]:
    """`<tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>…</tool_call>`

    Older models put every tag on a line of its own.
    """
    name = yield from scanner.name()
    arguments: dict[str, str] = {}
    mark = yield from scanner.expect("<arg_key>", "</tool_call>")
    while mark == "<arg_key>":
        key = yield from scanner.until("</arg_key>")
        yield from scanner.expect("<arg_value>")
        value, mark = yield from _tagged_value(scanner, "</arg_value>", "<arg_key>", "</tool_call>")
        _add_argument(arguments, key, value)
    return [WrittenToolCall(name, _join_arguments(arguments))]


def invokes(scanner: MarkupScanner, token: str, closer: str) -> Scan[list[WrittenToolCall]]:
    """Calls in `invoke` tags, up to the tag that closes the block."""
    opener = f'<{token}invoke name="'
    calls: list[WrittenToolCall] = []
    mark = yield from scanner.expect(opener)
    while mark == opener:
        calls += yield from invoke(scanner, token)
        mark = yield from scanner.expect(opener, closer)
    return calls


def invoke(scanner: MarkupScanner, token: str) -> Scan[list[WrittenToolCall]]:
    """`<invoke name="NAME"><parameter name="KEY">VALUE</parameter>…</invoke>`

    DeepSeek puts a token before the name of each tag, and `string="true"` or `string="false"`
    behind a key: whether the value is text or JSON.
    """
    name = yield from scanner.until('"')
    if not _NAME.fullmatch(name):
        raise FormatMismatch
    yield from scanner.expect(">")
    opener = f'<{token}parameter name="'
    end = f"</{token}parameter>"
    closer = f"</{token}invoke>"
    arguments: dict[str, str] = {}
    mark = yield from scanner.expect(opener, closer)
    while mark == opener:
        key = yield from scanner.until('"')
        kind = yield from scanner.expect(_IS_TEXT, _IS_JSON, ">")
        value, mark = yield from _tagged_value(scanner, end, opener, closer)
        _add_argument(arguments, key, value, is_text=kind == _IS_TEXT)
    return [WrittenToolCall(name, _join_arguments(arguments))]


def _tagged_value(scanner: MarkupScanner, end: str, *followers: str) -> Scan[tuple[str, str]]:
    """Return the text up to an end tag that one of the followers follows, and which one it is."""
    passed: list[str] = []
    while True:
        passed.append((yield from scanner.until(end)))
        gap = yield from scanner.spaces()
        follower = yield from scanner.mark(*followers)
        if follower is not None:
            return "".join(passed), follower
        passed += [end, gap]


def _add_argument(
    arguments: dict[str, str], key: str, value: str, *, is_text: bool = False
) -> None:
    if not key or key in arguments:
        raise FormatMismatch
    arguments[key] = _encode(value) if is_text else _to_json(value)


# Chat templates print booleans and null as Python does.
_PYTHON = {"True": "true", "False": "false", "None": "null"}


def _to_json(text: str) -> str:
    """Return a value as JSON. Tags carry no types: what parses as JSON is that, or else text."""
    if text in _PYTHON:
        return _PYTHON[text]
    try:
        is_text = isinstance(_decode_json(text), str)
    except (msgspec.DecodeError, RecursionError):
        is_text = True
    return _encode(text) if is_text else text


def _join_arguments(arguments: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{_encode(key)}: {text}" for key, text in arguments.items()) + "}"


def _encode(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _dsml(*tokens: str) -> Mapping[str, CallFormat]:
    """The marks of DeepSeek: a block, of version 4 or of 3.2, or a call whose block did not open.
    Some servers or prompts turn the bars of its token into others."""
    formats: dict[str, CallFormat] = {}
    for token in tokens:
        formats[f'<{token}invoke name="'] = partial(invoke, token=token)
        for block in ("tool_calls", "function_calls"):
            closer = f"</{token}{block}>"
            formats[f"<{token}{block}>"] = partial(invokes, token=token, closer=closer)
    return formats


CALL_FORMATS: Mapping[str, Mapping[str, CallFormat]] = {
    "hermes": {"<tool_call>": hermes},
    "qwen_xml": {"<tool_call>": qwen_xml, "<function=": qwen_function},
    "kimi": {
        "<|tool_calls_section_begin|>": kimi_section,
        "<|tool_call_section_begin|>": kimi_section,
        "<|tool_call_begin|>": kimi,
    },
    "glm": {"<tool_call>": glm},
    "mistral": {"[TOOL_CALLS]": mistral},
    "dsml": _dsml("｜DSML｜", "|DSML|", "｜｜DSML｜｜", "||DSML||"),
    "minimax": {
        "<minimax:tool_call>": partial(invokes, token="", closer="</minimax:tool_call>"),
    },
}
"""By the names that the `guards` of a model use: the marks that open a block, and their readers."""
