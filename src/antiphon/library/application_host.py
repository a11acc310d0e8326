"""Application host: opens the HTTP application on first use, and closes it once."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack

from antiphon.config import Config
from antiphon.library.settings import ConfigLike, resolve_config, write_log
from antiphon.server.application import Application
from antiphon.server.gateway import GatewayProcess
from antiphon.server.wiring import open_setup


class ApplicationHost:
    """The application of a configuration. It belongs to the event loop that opens it."""

    def __init__(self, config: ConfigLike = None) -> None:
        self._config: Config = resolve_config(config, os.environ)
        self._resources = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._application: Application | None = None

    async def open(self) -> Application:
        """Return the application, opened if it is not open yet."""
        async with self._opening:
            if self._application is None:
                self._application = await self._open()
        return self._application

    async def _open(self) -> Application:
        """Open everything, or leave nothing open: the request that opens it may be cancelled."""
        async with AsyncExitStack() as opened:
            setup = await opened.enter_async_context(
                open_setup(self._config, os.environ, write_log)
            )
            process = GatewayProcess(setup)
            opened.push_async_callback(process.close)
            await process.start()
            self._resources = opened.pop_all()
        return Application(process)

    async def close(self) -> None:
        """End the runs that are left, and close every connection and file."""
        self._application = None
        await self._resources.aclose()
