"""Replayed answer: the plan, filters and stages of a client's request, for recorded bytes.

A module of its own, because `antiphon.replay` imports it only when it is given such a request:
plans and filters load cryptography and grammars.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from antiphon.core.client_profile import Profile
from antiphon.core.faults.fault import protocol_fault
from antiphon.core.filters.order import make_filters
from antiphon.core.plan.plan import Capabilities
from antiphon.core.planning.make_plan import make_plan
from antiphon.core.stream.machine import ResponseMachine
from antiphon.dialects.dialect import Dialect
from antiphon.pipeline.bridge import Bridge
from antiphon.pipeline.pipeline import Pipeline, answer_stages
from antiphon.pipeline.stage import Batch
from antiphon.wire.events import Event
from antiphon.wire.request import Request
from antiphon.wire.response_from_request import create_response

_MORE_ROUNDS = "The recording ends before the answer: the provider was asked again."


class ReplayedAnswer:
    """One answer as the gateway makes it, without its store, capsules and further rounds."""

    def __init__(
        self,
        request: Mapping[str, Any],
        dialect: Dialect,
        capabilities: Capabilities,
        profile: Profile,
        new_id: Callable[[str], str],
    ) -> None:
        """Raises `InvalidRequest` for a request that the gateway would reject."""
        self._request = Request.parse(msgspec.json.encode(request))
        provider, _, model = self._request.model.rpartition("/")
        self._plan = make_plan(
            self._request, (), provider=provider, model=model, capabilities=capabilities
        )
        self._pipeline = Pipeline(answer_stages(self._plan, profile))
        filters = make_filters(self._plan, profile, new_id, reminders=False)
        machine = self._machine(dialect, new_id)
        self.bridge = Bridge(machine, dialect, filters, guards=capabilities.guards)

    def _machine(self, dialect: Dialect, new_id: Callable[[str], str]) -> ResponseMachine:
        plan = self._plan
        response = create_response(self._request, response_id=new_id("resp"), created_at=0)
        reasoning = {**(response.reasoning or {}), "effort": plan.effective_effort}
        return ResponseMachine(
            msgspec.structs.replace(response, reasoning=reasoning),
            new_id=new_id,
            now=lambda: 0,
            tools=plan.identities,
            describe=partial(dialect.describe, provider=plan.provider),
            empty_arguments="{}",
        )

    def finish(self, events: list[Event]) -> list[Event]:
        """Pass all events of the bridge through the stages that may change them."""
        bridge = self.bridge
        if bridge.awaits_next_round:
            events = events + bridge.give_up_round(protocol_fault(_MORE_ROUNDS))
        return self._pipeline.feed(Batch(events, bridge.fault, bridge.refused)).events
