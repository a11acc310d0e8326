"""Any bytes either parse as a request, or raise an `InvalidRequest` with the path."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import Response as OfficialResponse

from antiphon.core.request import Request
from antiphon.dialects.responses.create_response import create_response
from antiphon.dialects.responses.parse import parse_in_order, parse_request
from antiphon.errors import InvalidRequest
from antiphon.server.body import DEFAULT_LIMITS
from tests.support import captured_requests as captured
from tests.support.full_request import CHOICES, FULL, ITEMS, TOOLS
from tests.support.request_body import parse_body
from tests.support.tables import table

Steps = tuple[str | int, ...]

slow = settings(deadline=None)  # the official client's types are built when first used

DOCUMENTS: list[dict[str, Any]] = [FULL, *captured.bodies().values()]
DOCUMENTS += [{"model": "m", "input": "", "tool_choice": choice} for choice in CHOICES]
DOCUMENTS += [{"model": "m", "input": "", "tools": [tool]} for tool in TOOLS]
DOCUMENTS += [{"model": "m", "input": [item]} for item in ITEMS]
DOCUMENTS += [{"model": "m", "conversation": {"id": "conv_1"}}, {"model": "m", "input": "hello"}]


def strings_of(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from strings_of(each)
    elif isinstance(value, str):
        yield value


words = st.sampled_from(sorted({word for word in strings_of(FULL) if len(word) < 40}))
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, 1, -1, 2**53, 10**40, -(10**400), 1e308, -0.0]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    words,
)
json_values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(words | st.text(), inner, max_size=4)
    ),
    max_leaves=12,
)


def parsed(body: bytes) -> Request | InvalidRequest:
    try:
        return parse_body(body)
    except InvalidRequest as error:
        return error


def check(document: dict[str, Any], parent: str = "") -> None:
    """The document parses and creates a response, or the error names a path below the parent."""
    outcome = parsed(json.dumps(document).encode())
    if isinstance(outcome, InvalidRequest):
        param = outcome.param or ""
        assert (outcome.status, bool(outcome.wire_code)) == (400, True)
        assert param.startswith(parent)
        assert param.split(".")[0].split("[")[0] in {*document, "model", "input"}
        return
    assert outcome.raw == document
    response = create_response(outcome, response_id="resp_1", created_at=1)
    answer = msgspec.json.decode(msgspec.json.encode(response))
    accepted = OfficialResponse.model_validate(answer)
    assert accepted.model == document["model"]


@given(st.binary() | st.text().map(str.encode) | json_values.map(json.dumps).map(str.encode))
def test_any_bytes_parse_or_raise_invalid_request(body: bytes) -> None:
    outcome = parsed(body)
    assert isinstance(outcome, Request) or outcome.status == 400


@slow
@given(st.dictionaries(st.sampled_from(sorted(FULL)) | words | st.text(), json_values))
def test_any_object_parses_or_is_rejected_with_its_parameter(document: dict[str, Any]) -> None:
    check({"model": "m", "input": "Hello?", **document})


def paths(value: Any, path: Steps = ()) -> Iterator[Steps]:
    """The path of every value inside a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for step, child in inner:
        yield (*path, step)
        if isinstance(child, dict | list):
            yield from paths(child, (*path, step))


def spell_path(path: Steps) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)[1:]


@st.composite
def mutations(draw: st.DrawFn) -> tuple[dict[str, Any], str]:
    """A valid document with one value changed, and the path of its parent."""
    document = json.loads(json.dumps(draw(st.sampled_from(DOCUMENTS))))  # a deep copy
    *above, last = draw(st.sampled_from(list(paths(document))))
    parent: Any = document
    for step in above:
        parent = parent[step]
    if draw(st.booleans()):
        parent[last] = draw(json_values)
    elif draw(st.booleans()):
        del parent[last]
    elif isinstance(parent, dict):
        parent[draw(words)] = draw(json_values)
    return document, spell_path(tuple(above))


@slow
@given(mutations())
def test_one_change_in_a_valid_request_is_accepted_or_rejected_with_its_path(
    mutation: tuple[dict[str, Any], str],
) -> None:
    document, parent = mutation
    check(document, parent)


def outcome_of(
    parse: Callable[..., Request], document: dict[str, Any], is_count: bool
) -> Request | tuple[str, str | None, str | None]:
    try:
        return parse(document, is_count=is_count)
    except InvalidRequest as error:
        return error.message, error.param, error.wire_code


@given(mutations(), st.dictionaries(words, json_values, max_size=3), st.booleans())
def test_a_request_is_read_by_its_fields_as_by_the_table_of_all_fields(
    mutation: tuple[dict[str, Any], str], more: dict[str, Any], is_count: bool
) -> None:
    document = {**mutation[0], **more}  # several mistakes: always the same one is reported
    in_order = outcome_of(parse_in_order, document, is_count)
    assert outcome_of(parse_request, document, is_count) == in_order


@table("document", DOCUMENTS)
def test_every_recorded_request_is_read_the_same_in_both_ways(document: dict[str, Any]) -> None:
    present = outcome_of(parse_request, document, False)
    assert present == outcome_of(parse_in_order, document, False)


@given(st.integers(1, 100_000), st.sampled_from([("[", "]"), ('{"a":', "}")]), st.booleans())
def test_nesting_is_bounded(depth: int, brackets: tuple[str, str], closed: bool) -> None:
    nested = brackets[0] * depth + ("1" + brackets[1] * depth if closed else "")
    outcome = parsed(
        f'{{"model": "m", "input": "", "extra": {nested}{"}" if closed else ""}'.encode()
    )
    assert isinstance(outcome, Request) == (closed and depth < DEFAULT_LIMITS.max_body_depth)


@table("document", DOCUMENTS)
def test_every_valid_request_creates_a_response(document: dict[str, Any]) -> None:
    assert isinstance(parsed(json.dumps(document).encode()), Request)
    check(document)
