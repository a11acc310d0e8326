"""Filter that turns refusals into text, for clients that drop a refusal part."""

from __future__ import annotations

from antiphon.core.client_profile import Profile
from antiphon.core.diagnostic import Code
from antiphon.core.filters.filter import DeltaFilter
from antiphon.core.stream.deltas import Delta, ItemEnd, Refusal, Text


class RefusalTextFilter(DeltaFilter):
    """Puts a refusal into a message of its own. The last filter: others recognize `Refusal`."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._last_kind: type[Delta] | None = None
        self._noted = False

    def feed(self, delta: Delta) -> list[Delta]:
        if not isinstance(delta, Text | Refusal) or not delta.text:
            return [delta]
        changed = self._last_kind is not None and self._last_kind is not type(delta)
        self._last_kind = type(delta)
        before: list[Delta] = [ItemEnd()] if changed else []
        return [*before, self._as_text(delta) if isinstance(delta, Refusal) else delta]

    def _as_text(self, refusal: Refusal) -> Text:
        if not self._noted:
            self._noted = True
            name = self._profile.name
            message = f"The refusal is sent as text: {name} ignores refusal parts."
            self._note(Code.CLIENT_REFUSAL_AS_TEXT, "client", message, name)
        return Text(refusal.text)
