"""Sharing of an engine: opened with it if the configuration names a server."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias
from urllib.parse import urlsplit

from antiphon.config import Config, SharedConfig
from antiphon.engine.engine import Engine
from antiphon.engine.shared.facts import SharedFacts
from antiphon.engine.shared.redis_link import RedisLink, import_redis

Share: TypeAlias = Callable[[Engine], None]
"""Has an engine share what it learns."""

_SCHEMES = ("redis", "rediss", "unix")
_UNREADABLE = (
    "cannot be read: its port must be a number, its options must be those of redis-py, and special"
    " characters in the password must be percent-encoded"
)


def check_sharing(config: Config) -> None:
    """Check `[shared]` before anything is opened; raises `ConfigError`."""
    url = config.shared.url
    if not url:
        return
    if url.partition("://")[0] not in _SCHEMES:
        problem = "must begin with redis://, rediss:// or unix://"
        raise config.error_at(["shared", "url"], problem)
    redis = import_redis()
    try:
        _check_password(url)
        redis.asyncio.ConnectionPool.from_url(url).make_connection()  # connects with its first use
    except (ValueError, TypeError):
        raise config.error_at(["shared", "url"], _UNREADABLE) from None


def _check_password(url: str) -> None:
    """Raise `ValueError` if a part of the password may be taken for host or path: they are shown
    in the log."""
    parts = urlsplit(url)
    if parts.scheme != "unix" and ("@" in parts.path or parts.fragment):
        raise ValueError


def share_nothing(engine: Engine) -> None:
    """Leave an engine alone: nothing is shared."""


class _Sharing:
    """Context of `open_sharing`. No generator: a loop that ends would close it a second time."""

    def __init__(self, config: SharedConfig, engine: Engine) -> None:
        self._config = config
        self._engine = engine
        self._link: RedisLink | None = None

    async def __aenter__(self) -> Share:
        if not self._config.url:
            return share_nothing
        services = self._engine.services
        self._link = RedisLink(self._config, services.runtime, services.emit)
        facts = SharedFacts(self._link.publish)
        facts.attach(self._engine)
        self._link.start(facts.apply)
        return facts.attach

    async def __aexit__(self, *_: object) -> None:
        if self._link is not None:
            await self._link.close()


def open_sharing(config: SharedConfig, engine: Engine) -> AbstractAsyncContextManager[Share]:
    """Share what an engine learns, as long as the context is open. Waits for no connection.

    The context is how to share with the engine of another configuration instead."""
    return _Sharing(config, engine)
