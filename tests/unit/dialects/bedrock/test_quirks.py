"""Quirks of the model families behind Converse."""

from __future__ import annotations

from antiphon.core.history.steps import MessageStep, TextPart
from antiphon.core.plan.plan import Plan
from antiphon.dialects.bedrock.encode import encode
from antiphon.dialects.bedrock.quirks import FAMILIES, BedrockQuirks
from tests.support.tables import table

HI = MessageStep("user", (TextPart("hi"),))


@table(
    ("model", "expected"),
    [
        ("us.anthropic.claude-3-7-sonnet-20250219-v1:0", ("budget", "both")),
        ("anthropic.claude-sonnet-4-20250514-v1:0", ("budget", "both")),
        ("global.anthropic.claude-sonnet-4-5-20250929-v1:0", ("budget", "one")),
        ("us.anthropic.claude-opus-4-6-v1", ("adaptive", "one")),
        ("us.anthropic.claude-opus-4-8", ("adaptive", "none")),
        ("us.anthropic.claude-sonnet-5", ("adaptive", "none")),
        ("us.amazon.nova-2-lite-v1:0", ("config", "both")),
        ("openai.gpt-oss-120b-1:0", ("effort", "both")),
        ("US.META.LLAMA4", ("none", "both")),
        ("arn:aws:bedrock:us-east-1:1:application-inference-profile/x", ("none", "both")),
    ],
)
def test_a_model_has_the_quirks_of_its_family(model: str, expected: tuple[str, str]) -> None:
    quirks = BedrockQuirks(models=FAMILIES).of(model)
    assert (quirks.thinking, quirks.sampling) == expected


def test_quirks_are_selected_by_the_model_of_the_plan() -> None:
    quirks = BedrockQuirks(models=FAMILIES)
    plan = Plan(provider="p", model="openai.gpt-oss-20b-1:0", history=(HI,), effort="low")
    assert b'"reasoning_effort":"low"' in encode(plan, stream=True, quirks=quirks).body
    assert BedrockQuirks(models=FAMILIES).of("meta.llama4").separate_tool_messages
