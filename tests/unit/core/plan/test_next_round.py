"""The plan of a later round: the history grows, everything else stays."""

from __future__ import annotations

from typing import Any

from antiphon.core.filters.filter import FollowUp
from antiphon.core.history.capsule import Unopened
from antiphon.core.history.steps import MessageStep, Step, TextPart, ToolCallStep, ToolResultStep
from antiphon.core.plan.next_round import FinishedRound, can_take_over, plan_next_round
from antiphon.core.plan.plan import Plan
from antiphon.core.structured_output.contract import OutputContract
from antiphon.core.tools.declaration import ToolChoice
from antiphon.core.tools.identity import ToolIdentity, ToolIdentityMap
from antiphon.core.web_search.rules import SearchRules

ASKED = MessageStep("user", (TextPart("Look it up."),))
ANSWER = ToolResultStep("c1", (TextPart("found"),), "web")
TOLD: dict[str, Any] = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "A moment."}],
}


def plan(choice: ToolChoice | None = None, **more: Any) -> Plan:
    identities = ToolIdentityMap([ToolIdentity("ns__web", "web", "web_search", "ns")])
    return Plan(
        provider="p",
        model="m",
        history=(ASKED,),
        identities=identities,
        tool_choice=choice or ToolChoice(),
        **more,
    )


def after(before: Plan, *steps: Step, told: tuple[dict[str, Any], ...] = (), **more: Any) -> Plan:
    followup = FinishedRound(told, FollowUp(steps=steps, **more))
    return plan_next_round(before, followup, issuer="i", unseal=lambda _: Unopened.FOREIGN)


def test_the_history_only_grows() -> None:
    following = after(plan(), ToolCallStep("c1", "ns__web", "{}"), ANSWER, told=(TOLD,))
    assert following.history[0] == ASKED
    said, called, answered = following.history[1:]
    assert said == MessageStep("assistant", (TextPart("A moment."),))
    assert isinstance(called, ToolCallStep)
    assert isinstance(answered, ToolResultStep)


def test_calls_of_a_follow_up_get_the_clients_tool_names() -> None:
    called = after(plan(), ToolCallStep("c1", "ns__web", "{}"), ANSWER).history[1]
    assert called == ToolCallStep("c1", "web", "{}", "ns")


def test_a_tool_that_nobody_declared_keeps_its_name() -> None:
    called = after(plan(), ToolCallStep("c1", "other", "{}"), ANSWER).history[1]
    assert called == ToolCallStep("c1", "other", "{}")


def test_a_call_among_the_output_items_is_not_repeated() -> None:
    told = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
    following = after(plan(), ToolCallStep("c1", "f", "{}"), ANSWER, told=(told,))
    assert [type(step) for step in following.history] == [MessageStep, ToolCallStep, ToolResultStep]


def test_a_forced_call_is_forced_once() -> None:
    assert after(plan(ToolChoice("required")), ASKED).tool_choice == ToolChoice("auto")
    assert after(plan(ToolChoice("function", "f")), ASKED).tool_choice == ToolChoice("auto")
    assert after(plan(ToolChoice("none")), ASKED).tool_choice == ToolChoice("none")


def test_a_forced_answer_tool_stays_forced() -> None:
    contract = OutputContract(requested="json_schema", tool="answer")
    choice = ToolChoice("function", "answer")
    assert after(plan(choice, contract=contract), ASKED).tool_choice == choice


def test_a_follow_up_may_have_its_own_tool_choice() -> None:
    following = after(plan(), ASKED, tool_choice=ToolChoice("none"))
    assert following.tool_choice == ToolChoice("none")


# Another plan takes over


def test_a_plan_can_take_over_if_its_output_is_decoded_alike() -> None:
    assert can_take_over(plan(), begun=plan(search=SearchRules()))
    fewer = Plan(provider="q", model="n")
    assert can_take_over(fewer, begun=plan())


def test_a_plan_with_unknown_tools_cannot_take_over() -> None:
    assert not can_take_over(plan(), begun=Plan(provider="q", model="n"))


def test_a_plan_with_another_output_strategy_cannot_take_over() -> None:
    asked = OutputContract(requested="json_schema", asked="json_schema")
    by_tool = OutputContract(requested="json_schema", tool="answer")
    assert not can_take_over(plan(contract=by_tool), begun=plan(contract=asked))


def test_a_plan_that_adds_the_gateways_search_cannot_take_over() -> None:
    assert not can_take_over(plan(search=SearchRules()), begun=plan())


def test_a_compaction_of_this_answer_is_not_read_a_second_time() -> None:
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": "x"}
    following = after(plan(), ASKED, told=(item, TOLD))
    assert [step.role for step in following.history if isinstance(step, MessageStep)] == [
        "user",
        "assistant",
        "user",
    ]
