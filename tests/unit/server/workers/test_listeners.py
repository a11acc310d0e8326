"""Sockets of a port that several processes serve."""

from __future__ import annotations

import errno
import socket
import sys
from contextlib import closing

import pytest

from antiphon.server.workers.listeners import bind_listeners, close_listeners


def test_every_worker_has_a_socket_of_the_same_port() -> None:
    groups = bind_listeners("127.0.0.1", 0, 3)
    try:
        addresses = {each.getsockname() for group in groups for each in group}
        assert [len(group) for group in groups] == [1, 1, 1]
        assert len(addresses) == 1
        if sys.platform == "linux":
            assert len({each.fileno() for group in groups for each in group}) == 3
        with closing(socket.create_connection(addresses.pop())):
            pass
    finally:
        close_listeners(groups)


def test_a_port_that_another_group_has_is_in_use() -> None:
    groups = bind_listeners("127.0.0.1", 0, 2)
    port = groups[0][0].getsockname()[1]
    try:
        with pytest.raises(OSError, match="in use") as raised:
            bind_listeners("127.0.0.1", port, 2)
        assert raised.value.errno == errno.EADDRINUSE
    finally:
        close_listeners(groups)
    close_listeners(bind_listeners("127.0.0.1", port, 1))


def test_a_host_with_several_addresses_has_one_port() -> None:
    groups = bind_listeners("localhost", 0, 2)
    try:
        assert len({each.getsockname()[1] for group in groups for each in group}) == 1
        assert len(groups[0]) == len(groups[1])
    finally:
        close_listeners(groups)
