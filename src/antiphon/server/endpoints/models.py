"""GET /v1/models: the model list, cacheable by its entity tag; and /v1/models/{model}."""

from __future__ import annotations

from antiphon.server.endpoints.context import Context
from antiphon.server.http import HTTPResponse, json_response
from antiphon.server.model_catalog import entity_tag, model_entry, model_list


async def list_models(context: Context) -> HTTPResponse:
    engine = context.service.engine
    document = model_list(
        engine.router,
        describes_images=engine.describe_images is not None,
        discovered=() if engine.discovered is None else engine.discovered(),
    )
    headers = {"etag": entity_tag(document)}
    if headers["etag"] in context.http.headers.get("if-none-match", ""):
        return HTTPResponse(304, headers)
    return json_response(document, headers=headers)


async def retrieve_model(context: Context) -> HTTPResponse:
    """Describe a model by any name that a request may use; 404 with similar names otherwise."""
    router = context.service.engine.router
    return json_response(model_entry(router, context.ids["model"]))
