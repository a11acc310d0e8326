"""Limits of an answer: the defaults are those of the configuration."""

from __future__ import annotations

import msgspec

from antiphon.config import LimitConfig
from antiphon.wire.limits import DEFAULT_LIMITS


def test_the_defaults_are_those_of_the_configuration() -> None:
    assert msgspec.structs.asdict(DEFAULT_LIMITS) == msgspec.structs.asdict(LimitConfig())
