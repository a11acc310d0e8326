"""Request encoding: the request of each attempt, without what was rejected."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from msgspec import structs

from antiphon.core.deltas import ReasoningState
from antiphon.core.faults.classify import classify
from antiphon.core.filters.filter import FollowUp
from antiphon.core.history.capsule import Sealer
from antiphon.core.history.steps import (
    MessageStep,
    ReasoningStep,
    TextPart,
    ToolCallStep,
    ToolResultStep,
)
from antiphon.core.plan.next_round import FinishedRound
from antiphon.core.plan.plan import Outbound, Plan
from antiphon.engine.encoding import RequestEncoding
from antiphon.engine.rejections import ModeFallback, RejectedModes, RejectedParameters
from antiphon.engine.routing import Target
from tests.support.outbound_requests import configured, make_request_plan
from tests.support.plans import FixedPlanner

TARGET = Target(configured("chat"), "m")
TOP_P = classify(400, {}, b'{"error":{"message":"Unsupported parameter: top_p"}}')
TOP_P_VALUE = classify(400, {}, b'{"error":{"message":"top_p must be between 0 and 1"}}')
SEALER = Sealer(["a key"], new_nonce=bytes, now=lambda: 0, ttl_s=60)
OUTBOUND = Outbound(path="/chat/completions", body=b"{}")


def encoding(rejected: RejectedParameters | None = None, **request: Any) -> RequestEncoding:
    plan = make_request_plan(TARGET.provider, TARGET.model, **request)
    return encode_plan(plan, rejected)


def encode_plan(plan: Plan, rejected: RejectedParameters | None = None) -> RequestEncoding:
    return RequestEncoding(
        planner=FixedPlanner(plan),
        rejected=rejected or RejectedParameters(),
        unseal=partial(SEALER.open, "local"),
        stream=True,
        modes=ModeFallback(RejectedModes(), lambda: 0.0),
    )


def encode(subject: RequestEncoding) -> tuple[Plan, dict[str, Any]]:
    plan, outbound = subject.encode(subject.plan(TARGET), TARGET.provider)
    return plan, json.loads(outbound.body)


# The encoded request


def test_the_request_is_encoded_as_planned() -> None:
    plan, body = encode(encoding(top_p=0.5, input="Hello"))
    assert plan.diagnostics == ()
    assert (body["stream"], body["top_p"]) == (True, 0.5)
    assert body["messages"][-1] == {"role": "user", "content": "Hello"}


def test_the_text_of_a_large_request_is_measured_where_it_is_encoded() -> None:
    """In the worker thread: at the end of the answer it would delay other requests."""
    plan = make_request_plan(TARGET.provider, TARGET.model, input="é" * 5)
    assert encode(encode_plan(plan))[0].input_bytes is None
    large = structs.replace(plan, is_large=True)
    assert encode(encode_plan(large))[0].input_bytes == 10


def test_only_an_invalid_request_names_a_parameter() -> None:
    subject = encoding(top_p=0.5)
    _, outbound = subject.encode(subject.plan(TARGET), TARGET.provider)
    assert subject.find_parameter(TARGET, TOP_P, outbound) == "top_p"
    overloaded = classify(503, {}, b'{"error":{"message":"top_p"}}')
    assert subject.find_parameter(TARGET, overloaded, outbound) is None


def test_a_rejected_parameter_is_left_out_of_every_later_request() -> None:
    rejected = RejectedParameters()
    subject = encoding(rejected, top_p=0.5)
    subject.leave_out_parameter("top_p", TOP_P, TARGET)
    for later in (subject, encoding(rejected, top_p=0.5)):
        plan, body = encode(later)
        assert "top_p" not in body
        assert [each.code for each in plan.diagnostics] == ["param.refused"]


def test_a_rejected_value_is_left_out_of_this_request_alone() -> None:
    rejected = RejectedParameters()
    subject = encoding(rejected, top_p=0.5)
    subject.leave_out_parameter("top_p", TOP_P_VALUE, TARGET)
    assert "top_p" not in encode(subject)[1]
    assert "top_p" in encode(encoding(rejected, top_p=0.5))[1]


def test_rejected_reasoning_state_is_left_out_with_a_diagnostic() -> None:
    subject = encoding()
    subject.leave_out_state()
    plan, _ = encode(subject)
    [diagnostic] = plan.diagnostics
    assert diagnostic.code == "capsule.unused"
    assert diagnostic.message.startswith("it rejected the reasoning state")


def test_rejected_state_of_every_kind_is_left_out() -> None:
    native = {"type": "compaction", "encrypted_content": "gAAA"}
    kept = MessageStep("user", (TextPart("Hello?"),))
    history = (
        kept,
        MessageStep("user", (TextPart("[note]"),), native=native),
        ReasoningStep(text="Hm.", states=(ReasoningState("signed", "x"),)),
    )
    planned = make_request_plan(TARGET.provider, TARGET.model)
    subject = encode_plan(structs.replace(planned, history=history))
    subject.leave_out_state()
    plan, _ = encode(subject)
    note = MessageStep("user", (TextPart("[note]"),))
    assert plan.history == (kept, note, ReasoningStep(text="Hm."))


def test_a_finished_round_is_part_of_the_next_request() -> None:
    subject = encoding(input="Hello")
    message = {"type": "message", "role": "assistant", "content": "Let me look."}
    steps = (
        ToolCallStep("call_1", "web_search", '{"query": "rain"}'),
        ToolResultStep("call_1", (TextPart("It rains."),), name="web_search"),
        MessageStep("user", (TextPart("Go on."),)),
    )
    subject.add_round(FinishedRound((message,), FollowUp(steps=steps)))
    _, body = encode(subject)
    assert [each["role"] for each in body["messages"]] == ["user", "assistant", "tool", "user"]
    assert body["messages"][1]["content"] == "Let me look."


def test_a_target_takes_over_only_with_the_same_output_contract() -> None:
    subject = encoding()
    plan = subject.plan(TARGET)
    assert subject.can_take_over(TARGET, plan)
    contract = structs.replace(plan.contract, requested="json_object")
    assert not subject.can_take_over(TARGET, structs.replace(plan, contract=contract))
