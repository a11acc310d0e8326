"""Mistral: call ids of nine characters; reasoning is not replayed."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from antiphon.core.capabilities import Capabilities
from antiphon.core.plan.plan import Plan
from antiphon.dialects.call_ids import CallIdFormat
from antiphon.dialects.chat.quirks import ChatQuirks
from antiphon.providers.spec import Model, Spec, parse_efforts


def _patch(body: dict[str, Any], plan: Plan) -> dict[str, Any]:
    last = body["messages"][-1]
    if last["role"] == "assistant":
        last["prefix"] = (
            True  # a last assistant message is refused unless it is a prefix of the response
        )
    return body


_TEXT = Capabilities(
    parameters=frozenset(
        """
        temperature top_p max_output_tokens presence_penalty frequency_penalty parallel_tool_calls
        prefill seed stop
        """.split()
    ),
    ranges={"temperature": (0, 1.5)},
    tool_choice=frozenset({"auto", "none", "required"}),  # no choice of a single tool
    inputs=frozenset({"text"}),
    system_messages="after_user",  # mistral-common 1.13 rejects the others (2026-11)
    strict_tools=False,
    closed_objects=False,
    context_window=131_072,
)
_SEES = replace(_TEXT, inputs=frozenset({"text", "image"}), context_window=262_144)
_REASONS = replace(
    _SEES, efforts=parse_efforts("none - - - high high high"), thinks_by_default=False
)

SPEC = Spec(
    name="mistral",
    title="Mistral",
    as_of="2026-10",
    base_url="https://api.mistral.ai/v1",
    api_key_env=("MISTRAL_API_KEY",),
    capabilities=_TEXT,
    models=(
        Model(id="mistral-large-4", capabilities=_REASONS),
        Model(id="mistral-medium-3.5", capabilities=_REASONS),
        Model(id="mistral-medium-3-5", capabilities=_REASONS),
        Model(id="mistral-medium-2604", capabilities=_REASONS),
        Model(id="mistral-large-2512", capabilities=_SEES),
        Model(id="mistral-large-latest", capabilities=_SEES),
        Model(id="mistral-medium-latest", capabilities=_SEES),
        Model(id="mistral-small-latest", capabilities=_SEES),
        Model(id="codestral-latest"),
    ),
    quirks=ChatQuirks(
        call_ids=CallIdFormat("[a-zA-Z0-9]{9}", 9),  # anything else is error 3280
        seed_field="random_seed",
        required_choice="any",
        schema_drops=frozenset({"$id", "$schema"}),
        stream_usage=False,  # sent without `stream_options`
        user_field=None,
        patch=_patch,
    ),
)
