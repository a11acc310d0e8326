"""Sharing of facts about providers with other processes, over the server that `[shared]` names."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from antiphon.config import Config, SharedConfig
from antiphon.engine.engine import Engine
from antiphon.engine.runtime import Runtime
from antiphon.engine.shared.facts import Fact, SharedFacts
from antiphon.engine.shared.redis_link import RedisLink, import_redis
from antiphon.stages.log import Entry

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


class Sharing(SharedFacts):
    """What one process shares with others; nothing, if the configuration names no server."""

    def __init__(
        self, config: SharedConfig, runtime: Runtime, emit: Callable[[Entry], None]
    ) -> None:
        self._link = RedisLink(config, runtime, emit) if config.url else None
        super().__init__(_drop if self._link is None else self._link.publish)

    def start(self, engine: Engine) -> None:
        """Send facts, and apply those of others to this engine. Waits for no connection."""
        self.attach(engine)
        if self._link is not None:
            self._link.start(self.apply)

    async def close(self) -> None:
        if self._link is not None:
            await self._link.close()


def _drop(fact: Fact, seconds: float) -> None:
    """Send nothing: there is no server."""
