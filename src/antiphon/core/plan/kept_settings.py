"""Settings of plans, kept for requests that are the same but for their messages.

What a plan decides besides the history depends on the settings of the request and on the
capabilities of the model alone, if the request has no tools and its thread has only messages. Such
plans without a history are kept by the JSON of these settings: it tells 1 from 1.0 and from true.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import NamedTuple

import msgspec

from antiphon.core.capabilities import Capabilities
from antiphon.core.diagnostic import Diagnostic
from antiphon.core.lru import LRUValues
from antiphon.core.plan.plan import Plan
from antiphon.core.request import Request

_KEPT_BYTES = 1024 * 1024
_OVERHEAD_BYTES = 2000  # of a plan without a history

NO_SETTINGS = frozenset(
    """
    raw is_large model input instructions previous_response_id inherits_tools conversation stream
    stream_options store background state_carrier
    """.split()
)
"""Fields of a request that no setting of its plan depends on; every other field is in the key."""

_read_settings = attrgetter(
    *(name for name in Request.__struct_fields__ if name not in NO_SETTINGS)
)
_encode = msgspec.json.Encoder().encode
_DEFAULTS = _read_settings(Request(raw={}, model=""))
"""The settings of many requests. None of them is a number or a boolean that could be equal to one
of another type, but for the number of unknown fields, which is always an integer, and for
`shows_searches`, which is always a boolean."""
_ENCODED_DEFAULTS = _encode(_DEFAULTS)


class SettingsKey(NamedTuple):
    """What the settings of a plan depend on."""

    capabilities: int
    """The identity of the capabilities; see `KeptSettings.find`."""
    target: tuple[str, str]
    settings: bytes


class SettingsPlan(NamedTuple):
    """A plan that has everything but its history, and the diagnostics of its settings."""

    plan: Plan
    notes: tuple[Diagnostic, ...]
    capabilities: Capabilities
    """Those that it was made for. They are kept as well, so that no others get their identity."""


def _size(key: SettingsKey) -> int:
    return _OVERHEAD_BYTES + len(key.settings)


class KeptSettings:
    """Plans without a history, by what they depend on."""

    def __init__(self, max_bytes: int = _KEPT_BYTES) -> None:
        self._kept: LRUValues[SettingsKey, SettingsPlan] = LRUValues(_size, max_bytes)

    def find(
        self,
        request: Request,
        target: tuple[str, str],
        capabilities: Capabilities,
        decide: Callable[[], SettingsPlan],
    ) -> SettingsPlan:
        """Return the settings for a request; `decide` makes them if they are not kept."""
        settings = _read_settings(request)
        encoded = _ENCODED_DEFAULTS if settings == _DEFAULTS else _encode(settings)
        key = SettingsKey(id(capabilities), target, encoded)
        kept = self._kept.get(key)
        if kept is None:
            kept = decide()
            self._kept.add(key, kept)
        return kept
