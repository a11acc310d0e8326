"""Token counts of a Converse answer."""

from __future__ import annotations

import pytest

from antiphon.core.deltas import Usage
from antiphon.dialects.bedrock.decode import read_usage


@pytest.mark.parametrize(
    ("total", "input_tokens"), [(24, 19), (8, 3), (None, 19)], ids=["beside", "inside", "absent"]
)
def test_cache_reads_and_writes_count_as_input(total: int | None, input_tokens: int) -> None:
    usage = {"inputTokens": 3, "outputTokens": 5, "totalTokens": total}
    usage |= {"cacheReadInputTokens": 10, "cacheWriteInputTokens": 6}
    assert read_usage(usage) == Usage(
        input_tokens=input_tokens,
        output_tokens=5,
        cached_tokens=10,
        cache_write_tokens=6,
        total_tokens=total,
    )
