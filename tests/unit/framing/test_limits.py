"""Limits of an answer: the defaults are those of the configuration."""

from __future__ import annotations

import msgspec

from antiphon.config import LimitConfig
from antiphon.framing.limits import DEFAULT_LIMITS


def test_the_defaults_are_those_of_the_configuration() -> None:
    configured = msgspec.structs.asdict(LimitConfig())
    assert configured.pop("clients") == {}  # limits of client keys, not of an answer
    assert msgspec.structs.asdict(DEFAULT_LIMITS) == configured
