"""Console and table of the commands, made of those of rich (`terminal.py` makes them)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from copy import copy
from dataclasses import replace

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table

from antiphon.stages.printable import printable

_ANY_WIDTH = 10_000
_LEAST_WRAPPED = 24  # characters of a column that may have several lines


class SafeConsole(Console):
    """Console that makes control characters visible, whatever text they came with."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            text, style, control = segment
            yield segment if control else Segment(printable(text, keep="\n"), style)


class FittingTable(Table):
    """Table that drops columns where the terminal is too narrow for all of them.

    Ids and names are never broken in two: only columns named in `wrapped` have several lines."""

    def __init__(self, optional: Sequence[str], wrapped: Collection[str]) -> None:
        super().__init__(box=SIMPLE_HEAD, header_style="bold", pad_edge=False)
        self._optional = optional
        self._wrapped = wrapped

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table: Table = self
        for count in range(len(self._optional) + 1):
            table = self._without(self._optional[len(self._optional) - count :])
            if self._needed_width(table, console, options) <= options.max_width:
                break
        yield from Table.__rich_console__(table, console, options)

    def _without(self, dropped: Collection[str]) -> Table:
        table = copy(self)
        kept = [column for column in self.columns if column.header not in dropped]
        table.columns = [replace(column, _index=index) for index, column in enumerate(kept)]
        return table

    def _needed_width(self, table: Table, console: Console, options: ConsoleOptions) -> int:
        """Return the width of a table whose wrapped columns are as narrow as they may be."""
        narrow = copy(table)
        narrow.columns = [
            replace(column, width=_LEAST_WRAPPED) if column.header in self._wrapped else column
            for column in table.columns
        ]
        return Table.__rich_measure__(narrow, console, options.update(width=_ANY_WIDTH)).maximum
