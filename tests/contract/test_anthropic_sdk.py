"""The vendor's own package reads recordings as we do, and accepts our requests.

Its types only fill themselves unchecked, so requests are compared with their annotations here, key
by key: a key that no type knows is refused by the server, too. The package is imported by the tests
that need it: that takes a second, and every process of the test run imports this module.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, Required, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import assume, given
from typing_extensions import is_typeddict

from antiphon import replay
from antiphon.core.plan.plan import Plan
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.tools.declaration import ToolDeclaration
from antiphon.dialects.anthropic.encode import encode
from antiphon.dialects.anthropic.quirks import AnthropicQuirks
from tests.property.test_anthropic_history import SEES, Memory, memories, plans, quirks, remembered
from tests.property.test_history import any_items, read
from tests.support.corpus import ABSENT, Case, cases
from tests.support.recordings import every

Document = dict[str, Any]

STREAMS = [
    case
    for case in cases("anthropic")
    # The package drops what only its beta half knows.
    if case.meta["wire"] == "sse" and "block:compaction" not in case.meta["quirks"]
]


# --- requests -------------------------------------------------------------------------------------


@cache
def hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def fits(value: Any, kind: Any) -> bool:
    """Whether a JSON value is of an annotated type, with no key too many."""
    origin, members = get_origin(kind), get_args(kind)
    if is_typeddict(kind):
        return isinstance(value, dict) and _fills(value, kind)
    if origin is Required:
        return fits(value, members[0])
    if origin is Union:
        return any(fits(value, member) for member in members)
    if origin is Literal:
        return value in members
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, dict) and all(fits(each, members[1]) for each in value.values())
    if isinstance(origin, type) and issubclass(origin, Iterable):
        return isinstance(value, list) and all(fits(each, members[0]) for each in value)
    if kind is float:
        return isinstance(value, int | float)
    return kind in (Any, object) or (isinstance(kind, type) and isinstance(value, kind))


def is_request(body: Document) -> bool:
    from anthropic.types.message_create_params import MessageCreateParamsStreaming

    return fits(body, MessageCreateParamsStreaming)


def _fills(value: Document, kind: Any) -> bool:
    known = hints(kind)
    required = {name for name, each in known.items() if get_origin(each) is Required}
    if not required <= value.keys():
        return False
    return all(name in known and fits(each, known[name]) for name, each in value.items())


def request(steps: Sequence[Any], how: AnthropicQuirks, **fields: Any) -> Document:
    plan = Plan(provider="p", model="m", history=tuple(steps), **fields)
    body: Document = json.loads(encode(plan, stream=True, quirks=how).body)
    return body


@given(any_items, memories, quirks, plans)
def test_any_request_matches_the_types_of_the_package(
    items: list[Any], memory: Memory, how: AnthropicQuirks, fields: Document
) -> None:
    # An effort in tokens belongs to models with thinking budgets only.
    assume(how.thinking != "adaptive" or not fields.get("effort", "").isdigit())
    body = request(remembered(read(items, SEES, True), memory), how, **fields)
    # Sampling left the package with the last models that knew it; the API still has it.
    for sampling in ("temperature", "top_p"):
        body.pop(sampling, None)
    assert is_request(body)


def test_a_request_with_every_field_matches_the_types_of_the_package() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}}
    how = AnthropicQuirks(native_format=True, thinking="adaptive", display="summarized")
    body = request(
        [],
        how,
        effort="max",
        parameters={"user": "u", "service_tier": "default", "parallel_tool_calls": False},
        declarations=(ToolDeclaration(name="look", description="Look.", strict=True),),
        native_tools=({"type": "web_search", "user_location": {"city": "Bern"}},),
        contract=OutputContract(requested="json_schema", asked="json_schema", schema=schema),
    )
    names = "tool_choice thinking output_config metadata service_tier cache_control".split()
    assert {*names} <= body.keys()
    assert is_request(body)


@pytest.mark.parametrize(
    "change",
    [
        {"mood": 1},
        {"max_tokens": None},
        {"thinking": {"type": "loud"}},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "a", "x": 1}]}]},
        {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
    ],
)
def test_the_types_reject_invalid_requests(change: Document) -> None:
    body = request([], AnthropicQuirks())
    assert is_request(body)
    assert not is_request(body | change)


# --- answers --------------------------------------------------------------------------------------


def accumulate(data: bytes) -> Document:
    """A stream as the package accumulates it."""
    from anthropic.lib.streaming._messages import accumulate_event

    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    for line in data.decode().splitlines():
        if line.startswith('data: {"') and '"ping"' not in line:
            event = json.loads(line.removeprefix("data: "))
            snapshot = accumulate_event(event=event, current_snapshot=snapshot, json_bufs=buffers)
    message: Document = snapshot.to_dict(mode="json", warnings=False)
    return message


@pytest.mark.skipif(not STREAMS, reason=ABSENT)
@every(STREAMS)
def test_the_package_reads_a_stream_as_we_do(case: Case) -> None:
    message = accumulate(case.data)
    streamed = replay(case.data, dialect="anthropic")[-1]["response"]
    whole = replay(json.dumps(message).encode(), dialect="anthropic")[-1]["response"]
    assert [_normalize_item(item) for item in streamed["output"]] == [
        _normalize_item(item) for item in whole["output"]
    ]
    assert streamed["usage"] == whole["usage"]
    assert streamed["status"] == whole["status"]


def _normalize_item(item: Document) -> Document:
    """An item without its id, and with parsed arguments."""
    arguments = {"arguments": json.loads(item["arguments"])} if "arguments" in item else {}
    return {name: value for name, value in item.items() if name != "id"} | arguments
