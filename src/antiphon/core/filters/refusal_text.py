"""Refusals as text, for clients that drop a refusal part."""

from __future__ import annotations

from antiphon.core.client_profile import Profile
from antiphon.core.diagnostic import Code
from antiphon.core.filters.filter import DeltaFilter
from antiphon.core.stream.deltas import Delta, ItemEnd, Refusal, Text


class RefusalTextFilter(DeltaFilter):
    """Tells a refusal as text, in a message of its own. The last desk: others know a refusal."""

    def __init__(self, profile: Profile) -> None:
        super().__init__()
        self._profile = profile
        self._spoken: type[Delta] | None = None
        self._noted = False

    def feed(self, delta: Delta) -> list[Delta]:
        if not isinstance(delta, Text | Refusal) or not delta.text:
            return [delta]
        turned = self._spoken is not None and self._spoken is not type(delta)
        self._spoken = type(delta)
        before: list[Delta] = [ItemEnd()] if turned else []
        return [*before, self._told(delta) if isinstance(delta, Refusal) else delta]

    def _told(self, refusal: Refusal) -> Text:
        if not self._noted:
            self._noted = True
            name = self._profile.name
            message = f"The refusal is told as text: {name} would drop the message."
            self._note(Code.CLIENT_REFUSAL_AS_TEXT, "client", message, name)
        return Text(refusal.text)
