"""Output contract stage: checks a completed response against the promised format."""

from __future__ import annotations

from antiphon.core.events import Completed
from antiphon.core.structured_output.contract import OutputContract
from antiphon.errors import InvalidOutputFormat
from antiphon.stages.stage import Batch, Stage, failed, with_terminal


class ContractStage(Stage):
    """Turns a completed response into a failed one if it breaks the contract.

    A refusal promises nothing, so it is not checked."""

    def __init__(self, contract: OutputContract, *, provider: str) -> None:
        self._contract = contract
        self._provider = provider

    def on_terminal(self, batch: Batch) -> Batch:
        last = batch.events[-1]
        if batch.refused or not isinstance(last, Completed):
            return batch
        try:
            self._contract.check(last.response, provider=self._provider)
        except InvalidOutputFormat as error:
            message = f"{error.message} ({error.code})"
            return with_terminal(batch, failed(last.response, code="server_error", message=message))
        return batch
