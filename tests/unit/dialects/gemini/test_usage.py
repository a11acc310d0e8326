"""Token counts of Gemini responses."""

from __future__ import annotations

import pytest

from antiphon.core.deltas import Usage
from tests.support.dialect_samples.gemini import feed


def test_thinking_counts_as_output_and_tool_results_as_input() -> None:
    counts = {
        "promptTokenCount": 10,
        "toolUsePromptTokenCount": 5,
        "cachedContentTokenCount": 4,
        "candidatesTokenCount": 3,
        "thoughtsTokenCount": 2,
        "totalTokenCount": 20,
    }
    assert feed({"usageMetadata": counts}) == [
        Usage(15, 5, cached_tokens=4, reasoning_tokens=2, total_tokens=20)
    ]


def test_thinking_that_the_candidates_include_counts_once() -> None:
    """Arize-ai/openinference#3177, BerriAI/litellm#10141: the total tells which it is."""
    counts = {
        "promptTokenCount": 341,
        "candidatesTokenCount": 3362,
        "thoughtsTokenCount": 3347,
        "totalTokenCount": 3703,
    }
    assert feed({"usageMetadata": counts}) == [
        Usage(341, 3362, reasoning_tokens=3347, total_tokens=3703)
    ]


@pytest.mark.parametrize("counts", [{"trafficType": "ON_DEMAND"}, {}, None, "odd"])
def test_a_chunk_without_counts_gives_no_usage(counts: object) -> None:
    assert feed({"usageMetadata": counts}) == []
