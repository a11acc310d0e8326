"""What dialects have in common: how answers come in, and how errors are judged and told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from antiphon.core.faults import classify as faults
from antiphon.core.faults import messages as locale
from antiphon.core.faults.fault import ProviderFault
from antiphon.core.stream.deltas import Delta
from antiphon.wire.sse import Frame, SSEDecoder


class Framer(Protocol):
    """Bytes as the network cuts them → frames."""

    def feed(self, chunk: bytes) -> list[Frame]: ...
    def close(self) -> list[Frame]: ...


class StreamDecoder(Protocol):
    """The frames of one streamed answer → deltas."""

    ended: bool
    """The provider has said that nothing more will come."""

    def feed(self, frame: Frame) -> list[Delta]: ...
    def close(self) -> list[Delta]: ...


class Speech:
    """The half of a dialect that is nearly everybody's; a dialect overrides what it does apart."""

    def framer(self) -> Framer:
        return SSEDecoder()

    def classify(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderFault:
        return faults.classify(status, headers, body)

    def describe(self, fault: ProviderFault, locale_name: str = "en") -> str:
        return locale.describe(fault, locale_name)
