"""The application: routes behind a door, and every failure in the API's own shape."""

from __future__ import annotations

from aiohttp import web
from aiohttp.typedefs import Handler

from antiphon.config import Config
from antiphon.core.faults.fault import internal_fault
from antiphon.core.faults.messages import describe
from antiphon.engine.engine import Engine
from antiphon.errors import AntiphonError, InvalidRequest
from antiphon.pipeline.log import Entry
from antiphon.server.app_keys import CLIENT, PROFILE, REQUEST_ID
from antiphon.server.auth import Authenticator
from antiphon.server.clients import Clients
from antiphon.server.errors import error_response, fit, refused
from antiphon.server.routes import Routes


def make_app(engine: Engine, config: Config) -> tuple[web.Application, Routes]:
    doorkeeper = Authenticator(config.server.api_keys)
    clients = Clients(config)
    routes = Routes(engine, config.server)

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        request[REQUEST_ID] = request_id = engine.services.runtime.new_id("req")
        request[PROFILE] = profile = clients.profile(request.headers)
        try:
            if not request.path.startswith("/health"):
                request[CLIENT] = doorkeeper.admit(request)
            response = await handler(request)
        except InvalidRequest as error:
            response = refused(error)
        except web.HTTPException as error:
            response = _plain_failure(request, error)
        except ConnectionError:
            raise  # the client has gone, and there is nobody to answer
        except AntiphonError as error:
            facts = {"request_id": request_id, "code": error.code, "reason": error.message}
            engine.services.emit(Entry("request.failed", "error", facts))
            response = _own_failure(error)
        except Exception as error:  # a bug: the client gets a clean 500, the operator its name
            facts = {"request_id": request_id, "error": type(error).__name__}
            engine.services.emit(Entry("request.crashed", "error", facts))
            response = _own_failure(error)
        fit(response, profile)
        if not response.prepared:
            response.headers["x-request-id"] = request_id
        return response

    app = web.Application(middlewares=[guard], client_max_size=config.server.max_body_bytes)
    routes.add_to(app)
    return app, routes


def _own_failure(error: Exception) -> web.Response:
    """What went wrong here is for the operator: it may name files."""
    message = describe(internal_fault(error))
    return error_response(500, message, kind="server_error", code="server_error")


def _plain_failure(http: web.Request, error: web.HTTPException) -> web.Response:
    match error.status:
        case 404:
            message = f"There is nothing at {http.path}."
        case 405:
            message = f"{http.method} is not allowed at {http.path}."
        case 413:
            message = "The request body is too large."
        case _:
            message = error.reason
    headers = {"allow": error.headers["allow"]} if "allow" in error.headers else None
    code = {404: "not_found", 405: "method_not_allowed", 413: "request_too_large"}.get(error.status)
    return error_response(error.status, message, code=code, headers=headers)
