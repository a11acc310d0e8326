"""A proxy before a PostgreSQL server that refuses connections, or cuts them at chosen moments."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit


class PostgresProxy:
    """Forwards bytes between clients and the server."""

    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)
        self.url = ""
        self.is_away = False
        """Whether new connections are refused."""
        self.refused = 0
        """Number of connections that were refused."""
        self.lose_replies = 0
        """How many of the next replies are lost with their connection, after the server has done
        what it was asked for."""
        self.replies_left: int | None = None
        """How many more replies are passed on; None: all of them."""
        self.has_withheld = False
        """Whether a reply was not passed on."""
        self._writers: set[asyncio.StreamWriter] = set()
        self._silent: set[asyncio.StreamWriter] = set()

    @property
    def connection_count(self) -> int:
        """Number of connections of clients that are open."""
        return len(self._writers) // 2

    def cut_all(self) -> None:
        """Close every connection."""
        for writer in list(self._writers):
            writer.close()

    def silence_all(self) -> None:
        """Keep every connection open without passing anything on, as a dead network does."""
        self._silent |= self._writers

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_away:
            self.refused += 1
            writer.close()
            return
        upstream = await asyncio.open_connection(self._parts.hostname, self._parts.port)
        self._writers |= {writer, upstream[1]}
        both = (
            self._forward(reader, upstream[1], is_reply=False),
            self._forward(upstream[0], writer, is_reply=True),
        )
        await asyncio.gather(*both)
        self._writers -= {writer, upstream[1]}

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_reply: bool
    ) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                if is_reply and self.lose_replies:
                    self.lose_replies -= 1
                    break
                if is_reply and self.replies_left is not None:
                    if not self.replies_left:
                        self.has_withheld = True
                        continue
                    self.replies_left -= 1
                if writer not in self._silent:
                    writer.write(data)
                    await writer.drain()
        writer.close()

    def rewrite(self, port: int) -> str:
        """Return the URL of the server with another port."""
        user, _, _ = self._parts.netloc.rpartition("@")
        return self._parts._replace(netloc=f"{user}@127.0.0.1:{port}").geturl()


@asynccontextmanager
async def run_proxy(url: str) -> AsyncIterator[PostgresProxy]:
    proxy = PostgresProxy(url)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.url = proxy.rewrite(server.sockets[0].getsockname()[1])
    try:
        yield proxy
    finally:
        server.close()
        proxy.cut_all()
        await asyncio.sleep(0)
