"""The public state machine against the tables of its original design, by `import antiphon` alone.

Phases, methods and their events, error codes, the snapshot, finish reasons, restoration of tool
calls, and the validation of deltas.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest

import antiphon
from tests.support.tables import table


def started(*tools: antiphon.ToolIdentity) -> antiphon.ResponseMachine:
    machine = antiphon.ResponseMachine(tools=antiphon.ToolIdentityMap(tools))
    machine.start()
    return machine


def documents(events: Iterable[Any]) -> list[dict[str, Any]]:
    return [antiphon.event_to_dict(event, number) for number, event in enumerate(events)]


def types(events: Iterable[Any]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in documents(events)]


def output(machine: antiphon.ResponseMachine) -> list[dict[str, Any]]:
    """The output of the snapshot, as plain dictionaries."""
    found = msgspec.to_builtins(machine.snapshot.output)
    return list(found)


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(antiphon.BridgeError) as raised:
        call()
    return raised.value.code


# Phases


def test_the_phases_are_those_of_the_table() -> None:
    names = ["IDLE", "IN_PROGRESS", "COMPLETED", "INCOMPLETE", "FAILED"]
    assert [phase.name for phase in antiphon.Phase] == names


def test_a_machine_needs_no_arguments() -> None:
    machine = antiphon.ResponseMachine()
    assert machine.phase is antiphon.Phase.IDLE
    machine.start()
    machine.text("Hello")
    machine.finish("stop")
    snapshot = machine.snapshot
    assert (snapshot.id, snapshot.created_at, snapshot.completed_at) == ("resp_0001", 0, 0)
    assert [item["id"] for item in output(machine)] == ["msg_0001"]


@table(
    ("end", "phase", "event"),
    [
        (lambda m: m.finish("stop"), antiphon.Phase.COMPLETED, "completed"),
        (lambda m: m.finish("length"), antiphon.Phase.INCOMPLETE, "incomplete"),
        (lambda m: m.finish("network_error"), antiphon.Phase.FAILED, "failed"),
        (lambda m: m.fail("The line is dead."), antiphon.Phase.FAILED, "failed"),
    ],
)
def test_an_ending_leads_to_its_phase_and_event(
    end: Callable[[antiphon.ResponseMachine], list[Any]], phase: antiphon.Phase, event: str
) -> None:
    machine = started()
    assert machine.phase is antiphon.Phase.IN_PROGRESS
    assert types(end(machine))[-1] == event
    assert machine.phase is phase


# Methods and their events

CALL = antiphon.ToolCall(0, call_id="call_1", name="f", arguments="{}")
EVENTS: dict[str, tuple[Callable[[antiphon.ResponseMachine], list[Any]], str]] = {
    "text": (
        lambda m: m.text("Hi"),
        "output_item.added content_part.added output_text.delta",
    ),
    "refusal": (
        lambda m: m.refusal("No"),
        "output_item.added content_part.added refusal.delta",
    ),
    "reasoning": (
        lambda m: m.reasoning("Hm"),
        "output_item.added content_part.added reasoning_text.delta",
    ),
    "tool_call": (
        lambda m: m.tool_call(CALL),
        "output_item.added function_call_arguments.delta",
    ),
    "usage": (lambda m: m.usage(antiphon.Usage(3, 4)), ""),
    "defer_finish": (lambda m: m.defer_finish("stop"), ""),
}
CLOSING = {
    "text": "output_text.done content_part.done output_item.done completed",
    "refusal": "refusal.done content_part.done output_item.done completed",
    "reasoning": "reasoning_text.done content_part.done output_item.done completed",
    "tool_call": "function_call_arguments.done output_item.done completed",
    "usage": "completed",
    "defer_finish": "completed",
}


def test_start_produces_created_and_in_progress() -> None:
    assert types(antiphon.ResponseMachine().start()) == ["created", "in_progress"]


@table("method", EVENTS)
def test_a_method_produces_its_events_and_finish_closes_what_is_open(method: str) -> None:
    call, expected = EVENTS[method]
    machine = started()
    assert types(call(machine)) == expected.split()
    assert types(machine.finish("stop")) == CLOSING[method].split()


@table("delta", [antiphon.Text("Hi"), antiphon.Refusal("No"), CALL])
def test_feed_takes_any_delta(delta: antiphon.Delta) -> None:
    assert types(started().feed(delta))[0] == "output_item.added"


def test_finish_uses_the_deferred_reason() -> None:
    machine = started()
    machine.text("Hel")
    assert machine.defer_finish("length") == []
    assert machine.phase is antiphon.Phase.IN_PROGRESS
    [*_, last] = documents(machine.finish())
    assert last["type"] == "response.incomplete"
    assert last["response"]["incomplete_details"] == {"reason": "max_output_tokens"}


def test_events_are_encoded_with_sequence_numbers() -> None:
    machine = antiphon.ResponseMachine()
    encoder, decoder = antiphon.SSEEncoder(), antiphon.SSEDecoder()
    data = encoder.feed(machine.start()) + encoder.feed(machine.finish("stop"))
    frames = [json.loads(frame.data) for frame in decoder.feed(data)]
    assert [frame["sequence_number"] for frame in frames] == [0, 1, 2]
    assert frames[-1]["response"]["status"] == "completed"


# Error codes

FAULT = antiphon.classify(500, {}, b"")
DELTAS: dict[str, Callable[[antiphon.ResponseMachine], object]] = {
    **{name: call for name, (call, _) in EVENTS.items()},
    "a finish reason": lambda m: m.feed(antiphon.Finish("stop")),
    "a failure": lambda m: m.feed(antiphon.Failure(FAULT)),
}
TRANSITIONS: dict[str, Callable[[antiphon.ResponseMachine], object]] = {
    "start": lambda m: m.start(),
    "finish": lambda m: m.finish("stop"),
    "fail": lambda m: m.fail("broken"),
}


@table("method", DELTAS)
def test_output_before_the_start_is_an_error(method: str) -> None:
    machine = antiphon.ResponseMachine()
    assert code_of(lambda: DELTAS[method](machine)) == "bridge.stream.output_before_start"
    assert machine.phase is antiphon.Phase.IDLE


@table("method", DELTAS)
@table("ending", ["stop", "length", "network_error"])
def test_a_delta_after_the_end_is_an_error(method: str, ending: str) -> None:
    machine = started()
    machine.finish(ending)
    before = machine.snapshot
    assert code_of(lambda: DELTAS[method](machine)) == "bridge.stream.delta_after_terminal"
    assert machine.snapshot == before


@table("method", TRANSITIONS)
@table("ending", ["not started", "stop", "length", "network_error"])
def test_a_transition_from_the_wrong_phase_is_an_invalid_transition(
    method: str, ending: str
) -> None:
    machine = antiphon.ResponseMachine()
    if ending != "not started":
        machine.start()
        machine.finish(ending)
    elif method == "start":
        machine.start()
    before = machine.snapshot
    code = code_of(lambda: TRANSITIONS[method](machine))
    assert code == "bridge.stream.invalid_transition"
    assert machine.snapshot == before


@table(
    "piece",
    [
        antiphon.ToolCall(0, name="f", arguments='{"a"'),
        antiphon.ToolCall(0, call_id="call_1", arguments='{"a": 1}'),
    ],
)
def test_an_unfinished_tool_call_is_an_error_at_the_end(piece: antiphon.ToolCall) -> None:
    machine = started()
    machine.tool_call(piece)
    assert code_of(lambda: machine.finish("stop")) == "bridge.stream.incomplete_tool_call"
    assert types(machine.fail("The stream was cut."))[-1] == "failed"


@table(
    ("code", "shown"),
    [
        ("rate_limit_exceeded", "rate_limit_exceeded"),
        ("a vendor's own", "server_error"),
        (None, "server_error"),
    ],
)
def test_an_unknown_error_code_becomes_server_error(code: str | None, shown: str) -> None:
    [*_, last] = documents(started().fail("Too many requests.", code=code))
    assert last["response"]["error"] == {"code": shown, "message": "Too many requests."}


def test_a_fault_is_described_without_the_text_of_the_provider() -> None:
    fault = antiphon.classify(429, {}, b'{"error": {"message": "org-123 is too fast"}}')
    machine = started()
    [*_, last] = documents(machine.fail(fault))
    assert last["response"]["error"]["code"] == "rate_limit_exceeded"
    assert "org-123" not in last["response"]["error"]["message"]
    assert machine.fault is fault


def test_two_tools_cannot_share_a_provider_name() -> None:
    one = antiphon.ToolIdentity(provider_name="f", requested_name="a")
    other = antiphon.ToolIdentity(provider_name="f", requested_name="b")
    code = code_of(lambda: antiphon.ToolIdentityMap([one, other]))
    assert code == "bridge.request.tool_collision"


# Snapshot


def test_the_snapshot_is_always_current() -> None:
    machine = antiphon.ResponseMachine()
    assert output(machine) == []
    machine.start("m")
    machine.reasoning("Hm.")
    machine.text("Hel")
    machine.text("lo")
    machine.usage(antiphon.Usage(input_tokens=3, output_tokens=4))
    before = machine.snapshot
    assert (before.status, before.model) == ("in_progress", "m")
    assert before.output_text == antiphon.output_text(before) == "Hello"
    machine.finish("stop")
    after = machine.snapshot
    assert after.status == "completed"
    assert [item["status"] for item in output(machine)] == ["completed", "completed"]
    assert after.usage is not None
    assert after.usage.total_tokens == 7
    assert before.status == "in_progress"


# Finish reasons

SERVER_ERROR = "server_error"


@table(
    ("reason", "status", "incomplete", "error"),
    [
        ("stop", "completed", None, None),
        ("tool_calls", "completed", None, None),
        ("length", "incomplete", "max_output_tokens", None),
        ("model_context_window_exceeded", "incomplete", "max_output_tokens", None),
        ("content_filter", "incomplete", "content_filter", None),
        ("sensitive", "incomplete", "content_filter", None),
        ("network_error", "failed", None, SERVER_ERROR),
        (None, "failed", None, SERVER_ERROR),
        ("surprise", "failed", None, SERVER_ERROR),
    ],
)
def test_a_finish_reason_decides_the_status(
    reason: str | None, status: str, incomplete: str | None, error: str | None
) -> None:
    outcome = antiphon.map_finish_reason(reason)
    found = (outcome.status, outcome.incomplete_reason, outcome.error_code)
    assert found == (status, incomplete, error)
    machine = started()
    [*_, last] = documents(machine.finish(reason))
    response = last["response"]
    assert response["status"] == status
    assert (response["incomplete_details"] or {}).get("reason") == incomplete
    assert (response["error"] or {}).get("code") == error


def test_a_failed_outcome_says_why() -> None:
    assert antiphon.map_finish_reason(None).message == (
        "The provider returned no finish reason. Send the request again."
    )
    assert antiphon.map_finish_reason("surprise").message == (
        "The provider sent an unexpected finish reason. Reason: surprise."
    )


# Restoration of tool calls

OPERATION = {"type": "delete_file", "path": "a.py"}
RESTORED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "function": ({"a": 1}, {"type": "function_call", "name": "mine", "arguments": '{"a": 1}'}),
    "shell": ({"commands": ["ls"]}, {"type": "shell_call"}),
    "local_shell": (
        {"command": ["ls"], "env": {"A": "1"}},
        {"type": "local_shell_call"},
    ),
    "apply_patch": (
        {"operation": OPERATION},
        {"type": "apply_patch_call", "operation": OPERATION},
    ),
    "custom": ({"input": "x = 1"}, {"type": "custom_tool_call", "name": "mine", "input": "x = 1"}),
}


def restore(kind: Any, arguments: str) -> dict[str, Any]:
    """Restore a call by the function, check that the machine does the same, and return it."""
    tool = antiphon.ToolIdentity(provider_name="theirs", requested_name="mine", requested_type=kind)
    call = antiphon.ProviderCall(id="x", call_id="call_1", name="theirs", arguments=arguments)
    item = antiphon.restore_tool_call(tool, call)
    machine = started(tool)
    machine.tool_call(antiphon.ToolCall(0, call_id="call_1", name="theirs", arguments=arguments))
    [*_, last] = documents(machine.finish("tool_calls"))
    [streamed] = last["response"]["output"]
    assert streamed["type"] == type(item).__struct_config__.tag
    return dict(streamed)


@table("kind", RESTORED)
def test_a_call_gets_the_type_that_was_requested(kind: str) -> None:
    arguments, expected = RESTORED[kind]
    item = restore(kind, json.dumps(arguments))
    assert item == {**item, **expected, "call_id": "call_1"}


def test_the_arguments_of_shells_become_actions() -> None:
    shell = restore("shell", '{"commands": ["ls", "pwd"]}')
    assert shell["action"]["commands"] == ["ls", "pwd"]
    local = restore("local_shell", '{"command": ["ls"], "env": {"A": "1"}}')
    assert (local["action"]["command"], local["action"]["env"]) == (["ls"], {"A": "1"})


UNUSABLE = {
    f"{kind}: {arguments}": (kind, arguments)
    for kind in RESTORED
    for arguments in ("not json", "[]", "{}")
    if kind != "function"
}
UNUSABLE["env is no object"] = ("local_shell", '{"command": ["ls"], "env": ["A=1"]}')
UNUSABLE["env has a number"] = ("local_shell", '{"command": ["ls"], "env": {"A": 1}}')


@table("case", UNUSABLE)
def test_a_call_that_does_not_parse_stays_a_function_call(case: str) -> None:
    kind, arguments = UNUSABLE[case]
    tool = antiphon.ToolIdentity("theirs", "mine", kind)  # type: ignore[arg-type]
    call = antiphon.ProviderCall("x", "call_1", "theirs", arguments)
    item = msgspec.to_builtins(antiphon.restore_tool_call(tool, call))
    expected = {"type": "function_call", "name": "mine", "arguments": arguments}
    assert item == {**item, **expected, "call_id": "call_1"}


def test_the_identity_map_looks_up_both_ways() -> None:
    tool = antiphon.ToolIdentity("theirs", "mine", "shell")
    tools = antiphon.ToolIdentityMap([tool])
    assert tools.by_provider_name("theirs") is tool
    assert tools.by_requested_name("mine") is tool


# Validation of deltas

GOOD: dict[str, tuple[dict[str, Any], list[antiphon.Delta]]] = {
    "text": ({"text": "a"}, [antiphon.Text("a")]),
    "reasoning": ({"reasoning": "a"}, [antiphon.Reasoning("a")]),
    "refusal": ({"refusal": "a"}, [antiphon.Refusal("a")]),
    "tool call": (
        {"toolCall": {"index": 2, "id": "c", "type": "function", "name": "f", "arguments": "{"}},
        [antiphon.ToolCall(2, "c", "f", "{")],
    ),
    "usage": (
        {"usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}},
        [antiphon.Usage(1, 2, total_tokens=3)],
    ),
    "finish reason": ({"finishReason": "stop"}, [antiphon.Finish("stop")]),
    "no finish reason": ({"finishReason": None}, [antiphon.Finish(None)]),
    "several": (
        {"finishReason": "stop", "text": "a"},
        [antiphon.Text("a"), antiphon.Finish("stop")],
    ),
}
BAD: dict[str, Any] = {
    "no mapping": "text",
    "text that is no string": {"text": 1},
    "reasoning that is no string": {"reasoning": None},
    "refusal that is no string": {"refusal": ["a"]},
    "no index": {"toolCall": {"id": "c", "name": "f", "arguments": "{}"}},
    "negative index": {"toolCall": {"index": -1}},
    "fractional index": {"toolCall": {"index": 0.5}},
    "id that is no string": {"toolCall": {"index": 0, "id": 7}},
    "type that is no string": {"toolCall": {"index": 0, "type": 7}},
    "name that is no string": {"toolCall": {"index": 0, "name": 7}},
    "arguments that are no string": {"toolCall": {"index": 0, "arguments": {}}},
    "missing counts": {"usage": {"input_tokens": 1}},
    "infinite counts": {
        "usage": {"input_tokens": float("inf"), "output_tokens": 1, "total_tokens": 1}
    },
    "finish reason that is no string": {"finishReason": 1},
    "error without message": {"error": {"code": "x"}},
    "error code that is no string": {"error": {"message": "x", "code": 1}},
    "unknown field": {"txt": "a"},
    "unknown field of a call": {"toolCall": {"index": 0, "nmae": "f"}},
}


@table("case", GOOD)
def test_a_valid_mapping_becomes_deltas(case: str) -> None:
    mapping, deltas = GOOD[case]
    assert antiphon.parse_delta(mapping) == deltas


def test_an_error_becomes_a_failure_with_a_classified_fault() -> None:
    [failure] = antiphon.parse_delta({"error": {"message": "slow", "code": "rate_limit_exceeded"}})
    assert isinstance(failure, antiphon.Failure)
    assert failure.fault.public_code == "rate_limit_exceeded"
    assert types(started().feed(failure)) == ["failed"]


@table("case", BAD)
def test_an_invalid_mapping_is_an_invalid_transition(case: str) -> None:
    assert code_of(lambda: antiphon.parse_delta(BAD[case])) == "bridge.stream.invalid_transition"


# Output contracts


def test_a_contract_judges_the_finished_response() -> None:
    contract = antiphon.OutputContract(requested="json_object")
    machine = started()
    machine.text("no JSON")
    machine.finish("stop")
    with pytest.raises(antiphon.BridgeError) as raised:
        contract.check(machine.snapshot, provider="acme")
    assert raised.value.code == "bridge.response.invalid_output_format"
    assert vars(raised.value) == {
        **vars(raised.value),
        "provider": "acme",
        "model": "unknown",
        "response_id": "resp_0001",
    }
    assert contract.is_valid('{"a": 1}')
