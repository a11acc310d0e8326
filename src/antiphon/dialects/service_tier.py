"""The service tier that a provider reports to have used, by its name in the Responses API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from antiphon.core.deltas import ServiceTier

_TIERS: Mapping[str, str] = {
    **{tier: tier for tier in ("default", "flex", "scale", "priority")},
    "fast": "priority",
    "on_demand": "default",
    "standard": "default",
}
"""Names of providers → names of the API. Others, such as `auto`, do not name the tier used."""


def read_service_tier(value: object) -> Iterator[ServiceTier]:
    """Read a provider's name of a tier: `"standard"`."""
    if isinstance(value, str) and value in _TIERS:
        yield ServiceTier(_TIERS[value])
