"""aiohttp application: the gateway as a sub-application of an aiohttp server."""

from __future__ import annotations

from collections.abc import AsyncIterator

from aiohttp import web

from antiphon.library.application_host import ApplicationHost
from antiphon.library.settings import ConfigLike
from antiphon.server.aiohttp_adapter import handle


def aiohttp_app(config: ConfigLike = None) -> web.Application:
    """Make an aiohttp application of all endpoints, for `web.run_app` or `add_subapp`.

    `config` is as for `antiphon.open`.
    """
    host = ApplicationHost(config)

    async def serve(request: web.Request) -> web.StreamResponse:
        application = await host.open()
        return await handle(application, request, path=f"/{request.match_info['path']}")

    async def open_while_running(_: web.Application) -> AsyncIterator[None]:
        await host.open()
        yield
        await host.close()

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", serve)
    application.cleanup_ctx.append(open_while_running)
    return application
