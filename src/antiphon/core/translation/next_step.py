"""What has to be done next for a response: a value that its translation has after each step."""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import Struct

from antiphon.core.faults.fault import ProviderFault
from antiphon.core.filters.filter import FollowUp
from antiphon.core.filters.gateway_call import GatewayCall


class Reading(Struct, frozen=True):
    """The round goes on: feed what the provider sends."""


class Calls(Struct, frozen=True):
    """Make calls of the gateway, then give the outcome of the first one to `settle_call`."""

    calls: tuple[GatewayCall, ...]
    """In order, and not empty. The later ones may be made at the same time."""


class Round(Struct, frozen=True, kw_only=True):
    """Send a further request, after `begin_round` (or again, after `read_from`)."""

    follow_up: FollowUp
    """What all filters want of the request, together."""
    items: tuple[dict[str, Any], ...]
    """The output items of the round that is over, for the history of the request."""
    is_required: bool
    """Without this round the response fails. Otherwise it ends with what it has."""
    fault: ProviderFault | None = None
    """Why the last attempt at this round failed before any output."""


class Ended(Struct, frozen=True):
    """The terminal event has been returned."""

    fault: ProviderFault | None
    """Why the response failed, if a fault is why."""


Next: TypeAlias = Reading | Calls | Round | Ended

READING = Reading()
