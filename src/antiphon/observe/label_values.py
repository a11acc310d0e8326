"""Label values of metrics, bounded in number: clients choose model names, and every value is a
time series for as long as the process runs."""

from __future__ import annotations

OTHER = "other"
MAX_VALUES = 200
MAX_LENGTH = 100


class LabelValues:
    """The first values of a label; every later one is `other`."""

    def __init__(self, limit: int = MAX_VALUES) -> None:
        self._limit = limit
        self._known: set[str] = set()

    def bound(self, value: str) -> str:
        """Return a value as it may be used."""
        value = value[:MAX_LENGTH]
        if value not in self._known:
            if len(self._known) >= self._limit:
                return OTHER
            self._known.add(value)
        return value
