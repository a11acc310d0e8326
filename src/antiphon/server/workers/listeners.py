"""Sockets of a port that several processes serve.

On Linux each worker has a socket of its own, and the kernel divides connections among them. The
parent keeps all of them open: connections that are not accepted yet wait for the next worker.
Elsewhere the workers share one socket.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from typing import TypeAlias

BACKLOG = 2048

Listeners: TypeAlias = tuple[socket.socket, ...]
"""The sockets of one worker: one for each address of the host."""


def bind_listeners(host: str, port: int, count: int) -> Sequence[Listeners]:
    """Bind a port for so many workers; 0 selects a free port. Raises `OSError` if it is in use."""
    is_divided = sys.platform == "linux"
    groups: list[list[socket.socket]] = [[] for _ in range(count)]
    try:
        for family, address in _resolve(host, port):
            port = _check_free(family, (address[0], port, *address[2:]))
            for group in groups:
                shared = groups[0] if not is_divided and group is not groups[0] else None
                if shared is not None:
                    group.append(shared[len(group)])
                else:
                    group.append(_bind(family, (address[0], port, *address[2:]), is_divided))
    except BaseException:
        close_listeners(groups)
        raise
    return [tuple(group) for group in groups]


def close_listeners(groups: Sequence[Sequence[socket.socket]]) -> None:
    for group in groups:
        for each in group:
            each.close()


def _resolve(host: str, port: int) -> list[tuple[int, tuple[str, int]]]:
    """Return families and addresses, each once, in the order of the resolver."""
    flags = socket.AI_PASSIVE
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return list(dict.fromkeys((int(family), address) for family, *_, address in found))  # type: ignore[misc]


def _check_free(family: int, address: tuple[str, int]) -> int:
    """Return the port; raises `OSError` if another process listens on it. Sockets that share a port
    do not notice each other, so this one does not share."""
    with _make_socket(family) as probe:
        probe.bind(address)
        return int(probe.getsockname()[1])


def _bind(family: int, address: tuple[str, int], is_divided: bool) -> socket.socket:
    listener = _make_socket(family)
    try:
        if is_divided:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def _make_socket(family: int) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    return made
