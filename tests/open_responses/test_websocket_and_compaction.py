"""The nine cases of the Open Responses suite that use a WebSocket or compact a history."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.open_responses.cases import CASES, PROPOSED, Suite
from tests.support.open_responses.websocket_cases import COMPACTION_CASES, WEBSOCKET_CASES

NINE = {**COMPACTION_CASES, **WEBSOCKET_CASES}


def test_the_suite_has_seventeen_cases() -> None:
    assert len(CASES) + len(NINE) == 17


@pytest.mark.parametrize("case", NINE)
async def test_the_gateway_complies(suite: Suite, case: str) -> None:
    await NINE[case](suite)
    assert not suite.gateway.engine.active


async def test_the_gateway_complies_with_the_whole_suite_at_once(suite: Suite) -> None:
    every = {**CASES, **PROPOSED, **NINE}
    outcomes = await asyncio.gather(*(case(suite) for case in every.values()))
    assert outcomes == [None] * len(every)
