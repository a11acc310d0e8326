"""LRU caches bounded by the size of their keys.

They are for values that are expensive to make from a client's text (a compiled schema, a grammar,
the settings of a plan). The bound is on the text, because a client can make that large; a key that
exceeds the whole bound is not cached. Large requests are planned in a thread of their own, so two
threads may use a cache.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LRUValues(Generic[K, V]):
    """Keeps values by key, and evicts the least recently used ones."""

    def __init__(self, size: Callable[[K], int], max_size: int) -> None:
        """`size` measures a key; `max_size` bounds the sum over all cached keys."""
        self._size = size
        self._max_size = self._room = max_size
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return the value of a key, or None if it is not cached."""
        values = self._values
        try:
            values.move_to_end(key)
            return values[key]
        except KeyError:  # also if another thread has just evicted it
            return None

    def add(self, key: K, value: V) -> None:
        """Keep a value, unless its key is too large."""
        size = self._size(key)
        if size > self._max_size:
            return
        values = self._values
        if values.setdefault(key, value) is value:  # no other thread was faster
            self._room -= size
        while self._room < 0:
            oldest, _ = values.popitem(last=False)
            self._room += self._size(oldest)

    def __len__(self) -> int:
        return len(self._values)


class LRUCache(LRUValues[K, V]):
    """Makes missing values on access."""

    def __init__(self, make: Callable[[K], V], size: Callable[[K], int], max_size: int) -> None:
        super().__init__(size, max_size)
        self._make = make

    def __getitem__(self, key: K) -> V:
        value = self.get(key)
        if value is None:
            value = self._make(key)
            self.add(key, value)
        return value
