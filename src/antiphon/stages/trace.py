"""Payloads of the trace: the provider's bytes and the client's events, with their times."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from antiphon.core.client_profile import Profile
from antiphon.core.events import Event
from antiphon.core.request import Request
from antiphon.dialects.client_dialect import ClientDialect, EventBatch
from antiphon.dialects.responses.render import SSEEncoder
from antiphon.stages.builtin import TraceStage
from antiphon.stages.pipeline import Batch


class RecordedBytes(NamedTuple):
    """Bytes with the offset and time of every read."""

    blob: bytes
    offsets: list[tuple[int, float]]


class RawTap:
    """Bytes as they arrived: one blob, with the offset and time of every read."""

    def __init__(self, elapsed_ms: Callable[[], float]) -> None:
        self._elapsed_ms = elapsed_ms
        self._pieces: list[bytes] = []
        self.size = 0
        self.offsets: list[tuple[int, float]] = []
        self.kept: list[int] = []
        """How many reads there were at each `keep`."""
        self._rewinds_to = (0, 0)
        """Reads and bytes that stay."""

    def keep(self) -> None:
        """Keep what has arrived so far, whatever `rewind` drops later."""
        self._rewinds_to = (len(self._pieces), self.size)
        self.kept.append(len(self._pieces))

    def rewind(self) -> RecordedBytes:
        """Take out what has arrived since `keep`: the bytes of an attempt that failed."""
        pieces, start = self._rewinds_to
        offsets = [(offset - start, at_ms) for offset, at_ms in self.offsets[pieces:]]
        taken = RecordedBytes(b"".join(self._pieces[pieces:]), offsets)
        self.size = start
        del self._pieces[pieces:], self.offsets[pieces:]
        return taken

    def feed(self, chunk: bytes) -> None:
        self.offsets.append((self.size, self._elapsed_ms()))
        self._pieces.append(chunk)
        self.size += len(chunk)

    @property
    def blob(self) -> bytes:
        return b"".join(self._pieces)


class Payloads:
    """The bytes of one run that its trace keeps."""

    def __init__(self, elapsed_ms: Callable[[], float]) -> None:
        self.request = RawTap(elapsed_ms)
        self.outbound = RawTap(elapsed_ms)
        """The request body of every attempt, one after another."""
        self.raw = RawTap(elapsed_ms)
        """The provider's bytes: of each round, those of the attempt that succeeded."""
        self.failed: dict[int, RecordedBytes] = {}
        """The provider's bytes of each attempt that failed, by its number."""


class ClientFormat(NamedTuple):
    """What rendering a response for its client needs."""

    dialect: ClientDialect
    request: Request
    profile: Profile


class PayloadTraceStage(TraceStage):
    """The outcome and all events, or the whole response, as they were sent; encoded only when the
    trace is written."""

    def __init__(
        self,
        elapsed_ms: Callable[[], float],
        *,
        is_streamed: bool = True,
        client: ClientFormat | None = None,
    ) -> None:
        """`client` is the format of the client, if that is not the one of the events."""
        super().__init__()
        self._client = client
        self._elapsed_ms = elapsed_ms
        self._is_streamed = is_streamed
        self.batches: list[tuple[float, list[Event]]] = []

    def feed(self, batch: Batch) -> Batch:
        if batch.events:
            self.batches.append((self._elapsed_ms(), batch.events))
        return batch

    def encode(self) -> tuple[bytes, list[tuple[int, float]]]:
        """Encode what the client received, with offset and time of every batch."""
        if not self._is_streamed:
            return self._encode_whole()
        encoder = SSEEncoder()
        pieces: list[bytes] = []
        offsets: list[tuple[int, float]] = []
        size = 0
        for at_ms, events in self.batches:
            offsets.append((size, at_ms))
            pieces.append(encoder.feed(events))
            size += len(pieces[-1])
        return b"".join(pieces), offsets

    def _encode_whole(self) -> tuple[bytes, list[tuple[int, float]]]:
        """Encode the response; of a failed one without output the client has got an error only."""
        if self.response is None:
            return b"", []
        at_ms, _ = self.batches[-1]
        return msgspec.json.encode(self.response), [(0, at_ms)]

    def render(self) -> tuple[bytes, list[tuple[int, float]]]:
        """Encode the same in the format of the client, if that is another one."""
        client = self._client
        if client is None:
            return b"", []
        if not self._is_streamed:
            return self._render_whole(client)
        renderer = client.dialect.renderer(client.request, client.profile)
        pieces: list[bytes] = []
        offsets: list[tuple[int, float]] = []
        size = number = 0
        for at_ms, events in self.batches:
            data = renderer.feed(EventBatch(number, events))
            number += len(events)
            if data:
                offsets.append((size, at_ms))
                pieces.append(data)
                size += len(data)
        pieces.append(renderer.close())
        return b"".join(pieces), offsets

    def _render_whole(self, client: ClientFormat) -> tuple[bytes, list[tuple[int, float]]]:
        response = self.response
        if response is None:
            return b"", []
        failure = client.dialect.failure(response) if response.status == "failed" else None
        whole = client.dialect.whole
        body = failure.body if failure else whole(response, client.request, client.profile)
        return body, [(0, self.batches[-1][0])]
