"""Reserved ports: for the server that asks for them, and for nobody else."""

from __future__ import annotations

import socket

import pytest

from tests.support.ports import ReservedPort


@pytest.fixture
def reserved() -> ReservedPort:
    return ReservedPort()


def test_a_server_may_be_started_again_and_again_on_its_port(reserved: ReservedPort) -> None:
    address = ("127.0.0.1", reserved.number)
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
        with socket.create_server(address), socket.create_connection(address):
            pass
    reserved.release()


def test_a_server_that_asks_for_any_port_gets_another_one(reserved: ReservedPort) -> None:
    others = [socket.create_server(("127.0.0.1", 0)) for _ in range(200)]
    assert reserved.number not in [each.getsockname()[1] for each in others]
    for each in others:
        each.close()
    reserved.release()
