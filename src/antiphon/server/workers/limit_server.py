"""Counters of limits for all workers, in their parent: one socket for each worker."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from antiphon.observe.counters import MemoryLimitCounters
from antiphon.observe.worker_counters import WorkerConnection

_RECEIVE_BYTES = 64 * 1024


class LimitServer:
    """Serves workers from the loop of their parent, which calls the functions registered in
    `selector` when their sockets are ready. It never waits for a worker."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        monotonic: Callable[[], float] = time.monotonic,
        epoch_s: Callable[[], float] = time.time,
    ) -> None:
        self._selector = selector
        self._counters = MemoryLimitCounters(monotonic, epoch_s)
        self._sockets: dict[socket.socket, bytes] = {}
        """Bytes to be sent, by socket."""

    def connect(self) -> socket.socket:
        """Return the end of a new connection for a worker."""
        own, workers = socket.socketpair()
        own.setblocking(False)
        self._sockets[own] = b""
        connection = WorkerConnection(self._counters)
        on_ready = partial(self._on_ready, own, connection)
        self._selector.register(own, selectors.EVENT_READ, on_ready)
        return workers

    def close(self) -> None:
        """Close the sockets; in a worker, where they are the parent's."""
        for each in self._sockets:
            each.close()

    def _on_ready(self, own: socket.socket, connection: WorkerConnection) -> None:
        received = self._receive(own)
        if received == b"":
            connection.close()
            self._selector.unregister(own)
            del self._sockets[own]
            own.close()
            return
        replies = b"" if received is None else connection.feed(received)
        self._send(own, self._sockets[own] + replies)

    @staticmethod
    def _receive(own: socket.socket) -> bytes | None:
        """Return what has arrived, b"" at the end, None if it is only ready to send."""
        try:
            return own.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def _send(self, own: socket.socket, data: bytes) -> None:
        """Send what the socket takes, and the rest when it is ready."""
        sent = 0
        with suppress(OSError):  # the end of the worker is seen by reading
            sent = own.send(data) if data else 0
        self._sockets[own] = data[sent:]
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if data[sent:] else 0)
        self._selector.modify(own, events, self._selector.get_key(own).data)
