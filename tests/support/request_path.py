"""Request path counter: the project files and classes that one request runs through.

Run `python -m tests.support.request_path [MODEL]` to print the files in the order of their first
call. A profiler hook sees every call of a Python function in `src/antiphon` from the request of the
client to the end of the run, in the served gateway (log level error). The model is
that of a provider on a socket (`up/m`), which sends each of two text deltas when the client has
read the one before, or the built-in echo (`echo/echo`). A switch is a call whose function stands in
another project file than the call before it. Classes are those of the layers that run a request
(`engine`, `runs`, `observe`, `server`, `stages`) with a method that was called, in a streamed and
in a background request. A class that at most one other module imports is a part of that module, and
is read with it; the others are those to know. One request goes through before the counted ones, so
that imports and caches are warm.

The last line says how many switches would be left if the modules of each package were merged in
the best way for this count, whatever they hold, as far as the limit of a file allows.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations, pairwise
from pathlib import Path, PurePosixPath
from types import FrameType
from typing import Any

from msgspec import structs

import antiphon
from antiphon.config import LogConfig, StoreConfig
from tests.support.budgets import FILE_LINES
from tests.support.gateways import Running, events_of, running, settings
from tests.support.source_modules import Module, read_modules
from tests.support.upstream import DONE, Connection, ReceivedRequest, upstream, usage
from tests.support.waiting import until

SOURCE = str(Path(antiphon.__file__).parent)
DELTAS = ("Hello", " world")
MODELS = ("up/m", "echo/echo")
RUNNING = ("engine/", "runs/", "observe/", "server/", "stages/")


@dataclass
class RequestPath:
    """What the profiler hook saw."""

    files: dict[str, int] = field(default_factory=dict)
    """Calls by file, in the order of the first call."""
    classes: set[str] = field(default_factory=set)
    """Classes of the layers that run a request, as `file:name`."""
    to_know: set[str] = field(default_factory=set)
    """Those of them that several other modules import."""
    order: list[str] = field(default_factory=list)
    """The files in the order in which the request goes from one to the next."""
    calls: int = 0
    most_unread: int = 0
    """How many text deltas were on their way to the client at a time: one, if they are paced."""

    @property
    def switches(self) -> int:
        return len(self.order)

    def record(self, frame: FrameType, event: str, argument: object) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(SOURCE):
            return
        name = frame.f_code.co_filename[len(SOURCE) + 1 :]
        self.files[name] = self.files.get(name, 0) + 1
        self.calls += 1
        if not self.order or name != self.order[-1]:
            self.order.append(name)
        owner, _, _ = frame.f_code.co_qualname.partition(".")
        if owner != frame.f_code.co_qualname and name.startswith(RUNNING) and owner[0].isupper():
            self.classes.add(f"{name}:{owner}")


def _chunk(delta: dict[str, str], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    document = {"id": "c1", "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(document).encode() + b"\n\n"


class _PacedProvider:
    """A provider that sends its next chunk when the client has read the one before."""

    def __init__(self) -> None:
        self.most_unread = 0
        self._unread = 0
        self._read: asyncio.Queue[None] = asyncio.Queue()

    async def serve(self, request: ReceivedRequest, connection: Connection) -> None:
        await connection.head()
        for text in DELTAS:
            await connection.send(_chunk({"content": text}))
            self._unread += 1
            self.most_unread = max(self.most_unread, self._unread)
            await self._read.get()
        await connection.send(_chunk({}, "stop") + usage() + DONE)
        await connection.end()

    def go_on(self, chunks: int = 1) -> None:
        self._unread -= chunks
        for _ in range(chunks):
            self._read.put_nowait(None)


@contextmanager
def _recorded(path: RequestPath) -> Iterator[None]:
    sys.setprofile(path.record)
    try:
        yield
    finally:
        sys.setprofile(None)


async def _stream(gateway: Running, body: dict[str, Any], provider: _PacedProvider) -> None:
    """Read a response to its end, and let the run end, too."""
    text = b""
    url = f"{gateway.base_url}/responses"
    async with gateway.client.post(url, json={**body, "stream": True}) as response:
        async for data in response.content.iter_any():
            text += data
            provider.go_on(data.count(b'"type":"response.output_text.delta"'))
    await until(lambda: not gateway.engine.services.active, "the run has ended")
    assert [each["delta"] for each in events_of(text) if "delta" in each] == list(DELTAS)


async def _generate_in_background(
    gateway: Running, body: dict[str, Any], provider: _PacedProvider
) -> None:
    provider.go_on(len(DELTAS))
    _, _, response = await gateway.post({**body, "background": True})
    await until(lambda: not gateway.engine.services.active, "the run has ended")
    url = f"{gateway.base_url}/responses/{response['id']}"
    async with gateway.client.get(url) as reply:
        assert (await reply.json())["status"] == "completed"


async def count_request_path(directory: Path, model: str = MODELS[0]) -> RequestPath:
    """Count one streamed request through the served gateway; its classes are also those of a
    background request."""
    paced = _PacedProvider()
    async with upstream(paced.serve) as provider:
        config = structs.replace(
            settings(directory, provider.url),
            store=StoreConfig(url=f"sqlite:///{directory}/turns.db"),
            log=LogConfig(level="error"),
        )
        async with running(config) as gateway:
            body: dict[str, Any] = {"model": model, "input": "".join(DELTAS)}
            await _stream(gateway, body, paced)
            path = RequestPath()
            with _recorded(path):
                await _stream(gateway, body, paced)
            path.most_unread = paced.most_unread
            background = RequestPath()
            with _recorded(background):
                await _generate_in_background(gateway, body, paced)
    path.classes |= background.classes
    path.to_know = _imported_by_several(path.classes)
    return path


def fewest_switches(order: Sequence[str], lines: Mapping[str, int]) -> int:
    """Return how many switches are left if the modules of each package are merged in the best way
    that the limit of a file allows; `lines` has the size of each."""
    saved = Counter(frozenset(pair) for pair in pairwise(order))
    packages: dict[PurePosixPath, list[str]] = {}
    for name in dict.fromkeys(order):
        packages.setdefault(PurePosixPath(name).parent, []).append(name)

    @cache
    def most_saved(names: frozenset[str]) -> int:
        """Find the groups that save the most, beginning with the one that has the first module."""
        if not names:
            return 0
        first = min(names)
        others = names - {first}
        groups = ({first, *each} for each in _choose(others, FILE_LINES - lines[first], lines))
        return max(
            sum(count for pair, count in saved.items() if pair <= group) + most_saved(names - group)
            for group in groups
        )

    return len(order) - sum(most_saved(frozenset(names)) for names in packages.values())


def _choose(
    names: frozenset[str], room: int, lines: Mapping[str, int]
) -> Iterator[tuple[str, ...]]:
    """Yield every choice of modules that have no more lines together than there is room."""
    for count in range(len(names) + 1):
        for choice in combinations(sorted(names), count):
            if sum(lines[name] for name in choice) <= room:
                yield choice


def fewest_switches_of(path: RequestPath) -> int:
    """Return the fewest switches that are left by merging modules of the same package."""
    return fewest_switches(path.order, {str(each.path): each.lines for each in read_modules()})


def _imported_by_several(classes: set[str]) -> set[str]:
    """Return the classes (`file:name`) that more than one module imports besides their own."""
    importers = Counter(
        imported
        for module in read_modules()
        for imported in {imported for _, imported in module.imports()}
    )
    return {each for each in classes if importers[_full_name(each)] > 1}


def _full_name(each: str) -> str:
    path, _, name = each.partition(":")
    return f"{Module(path, '').name}.{name}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        found = asyncio.run(count_request_path(Path(place), *sys.argv[1:]))
    for name, calls in found.files.items():
        print(f"{calls:5} {name}")
    for name in sorted(found.classes):
        print(f"      {name}{'' if name in found.to_know else ' (a part of one module)'}")
    print(f"{len(found.files)} files, {found.switches} switches, {found.calls} calls")
    print(f"{len(found.classes)} classes, {len(found.to_know)} of them to know")
    print(f"{fewest_switches_of(found)} switches if modules were merged only to save switches")
