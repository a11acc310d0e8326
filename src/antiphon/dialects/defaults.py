"""Default framing, error classification and parameter removal of a dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

from antiphon.core.faults import classify, messages
from antiphon.core.faults.fault import ProviderFault
from antiphon.core.plan.plan import Outbound
from antiphon.core.stream.source import Framer
from antiphon.dialects.parameters import ParameterFields, list_removable, remove_parameter
from antiphon.framing.limits import DEFAULT_LIMITS
from antiphon.framing.sse import SSEDecoder


class DialectDefaults:
    """SSE framing, the shared fault classifier and fault texts; a dialect overrides what differs.

    Every dialect sets `parameter_fields`.
    """

    parameter_fields: ClassVar[ParameterFields]
    locales: ClassVar[frozenset[str]] = frozenset()
    """Languages, in lower case, for which `describe` has texts beside the built-in ones."""

    def framer(self, max_bytes: int = DEFAULT_LIMITS.frame_bytes) -> Framer:
        return SSEDecoder(max_bytes)

    def for_client(self, client_format: str) -> Self:
        return self

    def classify(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderFault:
        return classify.classify(status, headers, body)

    def describe(self, fault: ProviderFault, locale: str = "en", provider: str = "") -> str:
        return messages.describe(fault, locale, provider=provider)

    def removable_parameters(self, outbound: Outbound) -> list[str]:
        return list_removable(outbound, self.parameter_fields)

    def without(self, outbound: Outbound, name: str, *, rename: bool = True) -> Outbound | None:
        return remove_parameter(outbound, name, self.parameter_fields, rename=rename)
