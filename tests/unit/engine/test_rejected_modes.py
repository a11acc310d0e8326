"""Rejected modes: recognised in a fault, avoided by a new plan, remembered for a while."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from antiphon.core.faults.classify import classify
from antiphon.core.faults.fault import ProviderFault
from antiphon.core.plan.plan import Plan
from antiphon.core.plan.planner import Modes, PlanInputs, Planner
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.tools.declaration import ToolChoice
from antiphon.engine.rejections import (
    REMEMBERED_S,
    ModeFallback,
    ModeRejection,
    RejectedModes,
    find_named_mode,
    guess_mode,
    says_nothing,
)
from antiphon.engine.routing import Target
from tests.support.limited_servers import VALIDATION_ERROR
from tests.support.outbound_requests import configured
from tests.support.request_body import parse_body
from tests.support.tables import table

TARGET = Target(configured("chat"), "m")
FORCED = frozenset({"required", "function"})
FORM = {"type": "json_schema", "name": "place", "schema": {"type": "object"}}
TEXT = Plan(provider="p", model="m")
SCHEMA = Plan(
    provider="p", model="m", contract=OutputContract(requested="json_schema", asked="json_schema")
)
REQUIRED = Plan(provider="p", model="m", tool_choice=ToolChoice("required"))
ANSWER_TOOL = Plan(
    provider="p",
    model="m",
    contract=OutputContract(requested="json_schema", tool="answer"),
    tool_choice=ToolChoice("function", "answer"),
)
SILENT = classify(500, {}, b'{"error":{"message":""}}')


def refusal(message: str, status: int = 400, param: str | None = None) -> ProviderFault:
    return classify(
        status, {}, json.dumps({"error": {"message": message, "param": param}}).encode()
    )


@table(
    "fault",
    [
        refusal(VALIDATION_ERROR, 500),
        refusal("This response_format type is unavailable now"),
        refusal("This model does not support response format `json_schema`"),
        refusal("Unknown parameter", param="text.format.type"),
        classify(422, {}, b'{"detail":[{"loc":["body","response_format","type"],"msg":"Bad."}]}'),
    ],
)
def test_a_rejected_output_format_is_recognised(fault: ProviderFault) -> None:
    found = find_named_mode(SCHEMA, fault)
    assert found is not None
    assert (found.mode, found.without) == ("json_schema", frozenset({"json_schema"}))
    assert (found.is_lasting, found.is_guess) == (True, False)
    assert find_named_mode(TEXT, fault) is None
    assert find_named_mode(REQUIRED, fault) is None


@table(
    "fault",
    [
        refusal("tool_choice 'required' is not supported"),
        refusal("Only auto.", param="tool_choice"),
        refusal("toolChoice.any is not supported"),
        refusal("function_calling_config.mode: ANY is not supported"),
        refusal("No endpoints found that support the provided 'tool_choice' value.", 404),
    ],
)
def test_a_rejected_tool_choice_is_recognised(fault: ProviderFault) -> None:
    found = find_named_mode(REQUIRED, fault)
    assert found is not None
    assert (found.mode, found.without) == ("required", frozenset({"required"}))
    assert found.is_lasting
    assert find_named_mode(SCHEMA, fault) is None


@table("text", ["tool_choice is not supported", "tools are not supported"])
def test_a_rejected_answer_tool_is_given_up_at_once(text: str) -> None:
    found = find_named_mode(ANSWER_TOOL, refusal(text))
    assert found is not None
    assert (found.mode, found.without) == ("function", FORCED)


@table(
    ("plan", "text"),
    [
        (SCHEMA, "Invalid schema for response_format 'x': 'minLength' is not permitted"),
        (SCHEMA, "json mode cannot be combined with tool/function calling"),
        (REQUIRED, "tool_choice 'required' is not allowed while thinking is enabled; thinking"),
    ],
)
def test_a_complaint_about_this_request_is_not_lasting(plan: Plan, text: str) -> None:
    found = find_named_mode(plan, refusal(text))
    assert found is not None
    assert not found.is_lasting


@table("status", [401, 429, 502, 503])
def test_other_faults_reject_no_mode(status: int) -> None:
    assert find_named_mode(SCHEMA, refusal("response_format", status)) is None


@table(
    ("fault", "expected"),
    [
        (SILENT, True),
        (classify(500, {}, b""), True),
        (classify(500, {}, b"Internal Server Error"), True),
        (classify(500, {}, b"<html>oops</html>"), True),
        (refusal("AssertionError", 500), True),
        (refusal("CUDA error: out of memory", 500), False),
        (refusal("", 503), False),
        (refusal("", 400), False),
    ],
)
def test_a_500_without_a_reason_is_recognised(fault: ProviderFault, expected: bool) -> None:
    assert says_nothing(fault) is expected


def test_a_guess_names_the_forced_call_or_else_the_schema() -> None:
    for plan, mode in ((REQUIRED, "required"), (ANSWER_TOOL, "function"), (SCHEMA, "json_schema")):
        guess = guess_mode(plan)
        assert guess is not None
        assert (guess.mode, guess.without, guess.is_guess) == (mode, FORCED | {mode}, True)
    assert guess_mode(TEXT) is None


# One request


class Subject:
    """One request with a JSON schema, which is planned again for each rejection."""

    def __init__(self, rejected: RejectedModes) -> None:
        body = {"model": "m", "input": "Hello", "text": {"format": FORM}}
        self._planner = Planner(parse_body(json.dumps(body).encode()), PlanInputs())
        self.modes = ModeFallback(rejected, lambda: 0.0)
        self.avoided: Modes = frozenset()

    @property
    def plan(self) -> Plan:
        return self._planner.plan(TARGET, self.avoided)

    def find(self, fault: ProviderFault) -> ModeRejection | None:
        return self.modes.find(TARGET, self.plan, fault)

    def avoid(self, rejection: ModeRejection) -> None:
        self.avoided |= self.modes.avoid(TARGET, rejection)


def test_a_mode_is_remembered_only_after_the_request_without_it_has_succeeded() -> None:
    rejected = RejectedModes()
    subject = Subject(rejected)
    found = subject.find(refusal(VALIDATION_ERROR, 500))
    assert found is not None
    subject.avoid(found)
    assert subject.plan.contract.tool is not None
    assert rejected.known == {}
    subject.modes.remember(TARGET)
    assert rejected.of(TARGET.name, 0.0) == {"json_schema"}


def test_a_guess_needs_the_same_fault_twice_and_is_made_once() -> None:
    subject = Subject(RejectedModes())
    assert subject.find(SILENT) is None
    assert subject.find(refusal("busy", 503)) is None
    assert subject.find(SILENT) is None
    guess = subject.find(SILENT)
    assert guess is not None
    subject.avoid(guess)
    contract = subject.plan.contract
    assert (contract.asked, contract.tool) == ("json_object", None)
    assert subject.find(SILENT) is None


@given(st.lists(st.sampled_from(["response_format", "tool_choice"]), max_size=12))
def test_any_sequence_of_rejections_ends_with_a_plain_request(names: list[str]) -> None:
    subject = Subject(RejectedModes())
    changes = 0
    for name in (*names, *["response_format", "tool_choice"] * 4):
        found = subject.find(refusal(f"{name} is not supported"))
        if found is not None:
            subject.avoid(found)
            changes += 1
    plan = subject.plan
    assert (plan.contract.asked, plan.tool_choice.mode, plan.contract.tool) == (
        "text",
        "auto",
        None,
    )
    assert plan.contract.requested == "json_schema"
    assert changes <= 3


def test_a_request_that_is_planned_again_avoids_what_others_found_meanwhile() -> None:
    rejected = RejectedModes()
    subject = Subject(rejected)
    found = subject.find(refusal("response_format is not supported"))
    assert found is not None
    rejected.learn(TARGET.name, "function", 0.0)
    subject.avoid(found)
    assert subject.avoided == {"json_schema", "function"}


# The registry


def test_a_mode_is_forgotten_after_a_while() -> None:
    rejected = RejectedModes()
    rejected.learn(("p", "m"), "required", 10.0)
    rejected.learn(("p", "m"), "function", 20.0)
    assert rejected.of(("p", "m"), 10.0) == FORCED
    assert rejected.of(("p", "m"), 10.0 + REMEMBERED_S) == {"function"}
    assert rejected.of(("p", "other"), 10.0) == frozenset()


def test_the_registry_is_bounded() -> None:
    rejected = RejectedModes()
    for number in range(1000):
        rejected.learn(("p", str(number)), "required", 0.0)
    assert len(rejected.known) == 256
    assert rejected.of(("p", "999"), 0.0) == {"required"}
