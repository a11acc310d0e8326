"""Turns without an owner: stored by earlier versions, and found by every client until they expire.

Read from the file of a store that is not open (docs/adr/0036-keys-divide-the-store.md).
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from msgspec import Struct

from antiphon.store.sqlite.file import connect_reader, convert_errors

_COUNT = "SELECT count(*), max(ifnull(expires_at, 1 << 62)) FROM turn WHERE {} AND {}"
_ALIVE = "(expires_at IS NULL OR expires_at > ?)"
_NEVER = 1 << 62


class TurnsWithoutOwner(Struct, frozen=True):
    count: int = 0
    expire_at: int | None = None
    """When the last of them expires; None: never."""


def count_turns_without_owner(path: Path, now: int) -> TurnsWithoutOwner:
    """Count them in a store's file; in a file that does not exist there are none."""
    if not path.exists():
        return TurnsWithoutOwner()
    with convert_errors(path), closing(connect_reader(path)) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(turn)")]
        if not columns:  # created, and not used yet
            return TurnsWithoutOwner()
        condition = "owner IS NULL" if "owner" in columns else "1"
        count, last = connection.execute(_COUNT.format(condition, _ALIVE), (now,)).fetchone()
    return TurnsWithoutOwner(count, None if last in (None, _NEVER) else last)
