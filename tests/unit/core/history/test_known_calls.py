"""Outputs of tool calls that are not in a stored history."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.core.history.known_calls import find_unknown_call, reject_unknown_calls
from antiphon.errors import InvalidRequest
from tests.support.tables import table

CALL = {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "1"}
MESSAGE = {"role": "user", "content": "Hello"}
SHELL = {"type": "local_shell_call", "id": "lsh_1", "call_id": "call_2", "action": {}}


@table(
    ("history", "items"),
    [
        ([], [MESSAGE]),
        ([MESSAGE, CALL], [OUTPUT]),
        ([], [CALL, OUTPUT]),
        ([{"type": "custom_tool_call", "call_id": "call_1"}], [OUTPUT]),
        ([SHELL], [{"type": "local_shell_call_output", "id": "lsh_1", "output": ""}]),
        ([SHELL], [{"type": "local_shell_call_output", "call_id": "call_2", "output": ""}]),
        ([], [{"type": "tool_search_output", "tools": []}]),
        ([], [{"type": "program_output", "result": 1}]),
    ],
)
def test_an_output_of_a_known_call_is_accepted(
    history: list[dict[str, Any]], items: list[dict[str, Any]]
) -> None:
    assert find_unknown_call(history, items) is None
    reject_unknown_calls(history, items)


@table(
    ("history", "items"),
    [
        ([CALL], [MESSAGE, {**OUTPUT, "call_id": "call_9"}]),
        # an output is no call, and an item id is no call id
        ([OUTPUT], [MESSAGE, OUTPUT]),
        ([{**CALL, "id": "call_9"}], [MESSAGE, {**OUTPUT, "call_id": "call_9"}]),
        ([{"type": None}], [MESSAGE, {"type": "shell_call_output", "call_id": "call_1"}]),
        ([SHELL], [MESSAGE, {"type": "local_shell_call_output", "id": "lsh_9"}]),
    ],
)
def test_an_output_of_an_unknown_call_is_rejected(
    history: list[dict[str, Any]], items: list[dict[str, Any]]
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        reject_unknown_calls(history, items)
    assert caught.value.param == "input[1].call_id"
    assert caught.value.wire_code is None
