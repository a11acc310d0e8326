"""Client profile stage: reports a permanent failure with a code that this client does not retry."""

from __future__ import annotations

from msgspec import structs

from antiphon.core.client_profile import Profile, error_as_final
from antiphon.core.events import Failed
from antiphon.stages.stage import Batch, Stage, failed, with_terminal


class ProfileStage(Stage):
    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    def on_terminal(self, batch: Batch) -> Batch:
        last, fault = batch.events[-1], batch.fault
        if fault is None or not isinstance(last, Failed) or last.response.error is None:
            return batch
        error, code = last.response.error, self._profile.code(fault)
        if error.code != fault.public_code or code == error.code:  # it failed for another reason
            return batch
        event = failed(last.response, code=code, message=error.message)
        diagnostic = error_as_final(self._profile, error.code)
        diagnostics = (*batch.diagnostics, diagnostic)
        return structs.replace(with_terminal(batch, event), diagnostics=diagnostics)
