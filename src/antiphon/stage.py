"""Everything that the author of a stage imports, in one module.

`docs/extend.md` shows stages that use nothing else. Every name here stays as it is between
releases, or the changelog says how to change; other modules may move.
"""

from __future__ import annotations

from antiphon.core.events import Event
from antiphon.core.response import Response
from antiphon.stages.change_text import change_text
from antiphon.stages.pipeline import Batch, Stage, failed, terminal, with_terminal

__all__ = [
    "Batch",
    "Event",
    "Response",
    "Stage",
    "change_text",
    "failed",
    "terminal",
    "with_terminal",
]
