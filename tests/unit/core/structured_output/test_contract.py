"""Output contracts: the instruction, the validation, and responses that are not validated."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from antiphon.core.items import FunctionCall, Item, Message, OutputText, ReasoningItem, RefusalText
from antiphon.core.response import Response, ResponseStatus
from antiphon.core.structured_output.contract import OutputContract, check_schema
from antiphon.errors import InvalidOutputFormat

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city"],
}
STRICT = OutputContract(
    requested="json_schema", asked="json_schema", name="trip", schema=SCHEMA, strict=True
)

NOT_JSON = "The output is not valid JSON, which `text.format` requires."


def message(text: str) -> Message:
    return Message(id="msg_1", status="completed", content=(OutputText(text),))


def response(*output: Item, status: ResponseStatus = "completed") -> Response:
    return Response(id="resp_1", created_at=0, model="m", status=status, output=output)


def problem(contract: OutputContract, *output: Item) -> str | None:
    try:
        contract.check(response(*output), provider="somebody")
    except InvalidOutputFormat as error:
        return error.message
    return None


def test_an_answer_that_fits_the_schema_passes() -> None:
    assert problem(STRICT, message('{"city": "Ulm", "days": 2}')) is None


def test_an_answer_that_is_not_json_is_refused() -> None:
    assert problem(STRICT, message("Ulm, for two days")) == NOT_JSON


def test_an_empty_answer_is_not_json() -> None:
    assert problem(STRICT) == NOT_JSON
    assert problem(STRICT, ReasoningItem(id="rs_1", status="completed")) is not None


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"city": "Ulm", "days": "two"}', "days (type)"),
        ('{"days": 2}', "the top level (required)"),
    ],
)
def test_a_schema_violation_names_the_path_but_does_not_quote_the_answer(
    text: str, place: str
) -> None:
    found = problem(STRICT, message(text))
    assert found is not None
    assert place in found
    assert "two" not in found


def test_the_error_names_provider_model_and_response() -> None:
    with pytest.raises(InvalidOutputFormat) as caught:
        STRICT.check(response(message("nope")), provider="somebody")
    assert caught.value.code == "bridge.response.invalid_output_format"
    assert (caught.value.provider, caught.value.model, caught.value.response_id) == (
        "somebody",
        "m",
        "resp_1",
    )


def test_a_schema_that_is_not_strict_requires_only_json() -> None:
    loose = OutputContract(
        requested="json_schema", asked="json_schema", name="trip", schema=SCHEMA, strict=False
    )
    assert problem(loose, message('{"days": "two"}')) is None
    assert problem(loose, message("{")) is not None


def test_json_object_requires_only_an_object() -> None:
    contract = OutputContract(requested="json_object", asked="json_object")
    assert problem(contract, message('{"anything": 1}')) is None
    assert problem(contract, message("anything")) is not None
    assert problem(contract, message("[1]")) is not None


def test_plain_text_has_no_contract() -> None:
    assert problem(OutputContract(), message("anything")) is None


def test_a_turn_that_calls_a_tool_is_not_checked() -> None:
    call = FunctionCall(id="fc_1", call_id="c", name="f", arguments="{}", status="completed")
    assert problem(STRICT, call) is None
    assert problem(STRICT, message("Let me look."), call) is None


def test_a_refusal_is_not_checked() -> None:
    refusal = Message(id="msg_1", status="completed", content=(RefusalText("No."),))
    assert problem(STRICT, refusal) is None


@pytest.mark.parametrize("status", ["incomplete", "failed"])
def test_a_truncated_or_failed_answer_is_not_checked(status: ResponseStatus) -> None:
    output: Sequence[Item] = (message('{"city": "U'),)
    STRICT.check(response(*output, status=status), provider="somebody")
    assert not STRICT.degraded


def test_a_native_contract_needs_no_instruction() -> None:
    assert STRICT.instruction() is None


def test_a_degraded_schema_is_part_of_the_instruction() -> None:
    degraded = OutputContract(
        requested="json_schema",
        asked="json_object",
        name="trip",
        description="where to go",
        schema=SCHEMA,
    )
    told = degraded.instruction()
    assert told is not None
    assert "'trip' (where to go)" in told
    assert '"required":["city"]' in told


def test_a_degraded_json_object_has_a_short_instruction() -> None:
    told = OutputContract(requested="json_object", asked="text").instruction()
    assert told is not None
    assert "valid JSON" in told


def test_the_instruction_of_an_answer_tool_has_its_name_and_not_the_schema() -> None:
    told = OutputContract(requested="json_schema", tool="answer_trip", schema=SCHEMA).instruction()
    assert told is not None
    assert "'answer_trip'" in told
    assert "days" not in told


def test_a_deeply_nested_answer_is_rejected_without_a_crash() -> None:
    assert problem(STRICT, message("[" * 100_000)) == NOT_JSON
    deep = problem(STRICT, message("[" * 900 + "]" * 900))
    assert deep == "The output does not match the schema of `text.format` at the top level (depth)."


def test_all_violations_are_found_with_the_validators_messages() -> None:
    found = list(STRICT.find_violations('{"city": 7, "days": "two"}'))
    assert [each.path for each in found] == [("city",), ("days",)]
    assert found[1].message == '"two" is not of type "integer"'
    assert STRICT.is_valid('{"city": "Ulm"}')


def test_an_invalid_schema_is_rejected_with_a_reason() -> None:
    assert check_schema(SCHEMA) is None
    assert "objekt" in (check_schema({"type": "objekt"}) or "")


def test_a_remote_reference_in_a_schema_is_never_fetched() -> None:
    found = check_schema({"$ref": "http://127.0.0.1:9/schema.json"})
    assert found is not None
    assert "not allowed" in found
