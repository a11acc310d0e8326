"""The output contract, checked where the answer is whole: at its terminal event."""

from __future__ import annotations

from antiphon.core.structured_output.contract import OutputContract
from antiphon.errors import InvalidOutputFormat
from antiphon.pipeline.stage import failed
from antiphon.wire.events import Completed, Event


class ContractStage:
    """Turns a completed response into a failed one if it is not what was promised."""

    def __init__(self, contract: OutputContract, *, provider: str) -> None:
        self._contract = contract
        self._provider = provider
        self.broken: InvalidOutputFormat | None = None
        self.waived = False
        """The model refused to answer, so it has promised nothing."""

    def feed(self, events: list[Event]) -> list[Event]:
        if self.broken is not None:
            return []
        last = events[-1] if events else None
        if self.waived or not isinstance(last, Completed):
            return events
        try:
            self._contract.check(last.response, provider=self._provider)
        except InvalidOutputFormat as error:
            self.broken = error
            message = f"{error.message} ({error.code})"
            return [*events[:-1], failed(last.response, code="server_error", message=message)]
        return events
