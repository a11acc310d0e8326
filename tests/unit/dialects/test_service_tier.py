"""Service tiers: the provider's names become those of the API."""

from __future__ import annotations

from antiphon.core.deltas import ServiceTier
from antiphon.dialects.service_tier import read_service_tier
from tests.support.tables import table


@table(
    ("reported", "tier"),
    [
        ("default", "default"),
        ("standard", "default"),
        ("on_demand", "default"),
        ("flex", "flex"),
        ("priority", "priority"),
        ("fast", "priority"),
        ("scale", "scale"),
    ],
)
def test_a_tier_has_its_name_of_the_api(reported: str, tier: str) -> None:
    assert list(read_service_tier(reported)) == [ServiceTier(tier)]


@table("reported", [None, "", "auto", "provisioned", 7, {"type": "flex"}])
def test_a_value_that_names_no_tier_is_not_reported(reported: object) -> None:
    assert list(read_service_tier(reported)) == []
