"""A client's search for more tools: its call is an item of its own, with an object inside."""

from __future__ import annotations

import msgspec
import pytest

from antiphon.core.tools.identity import ToolIdentity
from antiphon.core.tools.restore import ProviderCall, restore_tool_call
from antiphon.wire.items import FunctionCall, ToolSearchCall

SEARCH = ToolIdentity("tool_search", "tool_search", "tool_search")


def call(arguments: str) -> ProviderCall:
    return ProviderCall("tsc_1", "call_1", "tool_search", arguments, "completed")


def test_a_search_comes_back_with_an_object_for_arguments() -> None:
    item = restore_tool_call(SEARCH, call('{"query": "echo", "limit": 3}'))
    assert msgspec.to_builtins(item) == {
        "type": "tool_search_call",
        "id": "tsc_1",
        "call_id": "call_1",
        "execution": "client",
        "arguments": {"query": "echo", "limit": 3},
        "status": "completed",
    }


def test_a_search_without_arguments_is_a_search() -> None:
    assert isinstance(restore_tool_call(SEARCH, call("{}")), ToolSearchCall)


@pytest.mark.parametrize("arguments", ["", "{", "[]", "null", '"echo"'])
def test_a_search_whose_arguments_are_no_object_stays_a_function_call(arguments: str) -> None:
    item = restore_tool_call(SEARCH, call(arguments))
    assert isinstance(item, FunctionCall)
    assert (item.name, item.arguments) == ("tool_search", arguments)
