"""GET /v1/models: the model list, cacheable by its entity tag; and /v1/models/{model}."""

from __future__ import annotations

from antiphon.server.exchange import Exchange
from antiphon.server.http import HTTPResponse, json_response
from antiphon.server.model_catalog import entity_tag, model_entry, model_list


async def list_models(exchange: Exchange) -> HTTPResponse:
    engine = exchange.setup.engine
    document = model_list(
        engine.router,
        describes_images=engine.preparer.describes_images,
        discovered=exchange.setup.discovered_models(),
    )
    headers = {"etag": entity_tag(document)}
    if headers["etag"] in exchange.http.headers.get("if-none-match", ""):
        return HTTPResponse(304, headers)
    return json_response(document, headers=headers)


async def retrieve_model(exchange: Exchange) -> HTTPResponse:
    """Describe a model by any name that a request may use; 404 with similar names otherwise."""
    router = exchange.setup.engine.router
    return json_response(model_entry(router, exchange.ids["model"]))
