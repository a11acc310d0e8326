"""What is dear to make and made from a client's text: kept, the last used longest, within bounds.

The bound is on the text it was made from, because that is what a client can make large. What is too
large for the shelf is made again each time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LRUCache(Generic[K, V]):
    def __init__(self, make: Callable[[K], V], size: Callable[[K], int], most: int) -> None:
        """`size` tells how much room a key takes, and `most` how much there is."""
        self._make = make
        self._size = size
        self._most = self._room = most
        self._kept: OrderedDict[K, V] = OrderedDict()

    def __getitem__(self, key: K) -> V:
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        made, size = self._make(key), self._size(key)
        if size > self._most:
            return made
        self._kept[key] = made
        self._room -= size
        while self._room < 0:
            oldest, _ = self._kept.popitem(last=False)
            self._room += self._size(oldest)
        return made

    def __len__(self) -> int:
        return len(self._kept)
