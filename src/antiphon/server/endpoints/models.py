"""GET /v1/models: the model list, cacheable by its entity tag."""

from __future__ import annotations

from antiphon.server.endpoints.context import Context
from antiphon.server.http import HTTPResponse, json_response
from antiphon.server.model_catalog import entity_tag, model_list


async def list_models(context: Context) -> HTTPResponse:
    engine = context.service.engine
    document = model_list(engine.router, describes_images=engine.describe_images is not None)
    headers = {"etag": entity_tag(document)}
    if headers["etag"] in context.http.headers.get("if-none-match", ""):
        return HTTPResponse(304, headers)
    return json_response(document, headers=headers)
