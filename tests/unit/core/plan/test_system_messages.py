"""System messages: each stays behind what came before it, in a role that the provider accepts."""

from __future__ import annotations

from antiphon.core.capabilities import Capabilities
from antiphon.core.history.steps import (
    MessageStep,
    ReasoningStep,
    RefusalPart,
    Step,
    TextPart,
    ToolCallStep,
    ToolResultStep,
)
from antiphon.core.plan.system_messages import place_system_messages
from tests.support.dialect_samples.history import message_step
from tests.support.plans import noted
from tests.support.tables import table

FIRST = Capabilities(system_messages="first", model_name="p/m")
AFTER_USER = Capabilities(system_messages="after_user", model_name="p/m")
NEW = message_step("developer", "new")
TAGGED = message_step("user", "<system>\nnew\n</system>")
ANSWERS: tuple[Step, ...] = (
    message_step("assistant", "a"),
    ReasoningStep("a"),
    ToolCallStep("c", "look", "{}"),
    ToolResultStep("c", (TextPart("a"),)),
)


@table("answer", ANSWERS)
def test_a_system_message_after_an_answer_becomes_a_user_message(answer: Step) -> None:
    for can in (FIRST, AFTER_USER):
        (_, steps), [diagnostic] = noted(place_system_messages, None, (answer, NEW), can)
        assert steps == (answer, TAGGED)
        assert (diagnostic.code, diagnostic.subject) == ("history.role.replaced", "system")
        assert "1 system or developer messages" in diagnostic.message


def test_a_system_message_after_a_user_message_depends_on_the_provider() -> None:
    user = message_step("user", "u")
    assert noted(place_system_messages, "i", (user, NEW), AFTER_USER) == (("i", (user, NEW)), [])
    (_, steps), diagnostics = noted(place_system_messages, "i", (user, NEW), FIRST)
    assert (steps, len(diagnostics)) == ((user, TAGGED), 1)


def test_a_second_system_message_after_an_answer_may_keep_its_role() -> None:
    answer = message_step("assistant", "a")
    (_, steps), _ = noted(place_system_messages, None, (answer, NEW, NEW), AFTER_USER)
    assert steps == (answer, TAGGED, NEW)


@table(("instructions", "text"), [(None, "new\n\nx\ny"), ("i", "i\n\nnew\n\nx\ny")])
def test_leading_system_messages_join_the_instructions(instructions: str | None, text: str) -> None:
    user = message_step("user", "u")
    second = MessageStep("system", (TextPart("x"), RefusalPart("y")))
    placed = noted(place_system_messages, instructions, (NEW, second, user), FIRST)
    assert placed == ((text, (user,)), [])


def test_leading_system_messages_without_text_add_nothing() -> None:
    empty = MessageStep("system", ())
    assert noted(place_system_messages, None, (empty,), FIRST) == ((None, ()), [])


def test_a_history_without_system_messages_stays_as_it_is() -> None:
    steps = (message_step("user", "u"), message_step("assistant", "a"))
    for can in (FIRST, AFTER_USER):
        assert noted(place_system_messages, "i", steps, can) == (("i", steps), [])
