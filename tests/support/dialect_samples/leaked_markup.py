"""Leaked markup for the tests of its filters, and what the filters make of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from antiphon.core.deltas import Delta, Reasoning, Text, ToolCall
from antiphon.core.filters.filter import BYPASS, DeltaFilter
from antiphon.core.filters.markup import filter_whole_response, make_markup_filters

Call = tuple[str, Any]
Arguments = Mapping[str, Any]


def read(names: Sequence[str], fragments: Iterable[str]) -> list[Delta]:
    return filter_whole_response(
        [Text(fragment) for fragment in fragments], make_markup_filters(names)
    )


def stream(filters: Iterable[DeltaFilter], deltas: Iterable[Delta]) -> list[Delta]:
    """The deltas of a stream behind these filters."""
    for each in filters:
        passed: list[Delta] = []
        for delta in deltas:
            passed += [delta] if type(delta) in BYPASS else each.feed(delta)
        deltas = [*passed, *each.close(final=True).deltas]
    return list(deltas)


def pieces(text: str, cuts: Iterable[int]) -> list[str]:
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


def text_of(deltas: Iterable[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, Text))


def reasoning_of(deltas: Iterable[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, Reasoning))


def calls_of(deltas: Iterable[Delta]) -> list[Call]:
    """Names and arguments, in the order of their indexes."""
    calls = sorted(
        (delta for delta in deltas if isinstance(delta, ToolCall)), key=lambda call: call.index
    )
    return [(call.name or "", json.loads(call.arguments)) for call in calls]


# One call as the model writes it, by form


def _hermes(name: str, arguments: Arguments) -> str:
    call = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{call}\n</tool_call>"


def _hermes_string(name: str, arguments: Arguments) -> str:
    call = json.dumps({"id": "x", "name": name, "arguments": json.dumps(arguments)})
    return f"<tool_call>{call}</tool_call>"


def _printed(value: Any) -> str:
    """A value as templates print it into a tag."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _qwen_function(name: str, arguments: Arguments) -> str:
    markup = "".join(
        f"<parameter={key}>\n{_printed(value)}\n</parameter>\n" for key, value in arguments.items()
    )
    return f"<function={name}>\n{markup}</function>"


def _qwen_xml(name: str, arguments: Arguments) -> str:
    return f"<tool_call>\n{_qwen_function(name, arguments)}\n</tool_call>"


def _kimi(name: str, arguments: Arguments) -> str:
    data = json.dumps(arguments)
    head = f"<|tool_call_begin|>functions.{name}:0"
    return f"{head}<|tool_call_argument_begin|>{data}<|tool_call_end|>"


def _kimi_section(name: str, arguments: Arguments) -> str:
    return f"<|tool_calls_section_begin|>{_kimi(name, arguments)}<|tool_calls_section_end|>"


def _glm(name: str, arguments: Arguments, gap: str = "\n") -> str:
    markup = "".join(
        f"<arg_key>{key}</arg_key>{gap}<arg_value>{_printed(value)}</arg_value>{gap}"
        for key, value in arguments.items()
    )
    return f"<tool_call>{name}{gap}{markup}</tool_call>"


def _glm_dense(name: str, arguments: Arguments) -> str:
    return _glm(name, arguments, "")


def _mistral(name: str, arguments: Arguments) -> str:
    return f"[TOOL_CALLS]{json.dumps([{'name': name, 'arguments': arguments}])}"


def _mistral_args(name: str, arguments: Arguments) -> str:
    return f"[TOOL_CALLS]{name}[ARGS]{json.dumps(arguments)}"


def _mistral_id(name: str, arguments: Arguments) -> str:
    return f"[TOOL_CALLS]{name}[CALL_ID]a1B2c3D4e[ARGS]{json.dumps(arguments)}"


def _mistral_bare(name: str, arguments: Arguments) -> str:
    return f"[TOOL_CALLS]{name}{json.dumps(arguments)}"


def _invoke(name: str, arguments: Arguments, token: str = "", gap: str = "\n") -> str:
    """A call as MiniMax writes it, and, with a token before the names of its tags, DeepSeek."""
    markup = "".join(
        f'<{token}parameter name="{key}"'
        + (f' string="{json.dumps(isinstance(value, str))}"' if token else "")
        + f">{_printed(value)}</{token}parameter>{gap}"
        for key, value in arguments.items()
    )
    return f'<{token}invoke name="{name}">{gap}{markup}</{token}invoke>'


def _dsml_invoke(name: str, arguments: Arguments) -> str:
    return _invoke(name, arguments, "｜DSML｜")


def _dsml(name: str, arguments: Arguments) -> str:
    call = _dsml_invoke(name, arguments)
    return f"<｜DSML｜tool_calls>\n{call}\n</｜DSML｜tool_calls>"


def _dsml_old(name: str, arguments: Arguments) -> str:
    call = _invoke(name, arguments, "|DSML|", "")
    return f"<|DSML|function_calls>{call}</|DSML|function_calls>"


def _minimax(name: str, arguments: Arguments) -> str:
    return f"<minimax:tool_call>\n{_invoke(name, arguments)}\n</minimax:tool_call>"


Writer = Callable[[str, Arguments], str]

JSON_FORMS: Sequence[tuple[str, Writer]] = (
    ("hermes", _hermes),
    ("hermes", _hermes_string),
    ("kimi", _kimi),
    ("kimi", _kimi_section),
    ("mistral", _mistral),
    ("mistral", _mistral_args),
    ("mistral", _mistral_id),
    ("mistral", _mistral_bare),
)
TAG_FORMS: Sequence[tuple[str, Writer]] = (
    ("qwen_xml", _qwen_xml),
    ("qwen_xml", _qwen_function),
    ("glm", _glm),
    ("glm", _glm_dense),
    ("dsml", _dsml),
    ("dsml", _dsml_invoke),
    ("dsml", _dsml_old),
    ("minimax", _minimax),
)
CALL_GUARDS = ("hermes", "qwen_xml", "kimi", "glm", "mistral", "dsml", "minimax")
