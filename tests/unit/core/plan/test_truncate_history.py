"""`truncation: auto`: which turns are left out, and which never are."""

from __future__ import annotations

from msgspec import structs

from antiphon.core.capabilities import Capabilities
from antiphon.core.history.steps import (
    ImagePart,
    MessageStep,
    ReasoningStep,
    Step,
    TextPart,
    ToolCallStep,
    ToolResultStep,
)
from antiphon.core.plan.plan import Plan
from antiphon.core.plan.truncate_history import truncate_history
from tests.support.plans import noted
from tests.support.tables import table

WINDOW = Capabilities(context_window=4_000, max_output_tokens=1_000, model_name="p/m")
"""3,000 tokens are left for the input, which are estimated as 9,000 bytes."""
FULL = "x" * 8_000


def user(text: str) -> MessageStep:
    return MessageStep("user", (TextPart(text),))


def assistant(text: str) -> MessageStep:
    return MessageStep("assistant", (TextPart(text),))


def round_of(number: int, text: str) -> list[Step]:
    call_id = f"call_{number}"
    return [
        ReasoningStep("Hm."),
        ToolCallStep(call_id, "look", "{}"),
        ToolCallStep(f"{call_id}b", "look", "{}"),
        ToolResultStep(call_id, (TextPart(text),)),
        ToolResultStep(f"{call_id}b", (TextPart("nothing"),)),
    ]


def plan_of(*steps: Step) -> Plan:
    return Plan(provider="p", model="m", history=steps)


def kept(plan: Plan, capabilities: Capabilities = WINDOW) -> tuple[Step, ...]:
    return truncate_history(plan, capabilities, []).history


def test_a_history_that_fits_stays_as_it_is() -> None:
    plan = plan_of(user("Hello"), assistant(FULL), user("And?"))
    assert truncate_history(plan, WINDOW, []) is plan


def test_the_oldest_exchanges_are_left_out_and_counted() -> None:
    last = (user("3"), assistant(FULL[:2_000]))
    plan = plan_of(user("1"), assistant(FULL), user("2"), *round_of(1, FULL), *last)
    truncated, [found] = noted(truncate_history, plan, WINDOW)
    assert truncated.history == last
    assert (found.code, found.param) == ("history.truncated", "input")
    assert found.message == (
        "The input exceeds the context window of p/m (4000 tokens);"
        " its oldest turns were left out: 2."
    )


def test_no_more_is_left_out_than_necessary() -> None:
    plan = plan_of(user(FULL), assistant("1"), user("2"), assistant(FULL[:2_000]), user("3"))
    assert kept(plan) == (user("2"), assistant(FULL[:2_000]), user("3"))


def test_rounds_of_the_last_exchange_are_left_out_but_not_its_question() -> None:
    rounds = [round_of(number, FULL) for number in range(3)]
    plan = plan_of(user("Do it."), user("Now."), *rounds[0], *rounds[1], *rounds[2])
    assert kept(plan) == (user("Do it."), user("Now."), *rounds[2])


def test_the_last_round_stays_even_if_it_does_not_fit() -> None:
    last = round_of(1, FULL * 2)
    plan = plan_of(user("Do it."), *last)
    assert truncate_history(plan, WINDOW, []) is plan


def test_system_messages_stay_where_they_are() -> None:
    system, developer = MessageStep("system", (TextPart("S"),)), MessageStep("developer", ())
    plan = plan_of(system, user(FULL), developer, assistant(FULL), user("2"))
    assert kept(plan) == (system, developer, user("2"))


def test_an_empty_history_is_not_truncated() -> None:
    plan = structs.replace(plan_of(), instructions=FULL * 2)
    assert truncate_history(plan, WINDOW, []) is plan


def test_an_answer_before_any_question_belongs_to_the_first_exchange() -> None:
    plan = plan_of(assistant(FULL), user("1"), assistant("a"), user(FULL))
    assert kept(plan) == (user("1"), assistant("a"), user(FULL))


def test_images_count() -> None:
    images = MessageStep("user", tuple(ImagePart("data:,") for _ in range(2)))
    plan = plan_of(images, assistant("a"), user("2"))
    assert kept(plan) == (user("2"),)


@table(
    ("limit", "count"),
    [
        (None, 1),  # 1,000 tokens are reserved for the answer
        (2_000, 1),
        (100, 3),
        (4_000, 1),  # at most half of the window is reserved
    ],
)
def test_the_answer_needs_a_part_of_the_window(limit: int | None, count: int) -> None:
    plan = plan_of(user("x" * 5_600), assistant("x" * 400), user("x" * 5_400))
    parameters = {} if limit is None else {"max_output_tokens": limit}
    assert len(kept(structs.replace(plan, parameters=parameters))) == count


def test_without_a_known_limit_a_quarter_is_reserved_for_the_answer() -> None:
    unknown = structs.replace(WINDOW, max_output_tokens=None)
    plan = plan_of(user(FULL), assistant("1"), user("x" * 1_200))
    assert len(kept(plan, unknown)) == 1


@table(
    "capabilities",
    [
        structs.replace(WINDOW, context_window=None),
        structs.replace(WINDOW, parameters=frozenset({"truncation"})),
    ],
)
def test_an_unknown_window_or_a_provider_that_truncates_leaves_the_history(
    capabilities: Capabilities,
) -> None:
    plan = plan_of(user(FULL), assistant(FULL), user("2"))
    assert truncate_history(plan, capabilities, []) is plan
