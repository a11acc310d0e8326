"""Counters of limits in the parent of workers: it never waits for one of them."""

from __future__ import annotations

import selectors
import socket
from contextlib import suppress

from antiphon.server.workers.limit_server import LimitServer
from tests.support.waiting import until

LINE = b'{"type":"Acquire","client":"me","request_id":"r","limits":{}}\n'
COUNT = 5_000


async def test_the_parent_does_not_wait_for_a_worker_that_does_not_read() -> None:
    selector = selectors.DefaultSelector()
    server = LimitServer(selector)

    def run() -> None:
        for key, _ in selector.select(0):
            key.data()

    end = server.connect()
    end.setblocking(False)
    for _ in range(COUNT):  # the replies do not fit into the socket
        end.send(LINE)
        run()
    received = b""

    def is_read() -> bool:
        nonlocal received
        run()
        with suppress(BlockingIOError):
            received += end.recv(1 << 20)
        return received.count(b"\n") == COUNT

    await until(is_read, "a reply to every call")
    end.shutdown(socket.SHUT_RDWR)
    run()
    assert len(selector.get_map()) == 0
    end.close()
    server.close()
    selector.close()
