"""The keys of one provider: who is next, who rests, who is set aside.

The least used key comes first, so that load spreads; of those, the one with the fewest requests
under way. A key rests after a fault of its own for as long as the provider asked, and a key that
was refused altogether does not come back. What a key may not do with one model, it may with others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

NO_KEY = ""  # for providers that want none
_ANY = ""  # model


class Keyring:
    def __init__(self, keys: Sequence[str], clock: Callable[[], float]) -> None:
        self._clock = clock
        self._keys = list(keys) or [NO_KEY]
        self._used = dict.fromkeys(self._keys, 0)
        self._under_way = dict.fromkeys(self._keys, 0)
        self._resting_until: dict[tuple[str, str], float] = {}

    def pick(self, without: Collection[str] = (), *, model: str = _ANY) -> str | None:
        """The key to use now, or None if every key rests or was tried already."""
        now = self._clock()
        ready = [key for key in self._keys if key not in without and self._until(key, model) <= now]
        return min(ready, key=lambda key: (self._used[key], self._under_way[key]), default=None)

    def soonest(self, model: str = _ANY) -> str:
        """The key whose rest ends first, for when there is no other way."""
        return min(self._keys, key=lambda key: self._until(key, model))

    def _until(self, key: str, model: str) -> float:
        until = self._resting_until.get
        return max(until((key, _ANY), 0.0), until((key, model), 0.0))

    def begin(self, key: str) -> None:
        self._used[key] += 1
        self._under_way[key] += 1

    def end(self, key: str) -> None:
        self._under_way[key] -= 1

    def rest(self, key: str, seconds: float, *, model: str = _ANY) -> None:
        """Leave the key alone for this long, with all models or with one; for ever, if that is
        infinite."""
        now = self._clock()
        until = max(now + seconds, self._resting_until.get((key, model), 0.0))
        still = {who: end for who, end in self._resting_until.items() if end > now}
        self._resting_until = still | {(key, model): until}

    def number(self, key: str) -> int:
        """Which key it is, for people: counting from one, as in the configuration."""
        return self._keys.index(key) + 1
