"""Ports for servers that are started and stopped again while others look for free ports."""

from __future__ import annotations

import socket
import sys


class ReservedPort:
    """A free port of this machine for a server of its own, until it is released.

    A socket stays bound to it and never listens: the kernel gives the port to nobody who asks for
    any port, and still to the server that asks for this one, also when it is started again. Other
    systems than Linux refuse that, so there the port is only likely to stay free.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number = int(self._socket.getsockname()[1])
        if sys.platform != "linux":
            self.release()

    def release(self) -> None:
        self._socket.close()
