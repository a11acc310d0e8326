"""In-memory transport: one end of a simulated TCP connection, with latency and back-pressure.

Bytes, the end of a stream and resets arrive in the order in which they were sent. What arrives at
the same time arrives as one read. A reader that pauses stops its peer once the buffers are full.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from contextvars import Context
from typing import Any

END = object()
RESET = object()
Side = tuple[asyncio.BaseProtocol, Context, tuple[str, int]]
_HIGH_WATER = 64 * 1024


class MemoryTransport(asyncio.Transport):
    def __init__(self, loop: asyncio.AbstractEventLoop, side: Side, latency_s: float) -> None:
        super().__init__()
        self._loop = loop
        self._protocol: Any = side[0]
        self._context = side[1]
        self._address = side[2]
        self._latency_s = latency_s
        self.peer: MemoryTransport
        self.process_name = ""
        """The process that this end belongs to; empty for an actor of the world."""
        self.is_lost = False
        """Whether the protocol has been told that the connection is over."""
        self.lost_at: float | None = None
        self.socket: MemorySocket | None = None
        """For clients that look at the socket itself."""
        self._is_closing = False
        self._is_paused = False
        self._is_severed = False
        self._travelling: deque[object] = deque()
        self._inbox: list[object] = []
        self._outstanding = 0
        self._is_writing_paused = False
        self._high_water = _HIGH_WATER

    # Interface of asyncio

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "peername":
            return self.peer._address
        if name == "socket":
            return default if self.socket is None else self.socket
        return self._address if name == "sockname" else default

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol  # type: ignore[no-any-return]

    def is_closing(self) -> bool:
        return self._is_closing

    def is_reading(self) -> bool:
        return not self._is_paused and not self._is_closing

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        if self._is_paused:
            self._is_paused = False
            if self._inbox:
                self._loop.call_soon(self._deliver, context=self._context)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing or not data:
            return
        self._outstanding += len(data)
        self._send(bytes(data))
        if self._outstanding > self._high_water and not self._is_writing_paused:
            self._is_writing_paused = True
            self._protocol.pause_writing()

    def write_eof(self) -> None:
        if not self._is_closing:
            self._send(END)

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return self._outstanding

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high_water = _HIGH_WATER if high is None else high

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._send(END)
            self._loop.call_soon(self._lose, None, context=self._context)

    def abort(self) -> None:
        if not self.is_lost:
            self._send(RESET)
            self._is_closing = True
            self._loop.call_soon(self._lose, None, context=self._context)

    @property
    def has_unread(self) -> bool:
        """Whether bytes, the end or a reset have arrived that the protocol has not seen."""
        return self._is_closing or bool(self._inbox)

    # The network

    def sever(self) -> None:
        """Cut the connection with its process: the peer sees a reset, this end does nothing."""
        self._send(RESET)
        self._is_severed = self._is_closing = True
        self._loop.call_soon(self._lose, None, context=self._context)

    def _send(self, sent: object) -> None:
        peer = self.peer
        if self._is_severed or peer.is_lost:
            if sent is not END and sent is not RESET and not self._is_closing:
                # Nobody is there any more: the system answers with a reset.
                self._loop.call_later(2 * self._latency_s, self._reset, context=self._context)
            return
        peer._travelling.append(sent)
        self._loop.call_later(self._latency_s, peer._arrive, context=peer._context)

    def _reset(self) -> None:
        self._travelling.append(RESET)
        self._arrive()

    def _arrive(self) -> None:
        self._inbox.append(self._travelling.popleft())
        if len(self._inbox) == 1 and not self._is_paused:
            self._loop.call_soon(self._deliver, context=self._context)

    def _deliver(self) -> None:
        """Pass on everything that has arrived, as one read."""
        if self._is_paused or self.is_lost:
            return
        inbox, self._inbox = self._inbox, []
        pieces = [each for each in inbox if isinstance(each, bytes)]
        if pieces:
            data = b"".join(pieces)
            if self._is_closing:
                self._loop.call_later(self._latency_s, self.peer._reset, context=self.peer._context)
            else:
                self._protocol.data_received(data)
            self.peer._acknowledge(len(data))
        if RESET in inbox:
            self._fail(ConnectionResetError(104, "connection reset by peer"))
        elif END in inbox and not self._is_closing:
            self._receive_end()

    def _receive_end(self) -> None:
        if self._is_paused:  # by what was just received
            self._inbox.insert(0, END)
        elif not self._protocol.eof_received():
            self.close()

    def _acknowledge(self, count: int) -> None:
        self._outstanding -= count
        if self._is_writing_paused and self._outstanding <= self._high_water // 4:
            self._is_writing_paused = False
            if not self.is_lost:
                self._context.run(self._protocol.resume_writing)

    def _fail(self, error: Exception) -> None:
        self._is_closing = True
        self._lose(error)

    def _lose(self, error: Exception | None) -> None:
        if not self.is_lost:
            self.is_lost = True
            self.lost_at = self._loop.time()
            self._protocol.connection_lost(error)


def connect_pair(
    loop: asyncio.AbstractEventLoop, near: Side, far: Side, latency_s: float
) -> tuple[MemoryTransport, MemoryTransport]:
    """Connect two protocols."""
    ends = MemoryTransport(loop, near, latency_s), MemoryTransport(loop, far, latency_s)
    ends[0].peer, ends[1].peer = ends[1], ends[0]
    loop.call_soon(far[0].connection_made, ends[1], context=far[1])
    near[1].run(near[0].connection_made, ends[0])
    return ends


class MemorySocket:
    """What anyio and the HTTP client of MCP ask a socket for."""

    family = socket.AF_INET

    def __init__(self, transport: MemoryTransport, silent: int) -> None:
        """`silent` is a file descriptor that never becomes readable."""
        self._transport = transport
        self._silent = silent

    def getpeername(self) -> Any:
        return self._transport.get_extra_info("peername")

    def getsockname(self) -> Any:
        return self._transport.get_extra_info("sockname")

    def fileno(self) -> int:
        """A pooled connection is used again if this is not readable; -1 counts as readable."""
        return -1 if self._transport.has_unread else self._silent
