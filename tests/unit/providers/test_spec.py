"""Provider data: efforts, and capabilities by model name."""

from __future__ import annotations

import pytest

from antiphon.core.capabilities import Capabilities
from antiphon.providers.spec import Model, Spec, parse_efforts


def test_a_model_has_the_capabilities_of_the_longest_known_prefix() -> None:
    small, large = Capabilities(max_tools=1), Capabilities(max_tools=2)
    spec = Spec(
        name="x",
        title="X",
        models=(
            Model(id="m-1", capabilities=small),
            Model(id="m-1.5", capabilities=large),
            Model(id="m-1.5-plain"),
        ),
    )
    found = [spec.capabilities_of(name) for name in ("m-1-air", "M-1.5-max", "m-1.5-plain", "m")]
    assert found == [small, large, spec.capabilities, spec.capabilities]
    prefixed = ("us.m-1-air", "owner/m-1", "arn:x:y/eu.m-1.5-max", "tm-1")
    assert [spec.capabilities_of(name) for name in prefixed] == [
        small,
        small,
        large,
        spec.capabilities,
    ]


def test_efforts_are_parsed_in_order_and_must_be_complete() -> None:
    assert parse_efforts("off - low low high high max") == {
        "none": "off",
        "low": "low",
        "medium": "low",
        "high": "high",
        "xhigh": "high",
        "max": "max",
    }
    with pytest.raises(ValueError, match="zip"):
        parse_efforts("low high")
