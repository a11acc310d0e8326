"""What the client at hand has to be told otherwise, where the answer ends.

A failure that stays is told with a code that this client does not answer by asking again.
"""

from __future__ import annotations

from collections.abc import Callable

from antiphon.core.client_profile import Profile, error_as_final
from antiphon.core.diagnostic import Diagnostic
from antiphon.core.faults.fault import ProviderFault
from antiphon.pipeline.stage import failed
from antiphon.wire.events import Event, Failed


class ProfileStage:
    def __init__(self, profile: Profile, note: Callable[[list[Diagnostic]], None]) -> None:
        self._profile = profile
        self._note = note
        self.fault: ProviderFault | None = None
        """Why the answer fails, if it does."""

    def feed(self, events: list[Event]) -> list[Event]:
        last, fault = events[-1] if events else None, self.fault
        if fault is None or not isinstance(last, Failed) or last.response.error is None:
            return events
        error, code = last.response.error, self._profile.code(fault)
        if error.code != fault.public_code or code == error.code:  # it failed for another reason
            return events
        self._note([error_as_final(self._profile, error.code)])
        return [*events[:-1], failed(last.response, code=code, message=error.message)]
