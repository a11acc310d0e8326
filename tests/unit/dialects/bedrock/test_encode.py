"""Converse encoder: tools, thinking, output format and limits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.core.deltas import ReasoningState
from antiphon.core.history.steps import (
    MessageStep,
    ReasoningStep,
    Step,
    TextPart,
    ToolCallStep,
    ToolResultStep,
)
from antiphon.core.plan.plan import Plan
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.tools.declaration import ToolChoice, ToolDeclaration
from antiphon.dialects.bedrock.encode import encode
from antiphon.dialects.bedrock.quirks import FAMILIES, PLAIN, BedrockQuirks
from tests.support.request_validators.bedrock import problems
from tests.support.request_validators.converse_model import offences
from tests.support.tables import table

Body = dict[str, Any]

HI = MessageStep("user", (TextPart("hi"),))
CALL, ANSWER = ToolCallStep("a", "look", "{}"), ToolResultStep("a", (TextPart("1"),), "look")
SIGNED = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "cw=="}}}
THOUGHT = ReasoningStep(states=(ReasoningState("bedrock.reasoning", SIGNED, "block"),))
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
LOOK = ToolDeclaration(name="look", description="Look.", parameters=SCHEMA)
WAIT = ToolDeclaration(name="wait")
SPEC = {"toolSpec": {"name": "look", "description": "Look.", "inputSchema": {"json": SCHEMA}}}
EMPTY = {"json": {"type": "object", "properties": {}}}
BUDGET = BedrockQuirks(thinking="budget")
ADAPTIVE = BedrockQuirks(thinking="adaptive")
CONFIG = BedrockQuirks(thinking="config")


def body(*history: Step, quirks: BedrockQuirks = PLAIN, **fields: Any) -> Body:
    plan = Plan(provider="p", model="m", history=history or (HI,), **fields)
    found = encode(plan, stream=True, quirks=quirks).body
    assert problems(found) == []
    decoded: Body = json.loads(found)
    assert offences(decoded) == []
    return decoded


def extra(*history: Step, **fields: Any) -> Body:
    """What is handed on to the model itself."""
    found: Body = body(*history, **fields).get("additionalModelRequestFields", {})
    return found


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("us.anthropic.claude-v1:0", "us.anthropic.claude-v1:0"),
        (
            "arn:aws:bedrock:x:1:inference-profile/a b",
            "arn:aws:bedrock:x:1:inference-profile%2Fa%20b",
        ),
    ],
)
def test_the_path_contains_the_escaped_model(model: str, path: str) -> None:
    plan = Plan(provider="p", model=model, history=(HI,))
    whole, streamed = encode(plan, stream=False), encode(plan, stream=True)
    assert whole.path == f"/model/{path}/converse"
    assert streamed.path == f"/model/{path}/converse-stream"
    assert whole.body == streamed.body
    assert whole.headers == {"content-type": "application/json", "accept": "application/json"}
    assert streamed.headers["accept"] == "application/vnd.amazon.eventstream"


def test_a_minimal_request_has_only_messages() -> None:
    assert body() == {"messages": [{"role": "user", "content": [{"text": "hi"}]}]}


def test_a_patch_is_applied_last_and_messages_stay_last() -> None:
    quirks = BedrockQuirks(patch=lambda body, plan: {**body, "serviceTier": {"type": plan.model}})
    plan = Plan(provider="p", model="flex", history=(HI,))
    assert encode(plan, stream=True, quirks=quirks).body.startswith(b'{"serviceTier":')


def test_tools_are_declared_with_schemas_that_are_objects() -> None:
    odd = ToolDeclaration(name="odd", description=" ", parameters={"anyOf": [SCHEMA]})
    strict = ToolDeclaration(name="strict", strict=True)
    found = body(declarations=(LOOK, odd, strict))["toolConfig"]
    closed = {"json": EMPTY["json"] | {"additionalProperties": False}}
    assert found == {
        "tools": [
            SPEC,
            {"toolSpec": {"name": "odd", "inputSchema": {"json": SCHEMA}}},
            {"toolSpec": {"name": "strict", "inputSchema": closed, "strict": True}},
        ]
    }


def test_schemas_for_nova_have_only_the_keywords_that_it_accepts() -> None:
    """pydantic/pydantic-ai#1623 and BerriAI/litellm#10062: others are refused at the top."""
    schema = {"type": "object", "properties": {"a": SCHEMA}, "required": ["a"]}
    more = {"$schema": "x", "$id": "y", "title": "T", "additionalProperties": False}
    tool = ToolDeclaration(name="f", parameters={**more, **schema})
    for quirks, sent in ((FAMILIES["amazon.nova"], schema), (PLAIN, {**more, **schema})):
        [found] = body(declarations=(tool,), quirks=quirks)["toolConfig"]["tools"]
        assert found["toolSpec"]["inputSchema"] == {"json": sent}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (ToolChoice(), None),
        (ToolChoice("required"), {"any": {}}),
        (ToolChoice("function", "look"), {"tool": {"name": "look"}}),
    ],
)
def test_tool_choice_is_sent_unless_it_is_the_default(choice: ToolChoice, expected: Any) -> None:
    found = body(declarations=(LOOK, WAIT), tool_choice=choice)["toolConfig"]
    assert found.get("toolChoice") == expected
    assert len(found["tools"]) == 2


def test_choice_none_leaves_the_tools_out() -> None:
    assert "toolConfig" not in body(declarations=(LOOK,), tool_choice=ToolChoice("none"))


def test_a_history_with_calls_keeps_its_tools_and_an_instruction_forbids_calls() -> None:
    found = body(HI, CALL, ANSWER, declarations=(LOOK,), tool_choice=ToolChoice("none"))
    assert found["toolConfig"] == {"tools": [SPEC]}
    assert found["system"] == [{"text": "Answer without calling any tool."}]


def test_tools_called_earlier_are_declared() -> None:
    again = ToolCallStep("b", "wait", "{}")
    answers = (ANSWER, ToolResultStep("b", (TextPart("2"),), "wait"))
    found = body(
        HI,
        CALL,
        again,
        *answers,
        ToolCallStep("c", "look", "{}"),
        ToolResultStep("c", (TextPart("3"),)),
    )
    names = [tool["toolSpec"]["name"] for tool in found["toolConfig"]["tools"]]
    assert names == ["look", "wait"]
    assert found["system"] == [{"text": "Answer without calling any tool."}]


def test_calls_are_not_forbidden_where_tools_are_offered() -> None:
    assert "system" not in body(HI, CALL, ANSWER, declarations=(LOOK,))


def test_native_search_is_declared_where_the_model_has_it() -> None:
    search = ({"type": "web_search"},)
    quirks = BedrockQuirks(web_search="nova_grounding")
    found = body(HI, CALL, ANSWER, native_tools=search, quirks=quirks)
    assert found["toolConfig"]["tools"] == [{"systemTool": {"name": "nova_grounding"}}]
    assert "system" not in found
    assert "toolConfig" not in body(native_tools=search)


@pytest.mark.parametrize(
    ("fields", "is_said"),
    [
        ({"declarations": (LOOK,)}, True),
        ({}, False),
        ({"declarations": (LOOK,), "tool_choice": ToolChoice("required")}, False),
        ({"declarations": (LOOK,), "quirks": PLAIN}, False),
        ({"declarations": (LOOK,), "parameters": {"parallel_tool_calls": True}}, False),
    ],
)
def test_single_calls_are_requested_of_models_that_support_it(fields: Body, is_said: bool) -> None:
    quirks = BedrockQuirks(parallel_switch=True)
    given = {"quirks": quirks, "parameters": {"parallel_tool_calls": False}} | fields
    choice = {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}
    assert extra(**given) == (choice if is_said else {})


@table(
    ("quirks", "effort", "expected"),
    [
        (PLAIN, "high", {}),
        (BUDGET, None, {}),
        (BUDGET, "2048", {"thinking": {"type": "enabled", "budget_tokens": 2048}}),
        (BUDGET, "unheard", {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
        (BUDGET, "none", {"thinking": {"type": "disabled"}}),
        (ADAPTIVE, "max", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}),
        (ADAPTIVE, "none", {"thinking": {"type": "disabled"}}),
        (CONFIG, "low", {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "low"}}),
        (CONFIG, "none", {"reasoningConfig": {"type": "disabled"}}),
        (BedrockQuirks(thinking="effort"), "low", {"reasoning_effort": "low"}),
    ],
)
def test_effort_has_the_models_form(
    quirks: BedrockQuirks, effort: str | None, expected: Body
) -> None:
    assert extra(quirks=quirks, effort=effort) == expected


def test_adaptive_reasoning_is_shown_where_it_must_be_requested() -> None:
    quirks = BedrockQuirks(thinking="adaptive", display="summarized")
    found = extra(quirks=quirks, effort="low")
    assert found["thinking"] == {"type": "adaptive", "display": "summarized"}


@pytest.mark.parametrize("quirks", [BUDGET, ADAPTIVE])
@pytest.mark.parametrize("choice", [ToolChoice("required"), ToolChoice("function", "look")])
def test_a_forced_call_disables_thinking(quirks: BedrockQuirks, choice: ToolChoice) -> None:
    found = extra(quirks=quirks, effort="high", declarations=(LOOK,), tool_choice=choice)
    assert found == {"thinking": {"type": "disabled"}}


@pytest.mark.parametrize(
    ("limit", "budget", "most"),
    [
        (None, 16_384, 24_576),
        (100_000, 16_384, 100_000),
        (9_000, 7_976, 9_000),
        (2_048, 1_024, 2_048),
    ],
)
def test_a_budget_leaves_room_for_the_answer(limit: int | None, budget: int, most: int) -> None:
    parameters = {} if limit is None else {"max_output_tokens": limit}
    found = body(quirks=BUDGET, effort="16384", parameters=parameters)
    thinking = found["additionalModelRequestFields"]["thinking"]
    assert thinking["budget_tokens"] == budget
    assert found["inferenceConfig"] == {"maxTokens": most}


def test_a_limit_without_room_disables_thinking() -> None:
    found = extra(quirks=BUDGET, effort="16384", parameters={"max_output_tokens": 2047})
    assert found == {"thinking": {"type": "disabled"}}


@pytest.mark.parametrize(
    ("steps", "thinks"),
    [
        ((CALL, ANSWER), False),
        ((THOUGHT, CALL, ANSWER), True),
        (
            (
                THOUGHT,
                CALL,
                ANSWER,
                ToolCallStep("b", "look", "{}"),
                ToolResultStep("b", (TextPart("2"),)),
            ),
            True,
        ),
        (
            (
                CALL,
                ANSWER,
                THOUGHT,
                ToolCallStep("b", "look", "{}"),
                ToolResultStep("b", (TextPart("2"),)),
            ),
            False,
        ),
        ((CALL, ANSWER, MessageStep("assistant", (TextPart("ok"),)), HI), True),
    ],
)
def test_a_turn_that_began_without_reasoning_resumes_without_thinking(
    steps: tuple[Step, ...], thinks: bool
) -> None:
    found = extra(HI, *steps, quirks=BUDGET, effort="2048")
    assert (found["thinking"]["type"] == "enabled") == thinks
    adaptive = extra(HI, *steps, quirks=ADAPTIVE, effort="low")
    assert adaptive["thinking"] == {"type": "adaptive"}


def test_parameters_have_converses_names() -> None:
    parameters = {"max_output_tokens": 9, "temperature": 0.5, "top_p": 0.25}
    found = body(parameters=parameters)["inferenceConfig"]
    assert found == {"maxTokens": 9, "temperature": 0.5, "topP": 0.25}


def test_temperature_is_clamped_to_one() -> None:
    assert body(parameters={"temperature": 1.7})["inferenceConfig"] == {"temperature": 1}


@pytest.mark.parametrize(
    ("sampling", "given", "expected"),
    [
        ("one", {"temperature": 0.5, "top_p": 0.25}, {"temperature": 0.5}),
        ("one", {"top_p": 0.25}, {"topP": 0.25}),
        ("none", {"temperature": 0.5, "top_p": 0.25}, None),
    ],
)
def test_some_models_accept_fewer_sampling_parameters(
    sampling: Any, given: Body, expected: Body | None
) -> None:
    found = body(parameters=given, quirks=BedrockQuirks(sampling=sampling))
    assert found.get("inferenceConfig") == expected


@pytest.mark.parametrize(
    ("quirks", "effort", "expected"),
    [
        (BUDGET, "low", {"maxTokens": 9000}),
        (ADAPTIVE, "low", {"maxTokens": 9000}),
        (CONFIG, "low", {"maxTokens": 9000}),
        (CONFIG, "high", None),
        (BUDGET, "none", {"maxTokens": 9000, "temperature": 0.5}),
    ],
)
def test_thinking_leaves_out_sampling_parameters(
    quirks: BedrockQuirks, effort: str, expected: Body | None
) -> None:
    parameters = {"max_output_tokens": 9000, "temperature": 0.5}
    found = body(quirks=quirks, effort=effort, parameters=parameters)
    assert found.get("inferenceConfig") == expected


@pytest.mark.parametrize(("tier", "said"), [("flex", True), ("auto", False), (None, False)])
def test_a_service_tier_is_sent_if_it_exists(tier: str | None, said: bool) -> None:
    found = body(parameters={"service_tier": tier})
    assert found.get("serviceTier") == ({"type": tier} if said else None)


# --- the shape of the answer ----------------------------------------------------------------------

SHAPED = OutputContract(
    requested="json_schema", asked="json_schema", name="n", description="d", schema=SCHEMA
)


def test_structured_output_is_requested_natively_where_supported() -> None:
    found = body(contract=SHAPED, quirks=BedrockQuirks(native_format=True))
    json_schema = found["outputConfig"]["textFormat"]["structure"]["jsonSchema"]
    assert json_schema | {"schema": ""} == {"name": "n", "description": "d", "schema": ""}
    assert json.loads(json_schema["schema"]) == SCHEMA | {"additionalProperties": False}
    assert "system" not in found


def test_a_schema_without_a_name_gets_one() -> None:
    contract = OutputContract(requested="json_schema", asked="json_schema", schema={})
    found = body(contract=contract, quirks=BedrockQuirks(native_format=True))
    json_schema = found["outputConfig"]["textFormat"]["structure"]["jsonSchema"]
    assert json_schema == {"name": "answer", "schema": "{}"}


@pytest.mark.parametrize(
    "contract",
    [SHAPED, OutputContract(requested="json_object", asked="json_object")],
    ids=["schema", "object"],
)
def test_structured_output_is_otherwise_an_instruction(contract: OutputContract) -> None:
    found = body(contract=contract, instructions="Be brief.")
    assert "outputConfig" not in found
    assert found["system"][0] == {"text": "Be brief."}
    assert found["system"][1]["text"].startswith("Answer with one")


def test_blank_instructions_are_left_out() -> None:
    assert "system" not in body(instructions=" ")


# --- families -------------------------------------------------------------------------------------


def test_stop_sequences_and_top_k_have_their_own_places() -> None:
    found = body(parameters={"stop": ("END",), "top_k": 40})
    assert found["inferenceConfig"] == {"stopSequences": ["END"]}
    assert found["additionalModelRequestFields"] == {"top_k": 40}


def test_top_k_is_left_out_where_sampling_is_refused() -> None:
    given = {"top_k": 40}
    assert extra(parameters=given, quirks=BedrockQuirks(sampling="none")) == {}
    assert "top_k" not in extra(quirks=BUDGET, effort="16384", parameters=given)
