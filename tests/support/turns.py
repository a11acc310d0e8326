"""Stored turns for tests, and a fake clock."""

from __future__ import annotations

from typing import Any

from antiphon.store.store import Store, Turn
from antiphon.store.turn import encode_response_object


class Clock:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.now = 1_700_000_000

    def __call__(self) -> int:
        return self.now


def turn(id: str, previous: str | None = None, *, text: str = "", **changes: Any) -> Turn:
    values: dict[str, Any] = {
        "id": id,
        "previous_response_id": previous,
        "created_at": 1,
        "status": "completed",
        "model": "m",
        "provider": "p",
        "input": ({"type": "message", "role": "user", "content": f"to {id}"},),
        "output": ({"type": "message", "role": "assistant", "content": text or f"from {id}"},),
        "response": {"id": id, "object": "response"},
    }
    values |= changes
    encoded = encode_response_object(values.pop("response"), values["output"])
    return Turn(**values, encoded=encoded)


def build_chain(length: int) -> list[Turn]:
    return [turn(f"r{n}", f"r{n - 1}" if n else None) for n in range(length)]


async def chain_ids(store: Store, response_id: str) -> list[str]:
    return [turn.id for turn in await store.chain(response_id)]
