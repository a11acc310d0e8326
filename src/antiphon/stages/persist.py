"""Persist stage: marks the finished response as the one to store."""

from __future__ import annotations

from msgspec import structs

from antiphon.stages.stage import Batch, Stage, terminal


class PersistStage(Stage):
    """Sets `Batch.to_save`; the run stores it before the terminal event is sent."""

    def on_terminal(self, batch: Batch) -> Batch:
        ending = terminal(batch.events)
        return batch if ending is None else structs.replace(batch, to_save=ending.response)
