"""Usage of the page's API: tokens, cost and failures by time, client, model and provider."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import get_args

import msgspec

from antiphon.errors import InvalidRequest
from antiphon.observe.usage import DEFAULT_BY, UsageColumn, UsageRow, query_usage
from antiphon.server.endpoints.query import Query
from antiphon.server.http import HTTPResponse, json_response
from antiphon.server.ui.page_request import PageRequest
from antiphon.server.ui.requests import read_time

_COLUMNS: tuple[UsageColumn, ...] = get_args(UsageColumn)
_DEFAULT_MS = 7 * 24 * 3_600_000
_SPREADSHEET_FORMULA = ("=", "+", "-", "@", "\t", "\r")


async def show_usage(request: PageRequest) -> HTTPResponse:
    """Sums of a period, grouped by `by`; `format=csv` for a file."""
    query = request.query
    services = request.engine.services
    now_ms = services.runtime.now_ms()
    since = read_time(query, "since", now_ms) or now_ms - _DEFAULT_MS
    until = read_time(query, "until", now_ms) or now_ms
    by = read_columns(query)
    rows = await query_usage(services.store, since=since // 1000, until=until // 1000, by=by)
    if query.choice("format", "json", ("json", "csv")) == "csv":
        headers = {
            "content-type": "text/csv; charset=utf-8",
            "content-disposition": 'attachment; filename="antiphon-usage.csv"',
        }
        return HTTPResponse(200, headers, format_csv(rows, by))
    return json_response({"rows": rows, "by": by})


def read_columns(query: Query) -> tuple[UsageColumn, ...]:
    """Read what rows are grouped by."""
    text = query.text("by")
    if not text:
        return DEFAULT_BY
    columns = tuple(column for column in _COLUMNS if column in text.split(","))
    if len(columns) != len(text.split(",")):
        raise InvalidRequest(
            f"`by` must be a list of {', '.join(_COLUMNS)}, separated by commas.",
            param="by",
            code="invalid_value",
        )
    return columns


def format_csv(rows: Sequence[UsageRow], by: Sequence[UsageColumn]) -> bytes:
    """Format rows as CSV; columns that rows are not grouped by are left out."""
    names = [*by, *(name for name in UsageRow.__struct_fields__ if name not in _COLUMNS)]
    output = io.StringIO()
    writer = csv.writer(output)
    writer.writerow(names)
    for row in rows:
        values = msgspec.structs.asdict(row)
        writer.writerow([_protect(values[name]) for name in names])
    return output.getvalue().encode()


def _protect(value: object) -> object:
    """Keep a spreadsheet from reading a name that a client chose as a formula."""
    if isinstance(value, str) and value.startswith(_SPREADSHEET_FORMULA):
        return f"'{value}"
    return value
