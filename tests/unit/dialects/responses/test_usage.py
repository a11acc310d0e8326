"""Token counts of a Responses upstream."""

from __future__ import annotations

import pytest

from antiphon.core.deltas import Finish, Start, Usage
from tests.support.dialect_samples.responses import (
    Document,
    ended,
    feed,
)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (
            {
                "input_tokens": 9,
                "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
                "output_tokens": 7,
                "output_tokens_details": {"reasoning_tokens": 3},
                "total_tokens": 16,
            },
            Usage(9, 7, 4, 2, 3, 16),
        ),
        ({"input_tokens": 1, "output_tokens": 2, "input_tokens_details": None}, Usage(1, 2)),
        ({"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}, Usage(1, 2, 0, 0, 0, 3)),
    ],
)
def test_usage_is_emitted_before_the_finish(usage: Document, expected: Usage) -> None:
    assert feed(ended(usage=usage)) == [Start(), expected, Finish("completed")]
