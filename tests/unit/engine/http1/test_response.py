"""A response that is being received: taken, waited for, decompressed, closed."""

from __future__ import annotations

import asyncio
import gzip
import zlib

import pytest

from antiphon.engine.http1.connection import MAX_BUFFERED, Connection, Response
from antiphon.engine.http1.parser import Head
from antiphon.errors import BrokenResponse, ConnectionFailure


class Recorded(Connection):
    """A connection that notes what its response asks for."""

    def __init__(self) -> None:
        super().__init__(lambda _: None, lambda _: None)
        self.calls: list[str] = []

    def resume_reading(self) -> None:
        self.calls.append("resume")

    def abort(self) -> None:
        self.calls.append("abort")


def make(encoding: str | None = None) -> tuple[Response, Recorded]:
    head = Head(status=200, headers={}, encoding=encoding, keeps_alive=True, ends_at_close=False)
    source = Recorded()
    return Response(head, source), source


def test_what_has_arrived_is_taken_at_once() -> None:
    response, _ = make()
    assert response.take() is None
    response.feed(b"a")
    response.feed(b"b")
    assert response.take() == b"ab"
    assert response.take() is None
    response.end()
    assert (response.take(), response.take()) == (b"", b"")


def test_an_error_comes_after_what_has_arrived_and_stays() -> None:
    response, _ = make()
    response.feed(b"a")
    response.end(ConnectionFailure("cut"))
    assert response.take() == b"a"
    for _ in range(2):
        with pytest.raises(ConnectionFailure, match="cut"):
            response.take()


def test_a_slow_reader_pauses_its_connection_until_it_reads() -> None:
    response, source = make()
    assert not response.feed(b"a" * MAX_BUFFERED)
    assert response.feed(b"b")
    assert source.calls == []
    assert len(response.take() or b"") == MAX_BUFFERED + 1
    assert source.calls == ["resume"]
    assert not response.feed(b"c")


def test_a_response_that_has_ended_leaves_its_connection_alone() -> None:
    response, source = make()
    response.feed(b"a" * (MAX_BUFFERED + 1))
    response.end()
    response.take()
    response.close()
    assert source.calls == []


async def test_a_reader_waits_for_the_next_part_or_the_end() -> None:
    response, _ = make()
    waiting = asyncio.ensure_future(response.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    response.feed(b"a")
    response.feed(b"b")
    await waiting
    await response.wait()  # it is there
    assert response.take() == b"ab"
    waiting = asyncio.ensure_future(response.wait())
    await asyncio.sleep(0)
    response.end()
    await waiting
    await response.wait()


async def test_a_wait_that_is_cancelled_loses_nothing() -> None:
    response, source = make()
    waiting = asyncio.ensure_future(response.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    response.feed(b"a")
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (response.take(), source.calls) == (b"a", [])


async def test_closing_aborts_the_connection_and_ends_a_wait() -> None:
    response, source = make("gzip")
    waiting = asyncio.ensure_future(response.wait())
    await asyncio.sleep(0)
    response.close()
    response.close()
    await waiting
    assert source.calls == ["abort"]
    with pytest.raises(ConnectionFailure, match="closed by the gateway"):
        response.take()


def take_all(response: Response) -> list[bytes]:
    pieces = []
    while piece := response.take():
        pieces.append(piece)
    return pieces


def test_a_small_body_that_becomes_large_is_decompressed_in_parts() -> None:
    response, _ = make("gzip")
    response.feed(gzip.compress(b"x" * 5_000_000))
    response.end()
    pieces = take_all(response)
    assert sum(map(len, pieces)) == 5_000_000
    assert max(map(len, pieces)) <= 64 * 1024


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_compressed_body_may_be_cut_anywhere(size: int) -> None:
    raw = zlib.compressobj(wbits=-15)
    bodies = {
        "gzip": gzip.compress(b"hello") + gzip.compress(b", world"),
        "deflate": zlib.compress(b"hello, world"),
        "raw": raw.compress(b"hello, world") + raw.flush(),
    }
    for name, body in bodies.items():
        response, _ = make("gzip" if name == "gzip" else "deflate")
        read = b""
        for at in range(0, len(body), size):
            response.feed(body[at : at + size])
            read += response.take() or b""
        response.end()
        assert read + b"".join(take_all(response)) == b"hello, world", name


def test_a_body_that_cannot_be_decompressed_breaks_off() -> None:
    response, source = make("gzip")
    response.feed(b"no gzip")
    for _ in range(2):
        with pytest.raises(ConnectionFailure, match="cannot be decompressed"):
            response.take()
    assert source.calls == ["abort"]


def test_deflate_without_its_end_is_broken() -> None:
    response, _ = make("deflate")
    response.feed(zlib.compress(b"hello")[:-5])
    response.end()
    with pytest.raises(BrokenResponse, match="not complete"):
        take_all(response)


def test_an_empty_body_needs_no_end() -> None:
    response, _ = make("deflate")
    response.end()
    assert take_all(response) == []
