"""Client actors: one request over HTTP/1.1, read as a client would read it, or badly."""

from __future__ import annotations

import asyncio
import random
import re
from dataclasses import dataclass

import msgspec

from tests.simulation.disk import Disk
from tests.simulation.formats.reading import Format
from tests.simulation.memory_transport import MemoryTransport
from tests.simulation.records import Exchange, Outcome
from tests.simulation.virtual_loop import Address, VirtualLoop

_ENDINGS: dict[Format, re.Pattern[bytes]] = {
    "responses": re.compile(rb"event: response\.(?:completed|failed|incomplete)\n[^\n]*\n\n"),
    "messages": re.compile(rb"event: (?:message_stop|error)\n[^\n]*\n\n"),
    "chat": re.compile(rb'data: (?:\{"error":|[^\n]*"finish_reason":")[^\n]*\n\n'),
}
_GIVE_UP_S = 900.0  # longer than any answer may take


@dataclass(frozen=True)
class Behaviour:
    """How a client treats the answer."""

    name: str = "reads"
    vanish_after_bytes: int | None = None
    vanish_after_s: float | None = None
    vanish_in_request: bool = False
    pause_after_bytes: int | None = None
    pause_s: float = 0.0
    resets: bool = False
    """Vanishes with a reset in place of a close."""


READS = Behaviour()


def draw_behaviour(rng: random.Random) -> Behaviour:
    roll = rng.random()
    resets = rng.random() < 0.5
    if roll < 0.72:
        return READS
    if roll < 0.80:
        return Behaviour("vanishes", vanish_after_bytes=rng.randrange(3000), resets=resets)
    if roll < 0.90:
        late = rng.choice((0.0, 0.001, 0.01, 0.1, 1.0, 4.0))
        return Behaviour("vanishes", vanish_after_s=late, resets=resets)
    if roll < 0.91:
        return Behaviour("vanishes", vanish_in_request=True, resets=resets)
    late = rng.choice((0.5, 5.0, 20.0))
    return Behaviour("reads slowly", pause_after_bytes=rng.randrange(2000), pause_s=late)


class ClientConnection(asyncio.Protocol):
    """Sends one request and reads its answer into an `Exchange`."""

    def __init__(
        self, loop: VirtualLoop, disk: Disk, exchange: Exchange, behaviour: Behaviour
    ) -> None:
        self.told: asyncio.Future[None] = loop.create_future()
        """Done with the terminal event, or at the end."""
        self.ended: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._disk = disk
        self._exchange = exchange
        self._behaviour = behaviour
        self._buffer = bytearray()
        self._is_chunked = False
        self._length = 0
        self._scanned = 0
        self._has_paused = False
        self._transport: MemoryTransport | None = None
        self._timers: list[asyncio.TimerHandle] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, MemoryTransport)
        self._transport = transport

    def send(self, data: bytes) -> None:
        assert self._transport is not None
        behaviour = self._behaviour
        if behaviour.vanish_in_request:
            data = data[: len(data) // 2]
        self._transport.write(data)
        if behaviour.vanish_in_request:
            self._later(0.05, self.vanish)
        if behaviour.vanish_after_s is not None:
            self._later(behaviour.vanish_after_s, self.vanish)
        self._later(_GIVE_UP_S, self.vanish)

    def _later(self, delay_s: float, callback: object) -> None:
        self._timers.append(self._loop.call_later(delay_s, callback))  # type: ignore[arg-type]

    def vanish(self) -> None:
        if not self.ended.done():
            assert self._transport is not None
            self._exchange.closed_at = self._loop.time()
            self._end("vanished")
            if self._behaviour.resets:
                self._transport.abort()
            else:
                self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._end("cut")

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        exchange = self._exchange
        self._note_time()
        if not exchange.status and not self._read_head():
            return
        if self._is_chunked:
            self._read_chunks()
        else:
            exchange.body += self._buffer
            self._buffer.clear()
            if len(exchange.body) >= self._length:
                self._end("complete")
        self._look_for_ending()
        self._misbehave()

    def _note_time(self) -> None:
        exchange, now = self._exchange, self._loop.time()
        if exchange.head_at is None:
            exchange.head_at = now
        else:
            silence_s = now - exchange.last_byte_at
            exchange.longest_silence_s = max(exchange.longest_silence_s, silence_s)
        exchange.last_byte_at = now

    def _read_head(self) -> bool:
        head, separator, rest = bytes(self._buffer).partition(b"\r\n\r\n")
        if not separator:
            return False
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.partition(": ") for line in lines)
        exchange = self._exchange
        exchange.headers = {name.lower(): value for name, _, value in pairs}
        exchange.status = int(first.split(" ")[1])
        self._is_chunked = exchange.headers.get("transfer-encoding") == "chunked"
        self._length = int(exchange.headers.get("content-length", "0"))
        self._buffer = bytearray(rest)
        return True

    def _read_chunks(self) -> None:
        buffer = self._buffer
        while (line_end := buffer.find(b"\r\n")) > 0:
            size = int(buffer[:line_end], 16)
            end = line_end + 2 + size
            if len(buffer) < end + 2:
                return
            self._exchange.body += buffer[line_end + 2 : end]
            del buffer[: end + 2]
            if not size:
                self._end("complete")
                return

    def _look_for_ending(self) -> None:
        """Read the store at the moment of the terminal event."""
        exchange = self._exchange
        if self.told.done() and exchange.outcome != "complete":
            return
        if exchange.is_stream and exchange.stored is None:
            found = _ENDINGS[exchange.format].search(exchange.body, max(0, self._scanned - 64))
            self._scanned = exchange.body.rfind(b"\n\n") + 2
            if found is None:
                return
        if (response := exchange.response) is not None and exchange.stored is None:
            stored = self._disk.read_response(response.get("id", ""))
            exchange.stored = {} if stored is None else stored
        if not self.told.done():
            self.told.set_result(None)

    def _misbehave(self) -> None:
        behaviour, received = self._behaviour, len(self._exchange.body)
        if behaviour.vanish_after_bytes is not None and received > behaviour.vanish_after_bytes:
            self.vanish()
        if behaviour.pause_after_bytes is None or self._has_paused or self.ended.done():
            return
        if received > behaviour.pause_after_bytes:
            self._has_paused = True
            assert self._transport is not None
            self._transport.pause_reading()
            self._exchange.paused_s = behaviour.pause_s
            self._later(behaviour.pause_s, self._transport.resume_reading)

    def _end(self, outcome: Outcome) -> None:
        if self.ended.done():
            return
        self._exchange.outcome = outcome
        self._exchange.ended = self._loop.time()
        for timer in self._timers:
            timer.cancel()
        self.ended.set_result(None)
        if outcome == "complete":
            self._look_for_ending()
            assert self._transport is not None
            self._transport.close()
        if not self.told.done():
            self.told.set_result(None)


def encode_request(exchange: Exchange, key: str) -> bytes:
    body = msgspec.json.encode(exchange.request) if exchange.method == "POST" else b""
    lines = (
        f"{exchange.method} {exchange.path} HTTP/1.1",
        "host: gateway",
        *_list_headers(exchange, key),
        "content-type: application/json",
        f"user-agent: {exchange.agent}",
        f"content-length: {len(body)}",
        "",
        "",
    )
    return "\r\n".join(lines).encode() + body


def _list_headers(exchange: Exchange, key: str) -> list[str]:
    """The headers of a format: clients of Messages have a version, and may have a key of theirs."""
    if exchange.format != "messages":
        return [f"authorization: Bearer {key}"]
    is_own = exchange.question % 2 == 0
    return [
        f"x-api-key: {key}" if is_own else f"authorization: Bearer {key}",
        "anthropic-version: 2023-06-01",
    ]


async def connect_client(
    loop: VirtualLoop, address: Address, connection: asyncio.Protocol, exchange: Exchange
) -> bool:
    """Connect; False if the gateway does not listen."""
    try:
        transport = await loop.connect(address, connection)
        exchange.process = transport.peer.process_name
    except ConnectionError:
        exchange.outcome, exchange.ended = "unreachable", loop.time()
        return False
    return True
