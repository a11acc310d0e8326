"""Planner: a request, a history and capabilities become one immutable plan."""

from __future__ import annotations

from typing import Any, Literal
from unittest.mock import ANY

import msgspec
import pytest
from msgspec import structs

from antiphon.core.capabilities import Capabilities
from antiphon.core.compaction.request_summary import SummaryTask
from antiphon.core.deltas import Usage
from antiphon.core.history.pairing import pair_calls
from antiphon.core.history.read_items import has_only_messages, read_items
from antiphon.core.history.steps import MessageStep, TextPart, ToolCallStep, ToolResultStep
from antiphon.core.plan.declare_tools import DeclaredTools, declare_tools
from antiphon.core.plan.effort import EFFORTS
from antiphon.core.plan.plan import CompactedContext, Notes, Plan
from antiphon.core.plan.planner import ModelTarget, PlanInputs, Planner
from antiphon.core.plan.unseal import unseal_history
from antiphon.core.tools.declaration import ToolChoice
from antiphon.errors import InvalidRequest
from tests.support.plans import make_plan
from tests.support.request_body import parse_body
from tests.support.tables import table

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
JSON_SCHEMA = {
    "type": "json_schema",
    "name": "trip",
    "description": "A trip.",
    "schema": SCHEMA,
    "strict": True,
}
NOW = {"type": "function", "name": "now"}


def planned(
    *, history: list[dict[str, Any]] | None = None, can: Capabilities | None = None, **fields: Any
) -> Plan:
    body = msgspec.json.encode({"model": "alias", "input": "hello", **fields})
    return make_plan(
        parse_body(body),
        history or [],
        provider="somebody",
        model="model-1",
        capabilities=can or Capabilities(),
    )


def codes(plan: Plan) -> list[str]:
    return [f"{each.code} {each.param}" for each in plan.diagnostics]


def user(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": text}


def said(text: str) -> MessageStep:
    return MessageStep("user", (TextPart(text),))


def test_a_plain_request_is_a_plain_plan() -> None:
    plan = planned(instructions="Be kind.", temperature=0.5)
    assert (plan.provider, plan.model) == ("somebody", "model-1")
    assert plan.instructions == "Be kind."
    assert plan.history == (said("hello"),)
    assert plan.parameters == {"temperature": 0.5}
    assert (plan.effort, plan.effective_effort) == (None, None)
    assert plan.contract.requested == plan.contract.asked == "text"
    assert (plan.declarations, plan.native_tools, plan.tool_choice) == ((), (), ToolChoice())
    assert plan.diagnostics == ()


def test_a_plan_has_the_capabilities_that_the_dialect_needs() -> None:
    can = Capabilities(replay_reasoning="tool_turns", developer_role=True)
    plan = planned(can=can)
    assert (plan.replay_reasoning, plan.developer_role) == ("tool_turns", True)


def test_the_same_request_is_the_same_plan() -> None:
    fields: dict[str, Any] = {"tools": [NOW], "text": {"format": JSON_SCHEMA}, "truncation": "auto"}
    first, second = planned(**fields), planned(**fields)
    assert first.diagnostics == second.diagnostics
    assert first.declarations == second.declarations


def test_a_diagnostic_names_the_provider_and_the_model() -> None:
    [diagnostic] = planned(presence_penalty=1).diagnostics
    assert diagnostic.message == (
        "`presence_penalty` is not supported by somebody/model-1; ignored."
    )


# --- history --------------------------------------------------------------------------------------


def test_earlier_turns_come_before_the_input() -> None:
    plan = planned(history=[user("first")], input=[user("second")])
    assert plan.history == (said("first"), said("second"))


def test_a_call_of_an_earlier_turn_finds_its_answer_in_the_input() -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "now", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c1", "output": "noon"}
    plan = planned(history=[user("when?"), call], input=[output], tools=[NOW])
    assert isinstance(plan.history[1], ToolCallStep)
    assert isinstance(plan.history[2], ToolResultStep)
    assert plan.diagnostics == ()


def test_an_interrupted_call_is_answered_and_says_so() -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "now", "arguments": "{}"}
    plan = planned(input=[user("when?"), call, user("never mind")], tools=[NOW])
    assert [type(step) for step in plan.history] == [
        MessageStep,
        ToolCallStep,
        ToolResultStep,
        MessageStep,
    ]
    assert [each.code for each in plan.diagnostics] == ["history.call.unanswered"]


def test_a_call_without_its_namespace_is_resolved_to_its_tool() -> None:
    tools = {
        "type": "namespace",
        "name": "functions",
        "tools": [{"type": "custom", "name": "exec"}],
    }
    call = {"type": "custom_tool_call", "call_id": "c1", "name": "exec", "input": "1"}
    output = {"type": "custom_tool_call_output", "call_id": "c1", "output": "2"}
    carrier = {"type": "additional_tools", "role": "developer", "tools": [tools]}
    plan = planned(input=[carrier, user("go"), call, output])
    [called] = [step for step in plan.history if isinstance(step, ToolCallStep)]
    assert (called.name, called.namespace) == ("exec", "functions")
    assert [each.name for each in plan.declarations] == ["functions__exec"]


def test_diagnostics_count_items_as_the_client_does() -> None:
    picture = {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_image", "image_url": "u"}],
    }
    unread = {"type": "additional_tools", "role": "developer", "tools": [{"type": "teleport"}]}
    can = Capabilities(inputs=frozenset({"text"}))
    plan = planned(history=[user("hi"), picture], input=[user("hi"), picture, unread], can=can)
    assert codes(plan) == [
        "history.image.replaced history[1]",
        "history.image.replaced input[1]",
        "tool.ignored input[2].tools[0]",
    ]


def test_the_body_of_a_turn_begins_the_body_of_the_next() -> None:
    turn = [
        user("one"),
        {"type": "function_call", "call_id": "c", "name": "x.y", "arguments": "{}"},
    ]
    answer = {"type": "function_call_output", "call_id": "c", "output": "done"}
    first = planned(input=[*turn, answer], tools=[NOW])
    second = planned(
        history=[*turn, answer], input=[user("two")], tools=[NOW, {**NOW, "name": "b"}]
    )
    assert second.history[: len(first.history)] == first.history
    assert second.declarations[: len(first.declarations)] == first.declarations
    then, now = (plan.identities.by_requested_name("x.y") for plan in (first, second))
    assert then is not None
    assert then == now


# --- parameters that depend on the rest -----------------------------------------------------------


def test_parallel_tool_calls_is_not_sent_without_tools() -> None:
    can = Capabilities(parameters=frozenset({"parallel_tool_calls"}), web_search="native")
    assert planned(can=can, parallel_tool_calls=False).parameters == {}
    for tool in (NOW, {"type": "web_search"}):
        plan = planned(can=can, parallel_tool_calls=False, tools=[tool])
        assert plan.parameters == {"parallel_tool_calls": False}


def test_log_probabilities_are_requested_when_they_are_included() -> None:
    can = Capabilities(parameters=frozenset({"top_logprobs"}))
    plan = planned(can=can, top_logprobs=2, include=["message.output_text.logprobs"])
    assert (plan.parameters, plan.include_logprobs) == ({"top_logprobs": 2}, True)
    plan = planned(can=can, top_logprobs=2)
    assert (plan.parameters, plan.include_logprobs) == ({}, False)


def test_every_kind_of_loss_has_a_diagnostic() -> None:
    plan = planned(
        can=Capabilities(formats=frozenset({"text"}), tool_choice=frozenset({"auto"})),
        input=[{"type": "web_search_call", "id": "ws_1", "status": "completed"}, user("hi")],
        tools=[NOW, {"type": "tool_search"}],
        tool_choice="required",
        truncation="auto",
        include=["web_search_call.results"],
        reasoning={"effort": "high"},
        text={"format": {"type": "json_object"}},
        frobnicate=True,
    )
    assert codes(plan) == [
        "history.item.ignored input[0]",
        "tool.ignored tools[1]",
        "tool_choice.degraded tool_choice",
        "param.ignored truncation",
        "param.unknown frobnicate",
        "include.ignored include",
        "effort.ignored reasoning.effort",
        "format.degraded text.format.type",
    ]


def test_a_call_that_cannot_be_forced_is_an_instruction_after_those_of_the_client() -> None:
    can = Capabilities().without(frozenset({"required", "function"}))
    plan = planned(can=can, tools=[NOW], tool_choice="required", instructions="Be brief.")
    assert plan.tool_choice.mode == "auto"
    assert plan.instructions == "Be brief.\n\nCall at least one of the tools before you answer."


# --- effort ---------------------------------------------------------------------------------------


def effort(asked: str, *rungs: str) -> tuple[str | None, list[str]]:
    can = Capabilities(efforts={rung: f"<{rung}>" for rung in rungs})
    plan = planned(can=can, reasoning={"effort": asked})
    return plan.effort, codes(plan)


DEGRADED, IGNORED = ["effort.degraded reasoning.effort"], ["effort.ignored reasoning.effort"]


@table("asked", [*EFFORTS, "ultra"])
def test_an_effort_that_the_model_has_is_translated(asked: str) -> None:
    assert effort(asked, *EFFORTS, "ultra") == (f"<{asked}>", [])


@table(
    ("asked", "rungs", "taken"),
    [
        ("xhigh", ["low", "high", "max"], "<high>"),
        ("max", ["none", "low"], "<low>"),
        ("minimal", ["low", "high"], "<low>"),
        ("none", ["medium", "low"], "<low>"),
        ("medium", ["minimal", "max"], "<minimal>"),
    ],
)
def test_a_missing_effort_becomes_the_next_lower_else_the_next_higher(
    asked: str, rungs: list[str], taken: str
) -> None:
    assert effort(asked, *rungs) == (taken, DEGRADED)


@table("asked", ["minimal", "low", "medium"])
def test_a_low_effort_never_becomes_none(asked: str) -> None:
    assert effort(asked, "none", "high", "max") == ("<high>", DEGRADED)
    assert effort(asked, "none") == (None, IGNORED)


@table(("asked", "rungs"), [("high", []), ("ultra", EFFORTS)])
def test_an_effort_that_means_nothing_to_the_model_is_ignored(asked: str, rungs: list[str]) -> None:
    assert effort(asked, *rungs) == (None, IGNORED)


def test_an_effort_may_be_requested_by_omitting_the_field() -> None:
    plan = planned(can=Capabilities(efforts={"high": None}), reasoning={"effort": "high"})
    assert (plan.effort, plan.effective_effort, plan.diagnostics) == (None, "high", ())


def test_an_effort_changed_along_the_thread_stays_changed() -> None:
    can = Capabilities(efforts={rung: rung for rung in EFFORTS})
    change = {"type": "configuration_update", "reasoning": {"effort": "low"}}
    again = {"type": "configuration_update", "reasoning": {"effort": "max"}, "text": None}
    asked = {"reasoning": {"effort": "medium"}}
    assert planned(can=can, history=[change], **asked).effort == "low"
    assert planned(can=can, history=[change], input=[again, user("hi")], **asked).effort == "max"
    nothing = {"type": "configuration_update", "reasoning": {"effort": None}}
    assert planned(can=can, history=[change, nothing], **asked).effort == "low"


@table("broken", [{"effort": 7}, "max", None])
def test_an_invalid_effort_in_an_item_is_ignored(broken: Any) -> None:
    change = {"type": "configuration_update", "reasoning": broken}
    plan = planned(history=[change], can=Capabilities(efforts={"low": "low"}))
    assert (plan.effort, plan.diagnostics) == (None, ())


def test_a_lost_effort_of_the_thread_names_the_item() -> None:
    change = {"type": "configuration_update", "reasoning": {"effort": "max"}}
    assert codes(planned(history=[user("hi"), change])) == [
        "effort.ignored history[1].reasoning.effort"
    ]


# --- format ---------------------------------------------------------------------------------------


def formats(*kinds: str) -> Capabilities:
    """What takes these formats, and no order to call a tool."""
    return Capabilities(
        formats=frozenset({"text", *kinds}), tool_choice=frozenset({"auto", "none"})
    )


def test_a_schema_goes_to_a_provider_that_takes_schemas() -> None:
    contract = planned(text={"format": JSON_SCHEMA}).contract
    assert (contract.requested, contract.asked) == ("json_schema", "json_schema")
    assert (contract.name, contract.description, contract.strict) == ("trip", "A trip.", True)
    assert contract.schema == SCHEMA


@table(
    ("form", "kinds", "asked"),
    [
        (JSON_SCHEMA, ["json_object"], "json_object"),
        (JSON_SCHEMA, [], "text"),
        ({"type": "json_object"}, [], "text"),
        ({"type": "json_object"}, ["json_schema"], "text"),
    ],
)
def test_an_unsupported_format_is_in_the_instructions_and_still_checked(
    form: dict[str, Any], kinds: list[str], asked: str
) -> None:
    plan = planned(can=formats(*kinds), text={"format": form})
    assert (plan.contract.requested, plan.contract.asked) == (form["type"], asked)
    assert plan.contract.schema == form.get("schema")
    assert plan.contract.instruction() is not None
    assert codes(plan) == ["format.degraded text.format.type"]


@table("schema", [{"type": "banana"}, {"$ref": "https://example.org/schema"}])
def test_a_schema_that_cannot_be_checked_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        planned(text={"format": {**JSON_SCHEMA, "schema": schema}})
    assert (caught.value.param, caught.value.status) == ("text.format.schema", 400)


def test_a_format_changed_along_the_thread_stays_changed() -> None:
    change = {"type": "configuration_update", "text": {"format": JSON_SCHEMA}}
    assert planned(history=[change]).contract.schema == SCHEMA
    back = {"type": "configuration_update", "text": {"format": {"type": "text"}}}
    plan = planned(history=[change, back], text={"format": {"type": "json_object"}})
    assert plan.contract.requested == "text"


@table(
    ("form", "field"),
    [
        ({"type": "banana"}, "type"),
        ("banana", "type"),
        ({"type": "json_schema", "name": "x"}, "schema"),
        ({**JSON_SCHEMA, "schema": {"type": "banana"}}, "schema"),
    ],
)
def test_an_invalid_format_in_an_item_is_a_diagnostic_and_not_an_error(
    form: Any, field: str
) -> None:
    change = {"type": "configuration_update", "text": {"format": form}}
    plan = planned(history=[change], text={"format": {"type": "json_object"}})
    assert plan.contract.requested == "json_object"
    assert codes(plan) == [f"format.ignored history[0].text.format.{field}"]


def test_a_format_that_is_rejected_beside_tools_is_requested_only_without_them() -> None:
    can = Capabilities(formats_beside_tools=False)
    form = {"format": JSON_SCHEMA}
    assert planned(can=can, text=form).contract.asked == "json_schema"
    plan = planned(can=can, text=form, tools=[NOW])
    assert (plan.contract.requested, plan.contract.asked) == ("json_schema", "text")
    assert codes(plan) == ["format.degraded text.format.type"]
    assert [tool.name for tool in plan.declarations] == ["now", "answer_trip"]
    assert (plan.contract.tool, plan.tool_choice.mode) == ("answer_trip", "required")
    searching = Capabilities(formats_beside_tools=False, web_search="native")
    plan = planned(can=searching, text=form, tools=[{"type": "web_search"}])
    assert plan.contract.asked == "text"
    plain = planned(can=can, text={"format": {"type": "text"}}, tools=[NOW])
    assert (plain.contract.asked, plain.diagnostics) == ("text", ())


@table("search", ["ignore", "managed"])
def test_a_request_of_messages_alone_is_planned_as_if_its_tools_were_declared(
    search: Literal["ignore", "managed"],
) -> None:
    items: list[dict[str, Any]] = [
        {"role": "developer", "content": "Be brief."},
        {"type": "message", "role": "user", "content": "Hi"},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Hello."}]},
        {"role": "user", "content": [{"type": "input_text", "text": "And?"}]},
    ]
    capabilities = Capabilities(web_search=search)
    steps, _ = read_items(items, inputs=capabilities.inputs, tool_output_images=False)
    assert has_only_messages(items)
    notes: Notes = []
    declared = declare_tools((), "auto", items, steps, capabilities, notes)
    assert declared == DeclaredTools(identities=ANY, steps=steps)
    paired, unpaired = pair_calls(steps)
    unsealed = unseal_history(steps, notes, issuer="", model="m", unseal=pytest.fail)
    assert (paired, unsealed, [*unpaired, *notes]) == (steps, steps, [])


def test_a_limit_of_tool_calls_is_sent_with_tools_that_the_provider_runs() -> None:
    can = Capabilities(parameters=frozenset({"max_tool_calls"}), web_search="native")
    plan = planned(can=can, max_tool_calls=2, tools=[{"type": "web_search"}])
    assert plan.parameters == {"max_tool_calls": 2}
    assert plan.used.parameters["max_tool_calls"] == 2


def test_without_such_tools_there_is_nothing_to_limit_and_nothing_to_report() -> None:
    plan = planned(max_tool_calls=2, tools=[NOW])
    assert (plan.parameters, plan.diagnostics) == ({}, ())
    assert plan.used.parameters["max_tool_calls"] == 2


def test_a_limit_that_the_provider_does_not_support_is_reported() -> None:
    can = Capabilities(web_search="native")
    plan = planned(can=can, max_tool_calls=2, tools=[{"type": "web_search"}])
    assert codes(plan) == ["param.ignored max_tool_calls"]
    assert "max_tool_calls" not in plan.used.parameters


def test_a_history_is_truncated_if_the_window_is_known() -> None:
    can = Capabilities(context_window=400)
    history = [user("x" * 2_000), {**user("a"), "role": "assistant"}]
    plan = planned(can=can, history=history, truncation="auto")
    assert plan.history == (said("hello"),)
    assert codes(plan) == ["history.truncated input"]
    assert plan.used.parameters["truncation"] == "auto"
    unchanged = planned(can=can, history=history)
    assert len(unchanged.history) == 3
    assert "truncation" not in unchanged.used.parameters


def test_truncation_is_left_to_a_provider_that_has_it() -> None:
    can = Capabilities(context_window=400, parameters=frozenset({"truncation"}))
    plan = planned(can=can, input="x" * 2_000, truncation="auto")
    assert (plan.parameters, plan.diagnostics) == ({"truncation": "auto"}, ())


def test_additional_output_is_requested_of_the_provider_that_runs_the_tool() -> None:
    value = "file_search_call.results"
    can = Capabilities(include=frozenset({value}), hosted_tools=frozenset({"file_search"}))
    tool = {"type": "file_search", "vector_store_ids": ["vs_1"]}
    plan = planned(can=can, include=[value], tools=[tool])
    assert (plan.include, plan.diagnostics) == ((value,), ())
    plan = planned(can=can, include=[value])
    assert (plan.include, plan.diagnostics) == ((), ())


@table("role", ["system", "developer"])
def test_system_messages_are_placed_where_the_provider_accepts_them(role: str) -> None:
    given = [{"type": "message", "role": role, "content": "Be brief."}, user("hello")]
    plan = planned(input=given, instructions="Be kind.", can=Capabilities(system_messages="first"))
    assert (plan.instructions, plan.history) == ("Be kind.\n\nBe brief.", (said("hello"),))
    anywhere = planned(input=given, instructions="Be kind.")
    assert (anywhere.instructions, len(anywhere.history)) == ("Be kind.", 2)


def test_a_compaction_item_that_cannot_be_opened_is_reported() -> None:
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "x"}
    plan = planned(input=[item, user("hello")])
    assert codes(plan) == ["history.compaction.ignored input[0]"]
    assert plan.history[-1] == said("hello")


# Several plans of one request


def planner_of(inputs: PlanInputs | None = None, **fields: Any) -> Planner:
    request = parse_body(msgspec.json.encode({"model": "alias", "input": "hello", **fields}))
    return Planner(request, inputs or PlanInputs())


FIRST = ModelTarget("a", "m")
SECOND = ModelTarget("b", "m")


def test_a_history_that_lost_its_oldest_turns_says_so() -> None:
    plan = planner_of(PlanInputs(history=[user("later")], is_cut=True)).plan(FIRST)
    assert codes(plan) == ["history.truncated input"]


def test_many_unknown_fields_are_counted() -> None:
    fields: dict[str, Any] = {f"f{number}": 1 for number in range(25)}
    plan = planned(**fields)
    assert codes(plan)[-2:] == ["param.unknown f19", "param.unknown "]
    assert plan.diagnostics[-1].message == "5 more fields are not of the API; ignored."


def test_too_many_diagnostics_are_counted() -> None:
    calls = [
        {"type": "function_call", "call_id": f"c{n}", "name": "f", "arguments": "{}"}
        for n in range(150)
    ]
    found = codes(planned(input=[*calls, user("hello")]))
    assert len(found) == 101
    assert found[-1] == "diagnostics.omitted "


def test_a_target_is_planned_once() -> None:
    planner = planner_of()
    assert planner.plan(FIRST) is planner.plan(ModelTarget("a", "m"))
    assert planner.plan(SECOND) is not planner.plan(FIRST)
    assert (planner.plan(SECOND).provider, planner.plan(SECOND).model) == ("b", "m")


def test_a_plan_without_a_mode_is_another_plan_and_the_first_one_stays() -> None:
    planner = planner_of(text={"format": JSON_SCHEMA})
    whole = planner.plan(FIRST)
    without = planner.plan(FIRST, frozenset({"json_schema"}))
    assert (whole.contract.asked, without.contract.tool) == ("json_schema", "answer_trip")
    assert planner.plan(FIRST) is whole
    assert planner.plan(FIRST, frozenset({"json_schema"})) is without


def test_modes_that_a_target_is_known_to_reject_are_avoided_there_alone() -> None:
    known = PlanInputs(rejected={FIRST.name: frozenset({"json_schema"})})
    planner = planner_of(known, text={"format": JSON_SCHEMA})
    assert planner.plan(FIRST).contract.tool == "answer_trip"
    assert planner.plan(SECOND).contract.asked == "json_schema"
    weaker = planner.plan(FIRST, frozenset({"required", "function"})).contract
    assert (weaker.asked, weaker.tool) == ("json_object", None)


def test_a_request_that_a_target_cannot_serve_is_rejected_for_it_alone() -> None:
    planner = planner_of(tools=[NOW], tool_choice="required")
    with pytest.raises(InvalidRequest):
        planner.plan(ModelTarget("a", "m", Capabilities(tools=False)))
    assert planner.plan(SECOND).tool_choice == ToolChoice("required")


def test_the_plan_of_a_large_request_is_large() -> None:
    planner = planner_of()
    large = Planner(structs.replace(planner.request, is_large=True), planner.inputs)
    assert large.plan(FIRST).is_large
    assert not planner.plan(FIRST).is_large


def test_the_plan_of_a_summary_has_its_task() -> None:
    task = SummaryTask(("c",))
    assert planner_of(PlanInputs(task=task)).plan(FIRST).summary_task == task


def test_after_a_compaction_the_request_continues_from_its_item() -> None:
    before = planner_of(PlanInputs(rejected={FIRST.name: frozenset({"json_schema"})}))
    compacted = CompactedContext({"summary": {}}, Usage(input_tokens=3))
    item = {"type": "compaction", "encrypted_content": "x"}
    after = before.continue_from(item, compacted)
    assert after.request.input[-1] == item
    assert (after.plan(FIRST).compacted, before.plan(FIRST).compacted) == (compacted, None)
    assert after.inputs.rejected == before.inputs.rejected


def test_a_request_that_differs_only_in_its_messages_gets_the_same_settings() -> None:
    can = Capabilities(model_name="somebody/model-1")
    first, second = (planned(can=can, input=text, temperature=0.5) for text in ("one", "two"))
    assert structs.replace(first, history=()) == structs.replace(second, history=())
    assert (first.history, second.history) == ((said("one"),), (said("two"),))
