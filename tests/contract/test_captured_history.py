"""Captured histories of real clients are encoded as valid requests for every provider."""

from __future__ import annotations

import pytest

from antiphon.core.history.pairing import pair_calls
from antiphon.core.history.read_items import read_items
from antiphon.core.plan.plan import Plan
from tests.support import captured_requests as captured
from tests.support.scripted_providers.scripted_provider import ScriptedProvider
from tests.support.scripted_providers.table import SCRIPTED_PROVIDERS
from tests.support.tables import table

BODIES = captured.bodies()

pytestmark = pytest.mark.skipif(not BODIES, reason=captured.ABSENT)


@table("scripted", SCRIPTED_PROVIDERS.values(), ids=SCRIPTED_PROVIDERS.keys())
@table("inputs", [{"text"}, {"text", "image"}], ids=lambda kinds: "+".join(sorted(kinds)))
def test_every_captured_history_renders_to_a_valid_request(
    scripted: ScriptedProvider, inputs: set[str]
) -> None:
    for name, request in BODIES.items():
        steps, _ = read_items(request["input"], inputs=frozenset(inputs), tool_output_images=False)
        history, _ = pair_calls(steps)
        plan = Plan(provider="p", model="m", instructions="Be brief.", history=history)
        assert scripted.problems(scripted.dialect.encode(plan, stream=True).body) == [], name
