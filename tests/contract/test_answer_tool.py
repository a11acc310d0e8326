"""The answer tool in every dialect: valid requests, first and repaired."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from msgspec import structs

from antiphon.core.history.capsule import Sealer
from antiphon.core.plan.next_round import FinishedRound, plan_next_round
from antiphon.core.plan.plan import Plan
from antiphon.core.stream.source import Source
from antiphon.core.structured_output.filter import StructuredOutputFilter
from antiphon.core.translation.next_step import Round
from antiphon.core.translation.translation import Translation
from tests.support.machines import documents, machine
from tests.support.plans import make_plan
from tests.support.request_body import parse_body
from tests.support.scripted_providers.scripted_provider import ScriptedProvider
from tests.support.scripted_providers.session import Call, Turn
from tests.support.scripted_providers.table import SCRIPTED_PROVIDERS
from tests.support.tables import table

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
ARRAY: dict[str, Any] = {"type": "array", "items": {"type": "integer"}}
LOOK: dict[str, Any] = {
    "type": "function",
    "name": "look",
    "parameters": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]},
}
ULM = '{"city":"Ulm","days":2}'
FORCED = ("tool_choice", "toolChoice", "toolConfig")

every_scripted_provider = table("scripted", SCRIPTED_PROVIDERS.values(), ids=SCRIPTED_PROVIDERS)


def planned(
    scripted: ScriptedProvider, schema: dict[str, Any], tools: list[dict[str, Any]]
) -> Plan:
    """A plan for a model that can be forced to call a tool, and cannot be asked for JSON."""
    form = {"type": "json_schema", "name": "trip", "schema": schema, "strict": True}
    body = {"model": "m", "input": "Where to?", "tools": tools, "text": {"format": form}}
    able = structs.replace(
        scripted.capabilities,
        formats=frozenset({"text"}),
        tool_choice=frozenset({"auto", "required", "function"}),
        forced_choice_stops_thinking=False,
    )
    return make_plan(
        parse_body(json.dumps(body).encode()),
        [],
        provider=scripted.name,
        model="m",
        capabilities=able,
    )


@every_scripted_provider
@table("schema", [SCHEMA, ARRAY], ids=["an object", "an array"])
@table("tools", [[], [LOOK]], ids=["alone", "beside a tool"])
@table("stream", [True, False], ids=["streamed", "whole"])
def test_the_answer_tool_is_declared_and_has_to_be_called(
    scripted: ScriptedProvider, schema: dict[str, Any], tools: list[dict[str, Any]], stream: bool
) -> None:
    plan = planned(scripted, schema, tools)
    assert plan.contract.tool == "answer_trip"
    assert plan.tool_choice.mode == ("required" if tools else "function")
    body = scripted.dialect.encode(plan, stream=stream).body
    assert scripted.problems(body) == []
    written = body.decode()
    assert "answer_trip" in written
    assert ("look" in written) is bool(tools)
    assert not {"response_format", "format", "output_config"} & json.loads(body).keys()
    forcing = any(word in written for word in FORCED)
    assert forcing is (scripted.name != "ollama"), "the API has a word for it, or none at all"


@every_scripted_provider
@table("text", ['{"city": 7, "days": 1}', "{}"])
def test_an_invalid_answer_is_repaired_in_the_same_thread(
    scripted: ScriptedProvider, text: str
) -> None:
    plan = planned(scripted, SCHEMA, [LOOK])
    answer_filter = StructuredOutputFilter(plan.contract)
    translation = Translation(machine(()), Source(scripted.dialect), [answer_filter])
    turn = Turn(number=1, calls=(Call("answer_trip", text, ""),))
    translation.feed(scripted.stream_bytes(turn))
    translation.close()
    wanted = translation.next
    assert isinstance(wanted, Round)
    sealer = Sealer(["a key"], new_nonce=bytes, now=lambda: 1)
    then = plan_next_round(
        plan,
        FinishedRound(wanted.items, wanted.follow_up),
        issuer=scripted.name,
        unseal=partial(sealer.open, "local"),
    )
    assert then.tool_choice == plan.tool_choice
    body = scripted.dialect.encode(then, stream=True).body
    assert scripted.problems(body) == []
    assert "does not have the form" in body.decode()
    translation.begin_round()
    translation.read_from(Source(scripted.dialect))
    right = Turn(number=2, calls=(Call("answer_trip", ULM, ""),))
    events = translation.feed(scripted.stream_bytes(right))
    [*_, ending] = documents([*events, *translation.close()])
    [message] = [item for item in ending["response"]["output"] if item["type"] == "message"]
    assert json.loads(message["content"][0]["text"]) == json.loads(ULM)
    assert ending["type"] == "response.completed"
