"""The provider of a chaos run: slow streams, and a list of who asked for what."""

from __future__ import annotations

import re

from tests.support.cluster.chaos.records import Records, now
from tests.support.upstream import DONE, Connection, ReceivedRequest, chunk, usage

WORDS = 5
_MARKER = re.compile(rb"marker-\d+\.")


class SlowProvider:
    """Answers with a few words, one every `pace_s` seconds."""

    def __init__(self, records: Records, pace_s: float) -> None:
        self._records = records
        self._pace_s = pace_s

    async def __call__(self, request: ReceivedRequest, connection: Connection) -> None:
        found = _MARKER.search(request.raw)
        assert found, request.raw
        gateway = request.headers["authorization"].removeprefix("Bearer sk-")
        self._records.calls[found[0].decode()].append((gateway, now()))
        await connection.head()
        for number in range(WORDS):
            await connection.pause(self._pace_s)
            await connection.send(chunk({"content": f"word{number} "}))
        await connection.send(chunk({}, "stop") + usage() + DONE)
        await connection.end()
