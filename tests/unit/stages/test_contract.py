"""Contract stage: a completed response that breaks the requested format becomes a failed one."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.core.deltas import Text
from antiphon.core.events import Completed, Event, Failed
from antiphon.core.structured_output.contract import OutputContract
from antiphon.errors import InvalidOutputFormat
from antiphon.stages.builtin import ContractStage
from antiphon.stages.pipeline import Batch
from tests.support.machines import machine

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}
CITY = OutputContract(requested="json_schema", asked="json_schema", name="trip", schema=SCHEMA)


def answer(text: str, reason: str = "stop") -> list[Event]:
    subject = machine()
    return [*subject.start(), *subject.feed(Text(text)), *subject.finish(reason)]


def check_contract(contract: OutputContract, batch: Batch) -> Batch:
    return ContractStage(contract, provider="up").on_terminal(batch)


@pytest.mark.parametrize(
    ("contract", "text"),
    [(OutputContract(), "any text"), (CITY, '{"city": "Ulm"}')],
    ids=["text", "schema"],
)
def test_an_answer_that_keeps_the_contract_is_unchanged(
    contract: OutputContract, text: str
) -> None:
    batch = Batch(answer(text))
    assert check_contract(contract, batch) is batch


@pytest.mark.parametrize("text", ["no JSON", '{"town": "Ulm"}'])
def test_an_answer_that_breaks_the_contract_fails(text: str) -> None:
    batch = Batch(answer(text))
    result = check_contract(CITY, batch)
    assert result.events[:-1] == batch.events[:-1]
    was, now = batch.events[-1], result.events[-1]
    assert isinstance(was, Completed)
    assert isinstance(now, Failed)
    assert now.response.output == was.response.output
    assert now.response.error is not None
    assert now.response.error.code == "server_error"
    assert now.response.error.message.endswith(f"({InvalidOutputFormat.code})")


def test_neither_a_refusal_nor_a_truncated_answer_is_checked() -> None:
    refused = Batch(answer("I will not."), refused=True)
    assert check_contract(CITY, refused) is refused
    truncated = Batch(answer('{"ci', "length"))
    assert check_contract(CITY, truncated) is truncated
