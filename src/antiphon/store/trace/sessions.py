"""Sessions of a trace: the requests of one thread, summed up, and their turns in order."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec import Struct

from antiphon.store.sqlite.file import connect_reader, convert_errors
from antiphon.store.trace.reader import TraceDetail, read_detail
from antiphon.store.trace.summary import REJECTED

_SESSIONS = rf"""
    SELECT sums.session, latest.client, latest.model, sums.* FROM (
        SELECT max(seq) AS last_seq, min(received_at_ms), max(received_at_ms), count(*),
            ifnull(sum(failed), 0), ifnull(sum(status IS '{REJECTED}'), 0),
            ifnull(sum(input_tokens), 0), ifnull(sum(cached_tokens), 0),
            ifnull(sum(output_tokens), 0), ifnull(sum(cost), 0.0),
            ifnull(sum(cost IS NULL AND input_tokens IS NOT NULL), 0), session
        FROM summary WHERE session IS NOT NULL AND (:id IS NULL OR session = :id)
        GROUP BY session HAVING (:before IS NULL OR max(seq) < :before)
            AND (:id IS NOT NULL OR count(*) > 1 OR session NOT LIKE 'resp\_%' ESCAPE '\')
        ORDER BY max(seq) DESC LIMIT :limit
    ) AS sums JOIN summary AS latest ON latest.seq = sums.last_seq ORDER BY sums.last_seq DESC
"""
_TURNS = """
    SELECT seq, request_id FROM summary WHERE session = :id AND seq > :after
    ORDER BY seq LIMIT :limit
"""


class SessionRow(Struct, frozen=True):
    """One session in a list."""

    session: str
    client: str | None
    model: str
    last_seq: int
    """The place of its latest request; a list continues below it."""
    began_at_ms: int
    last_at_ms: int
    requests: int
    failed: int
    rejected: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost: float
    unpriced: int
    """Requests with tokens of an unknown price."""


def list_sessions(
    path: Path, *, limit: int, before: int | None = None, id: str | None = None
) -> list[SessionRow]:
    """Return sessions, those with the latest requests first; with `id` only this one. A response
    that was not continued is a session of its own, which no list has."""
    values: dict[str, Any] = {"id": id, "before": before, "limit": limit}
    with convert_errors(path), closing(connect_reader(path)) as connection:
        return [SessionRow(*row[:-1]) for row in connection.execute(_SESSIONS, values)]


def read_turns(
    path: Path, id: str, *, after: int, limit: int
) -> list[tuple[int, str, TraceDetail]]:
    """Return the requests of a session in their order, each with its `seq`, its id and all rows."""
    values = {"id": id, "after": after, "limit": limit}
    with convert_errors(path), closing(connect_reader(path)) as connection:
        found = connection.execute(_TURNS, values).fetchall()
    details = ((seq, request_id, read_detail(path, request_id)) for seq, request_id in found)
    return [(seq, request_id, detail) for seq, request_id, detail in details if detail is not None]
