"""Request path counter: the project files that one streamed request runs through.

Run `python -m tests.support.request_path [MODEL]` to print the files in the order of their first
call. A profiler hook sees every call of a Python function in `src/antiphon` while the served
gateway (memory store, log level error) answers one streamed request of two text deltas, from a
provider on a socket (`up/m`) or from the built-in echo (`echo/echo`). A switch is a call whose
function stands in another project file than the call before it. One request goes through
before the counted one, so that imports and caches are warm.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from msgspec import structs

import antiphon
from antiphon.config import LogConfig, StoreConfig
from tests.support.gateways import running, settings
from tests.support.upstream import DONE, Connection, ReceivedRequest, upstream, usage

SOURCE = str(Path(antiphon.__file__).parent)
DELTAS = ("Hello", " world")
MODELS = ("up/m", "echo/echo")


@dataclass
class RequestPath:
    """What the profiler hook saw."""

    files: dict[str, int] = field(default_factory=dict)
    """Calls by file, in the order of the first call."""
    switches: int = 0
    calls: int = 0
    _last: str = ""

    def record(self, frame: FrameType, event: str, argument: object) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(SOURCE):
            return
        name = frame.f_code.co_filename[len(SOURCE) + 1 :]
        self.files[name] = self.files.get(name, 0) + 1
        self.calls += 1
        self.switches += name != self._last
        self._last = name


def _chunk(delta: dict[str, str], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    document = {"id": "c1", "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(document).encode() + b"\n\n"


async def _two_deltas(request: ReceivedRequest, connection: Connection) -> None:
    await connection.head()
    for text in DELTAS:
        await connection.send(_chunk({"content": text}))
    await connection.send(_chunk({}, "stop") + usage() + DONE)
    await connection.end()


async def count_request_path(directory: Path, model: str = MODELS[0]) -> RequestPath:
    """Count one streamed request through the served gateway."""
    async with upstream(_two_deltas) as provider:
        config = structs.replace(
            settings(directory, provider.url),
            store=StoreConfig(url="memory://"),
            log=LogConfig(level="error"),
        )
        async with running(config) as gateway:
            body: dict[str, Any] = {"model": model, "input": "".join(DELTAS)}
            await gateway.stream(body)
            path = RequestPath()
            sys.setprofile(path.record)
            try:
                events = await gateway.stream(body)
            finally:
                sys.setprofile(None)
    assert [each["delta"] for each in events if "delta" in each] == list(DELTAS)
    return path


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        found = asyncio.run(count_request_path(Path(place), *sys.argv[1:]))
    for name, calls in found.files.items():
        print(f"{calls:5} {name}")
    print(f"{len(found.files)} files, {found.switches} switches, {found.calls} calls")
