"""A plan is the same whether its settings were decided for it or kept from an earlier request."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from antiphon.core.capabilities import Capabilities
from antiphon.core.plan.kept_settings import KeptSettings
from antiphon.core.plan.plan import Plan
from antiphon.core.plan.planner import ModelTarget, PlanInputs, Planner
from antiphon.core.tools.identity import NO_TOOLS
from antiphon.errors import InvalidRequest
from tests.support.request_body import parse_body

SCHEMA = {"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "number"}}}
REVERSED = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "string"}}}
TARGETS = [
    ModelTarget("p", "m", Capabilities(model_name="p/m")),
    ModelTarget(
        "p",
        "n",
        Capabilities(
            model_name="p/n",
            parameters=frozenset(
                {"temperature", "top_p", "metadata", "stop", "verbosity", "extra"}
            ),
            efforts={"none": "off", "low": "1000", "high": "9000"},
            fixed_by_thinking=frozenset({"temperature"}),
            min_thinking_budget=1000,
            system_messages="first",
        ),
    ),
]
items = st.lists(
    st.sampled_from(
        [
            {"type": "message", "role": "user", "content": "hello"},
            {"role": "system", "content": "be kind"},
            {"type": "message", "role": "assistant", "content": "hi"},
            {"type": "configuration_update", "reasoning": {"effort": "high"}},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "x"},
        ]
    ),
    min_size=1,
    max_size=3,
)
bodies = st.fixed_dictionaries(
    {"model": st.just("m"), "input": items},
    optional={
        "instructions": st.sampled_from(["a", "b"]),
        "temperature": st.sampled_from([1, 1.0, 0, 0.0, -0.0, 2]),
        "top_p": st.sampled_from([1, 1.0, 0.5]),
        "max_output_tokens": st.sampled_from([16, 1500, 5000]),
        "metadata": st.sampled_from([{"a": "1", "b": "2"}, {"b": "2", "a": "1"}]),
        "reasoning": st.sampled_from([{"effort": "low"}, {"effort": "high", "summary": "auto"}]),
        "text": st.sampled_from(
            [
                {"verbosity": "low"},
                {"format": {"type": "json_object"}},
                {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}},
                {"format": {"type": "json_schema", "name": "n", "schema": REVERSED}},
            ]
        ),
        "truncation": st.sampled_from(["auto", "disabled"]),
        "include": st.lists(
            st.sampled_from(["message.output_text.logprobs", "reasoning.encrypted_content"])
        ),
        "tools": st.sampled_from([[], [{"type": "function", "name": "f"}]]),
        "tool_choice": st.sampled_from(["auto", "none"]),
        "prompt": st.just({"id": "p"}),
        "unknown_field": st.just(1),
        "other_field": st.just(1),
    },
)


def plan(body: dict[str, Any], target: ModelTarget, kept: KeptSettings) -> Plan | str:
    request = parse_body(msgspec.json.encode(body))
    try:
        found = Planner(request, PlanInputs(), kept).plan(target)
    except InvalidRequest as error:
        return error.message
    return structs.replace(found, identities=NO_TOOLS)  # they are compared by identity


@given(st.lists(st.tuples(bodies, st.sampled_from(TARGETS)), min_size=2, max_size=8))
def test_a_plan_with_kept_settings_is_the_plan_without_them(
    requests: list[tuple[dict[str, Any], ModelTarget]],
) -> None:
    kept = KeptSettings()
    for body, target in [*requests, *requests]:
        found = plan(body, target, kept)
        alone = plan(body, target, KeptSettings(max_bytes=0))
        assert found == alone
        assert repr(found) == repr(alone)  # 1 is not 1.0
