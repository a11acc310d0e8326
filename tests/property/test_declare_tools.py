"""Whatever tools a client declares: names are valid, unique, stable and lead back to the tool."""

from __future__ import annotations

import re
from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from antiphon.core.capabilities import Capabilities
from antiphon.core.diagnostic import diagnostics_header
from antiphon.core.plan.declare_tools import DeclaredTools, declare_tools
from antiphon.core.plan.plan import Notes
from antiphon.errors import InvalidRequest

VALID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
MANY = Capabilities(max_tools=10_000)

# Few letters, and those that cleaning and joining confuse, so that names do meet.
names = st.one_of(
    st.text("a_.", min_size=1, max_size=6),
    st.text("ab_", min_size=60, max_size=70),
    st.text(min_size=1, max_size=8),
)
Tools = list[dict[str, Any]]


def tool(kind: str, name: str, namespace: str | None) -> dict[str, Any]:
    plain = {"type": kind, "name": name}
    if namespace is None:
        return plain
    return {"type": "namespace", "name": namespace, "description": "", "tools": [plain]}


identities = st.lists(
    st.tuples(st.sampled_from(["function", "custom"]), names, st.none() | names),
    max_size=12,
    unique_by=lambda each: each[1:],
)


def declared(tools: Tools, choice: Any = "auto") -> DeclaredTools:
    return declare_tools(tools, choice, [], [], MANY, [])


@given(identities)
def test_every_tool_has_a_unique_valid_name_that_maps_back_to_it(
    wanted: list[tuple[str, str, str | None]],
) -> None:
    result = declared([tool(*each) for each in wanted])
    given_names = [declaration.name for declaration in result.declarations]
    assert all(VALID.fullmatch(name) for name in given_names)
    assert len(set(given_names)) == len(given_names) == len(wanted)
    for name, (kind, requested, namespace) in zip(given_names, wanted, strict=True):
        restored = result.identities.by_provider_name(name)
        assert restored is not None
        assert restored == result.identities.by_requested_name(requested, namespace)
        assert (restored.requested_type, restored.requested_name) == (kind, requested)
        assert restored.namespace == namespace


@given(identities, st.data())
def test_a_tool_keeps_its_name_when_others_are_added(
    wanted: list[tuple[str, str, str | None]], data: st.DataObject
) -> None:
    tools = [tool(*each) for each in wanted]
    cut = data.draw(st.integers(0, len(tools)))
    before, after = declared(tools[:cut]), declared(tools)
    assert after.declarations[:cut] == before.declarations


@given(identities, st.data())
def test_only_allowed_tools_are_declared_and_all_keep_their_names(
    wanted: list[tuple[str, str, str | None]], data: st.DataObject
) -> None:
    tools = [tool(*each) for each in wanted]
    chosen = data.draw(st.lists(st.sampled_from(wanted), unique=True) if wanted else st.just([]))
    entries = [
        {"type": kind, "name": name} | ({} if space is None else {"namespace": space})
        for kind, name, space in chosen
    ]
    choice = {"type": "allowed_tools", "mode": "auto", "tools": entries}
    everything, result = declared(tools), declared(tools, choice)
    names_of = dict(zip(wanted, (each.name for each in everything.declarations), strict=True))
    assert [each.name for each in result.declarations] == [
        names_of[each] for each in wanted if each in chosen
    ]
    assert len(result.identities) == len(everything.identities)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "name", "tools", "parameters", "format", "strict", "environment"]
            ),
            inner
            | st.sampled_from(["function", "custom", "namespace", "shell", "web_search", "mcp"]),
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(st.lists(junk, max_size=5))
def test_no_tool_in_a_history_can_prevent_a_plan(tools: list[Any]) -> None:
    items: Tools = [{"type": "tool_search_output", "tools": tools}, {"type": "additional_tools"}]
    notes: Notes = []
    result = declare_tools([], "auto", items, [], Capabilities(web_search="refuse"), notes)
    assert len(diagnostics_header(notes)) <= 1024
    assert all(VALID.fullmatch(each.name) for each in result.declarations)


@given(st.lists(junk.filter(lambda each: isinstance(each, dict)), max_size=3), junk)
def test_any_tools_and_choice_either_plan_or_raise_invalid_request(
    tools: Tools, choice: Any
) -> None:
    named: int | str | None
    try:
        named = len(declared(tools, choice if isinstance(choice, dict) else "auto").identities)
    except InvalidRequest as error:
        named = error.param
    assert named is not None
