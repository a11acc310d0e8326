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


@pytest.mark.parametrize("counts", [{"trafficType": "ON_DEMAND"}, {}, None, "odd"])
def test_a_chunk_without_counts_gives_no_usage(counts: object) -> None:
    assert feed({"usageMetadata": counts}) == []
