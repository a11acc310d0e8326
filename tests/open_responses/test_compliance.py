"""The Open Responses compliance suite on echo and on a model of each dialect, over HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from antiphon.dialects.dialect import DIALECTS
from tests.support.open_responses.cases import CASES, PROPOSED, Suite, message
from tests.support.open_responses.upstreams import BACKENDS, serve

ALL = {**CASES, **PROPOSED}


def test_every_dialect_takes_part() -> None:
    assert set(BACKENDS) == {"echo", *DIALECTS}


@pytest.mark.parametrize("case", ALL)
async def test_the_gateway_complies(suite: Suite, case: str) -> None:
    await ALL[case](suite)
    assert not suite.gateway.engine.active


async def test_the_gateway_complies_with_all_cases_at_once(suite: Suite) -> None:
    outcomes = await asyncio.gather(*(case(suite) for case in ALL.values()))
    assert outcomes == [None] * len(ALL)


async def test_reasoning_as_a_summary_complies(tmp_path: Path) -> None:
    """Raw reasoning has other event names here than at OpenAI; a summary is the same in both."""
    async with serve("echo", tmp_path) as (gateway, _):
        events = await Suite(gateway, "echo/reasoner").stream(
            message("user", "Hello"), reasoning={"effort": "low", "summary": "auto"}
        )
    kinds = [event["type"] for event in events]
    assert "response.reasoning_summary_text.delta" in kinds
