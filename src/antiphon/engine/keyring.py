"""The keys of one provider: who is next, who rests, who is set aside.

The least used key comes first, so that load spreads; of those, the one with the fewest requests
under way. A key rests after a fault of its own for as long as the provider asked, and a key that
was refused altogether does not come back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

NO_KEY = ""  # for providers that want none


class Keyring:
    def __init__(self, keys: Sequence[str], clock: Callable[[], float]) -> None:
        self._clock = clock
        self._keys = list(keys) or [NO_KEY]
        self._used = dict.fromkeys(self._keys, 0)
        self._under_way = dict.fromkeys(self._keys, 0)
        self._resting_until = dict.fromkeys(self._keys, 0.0)

    def pick(self, without: Collection[str] = ()) -> str | None:
        """The key to use now, or None if every key rests or was tried already."""
        now = self._clock()
        ready = [
            key for key in self._keys if key not in without and self._resting_until[key] <= now
        ]
        return min(ready, key=lambda key: (self._used[key], self._under_way[key]), default=None)

    def soonest(self) -> str:
        """The key whose rest ends first, for when there is no other way."""
        return min(self._keys, key=lambda key: self._resting_until[key])

    def begin(self, key: str) -> None:
        self._used[key] += 1
        self._under_way[key] += 1

    def end(self, key: str) -> None:
        self._under_way[key] -= 1

    def rest(self, key: str, seconds: float) -> None:
        """Leave the key alone for this long; for ever, if that is infinite."""
        until = self._clock() + seconds
        self._resting_until[key] = max(self._resting_until[key], until)

    def number(self, key: str) -> int:
        """Which key it is, for people: counting from one, as in the configuration."""
        return self._keys.index(key) + 1
