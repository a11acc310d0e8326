"""Values that clients choose, bounded in number and length: every label of a metric is a time
series for as long as the process runs, and every model in the usage table is kept for a year."""

from __future__ import annotations

OTHER = "other"
MAX_VALUES = 200
MAX_LENGTH = 100


class LabelValues:
    """The first values of a label; every later one is `other`."""

    def __init__(self, limit: int = MAX_VALUES, max_length: int = MAX_LENGTH) -> None:
        self._limit = limit
        self._max_length = max_length
        self._known: set[str] = set()

    def bound(self, value: str) -> str:
        """Return a value as it may be used."""
        value = value[: self._max_length]
        if value not in self._known:
            if len(self._known) >= self._limit:
                return OTHER
            self._known.add(value)
        return value
