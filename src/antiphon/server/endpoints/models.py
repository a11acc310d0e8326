"""GET /v1/models: the model list, cacheable by its entity tag; and /v1/models/{model}.

Clients of Messages get both in the shape of Anthropic's API. Claude Code takes no names but those
that begin with `claude` or `anthropic`: it gets every other one with `VIA` before it.
"""

from __future__ import annotations

from typing import Any

from antiphon.engine.routing import VIA, Router
from antiphon.errors import InvalidRequest
from antiphon.server.endpoints.query import Query
from antiphon.server.exchange import Exchange
from antiphon.server.http import HTTPResponse, json_response
from antiphon.server.model_catalog import entity_tag, list_names, model_entry, model_list

_MESSAGES = "messages"
_CLAUDE_CODE = "claude-code"
_LISTED_BY_CLAUDE_CODE = ("claude", "anthropic")
_MOST = 1000  # entries of one page, as in Anthropic's API
_UNKNOWN_DATE = "1970-01-01T00:00:00Z"


async def list_models(exchange: Exchange) -> HTTPResponse:
    setup = exchange.setup
    if exchange.dialect.name == _MESSAGES:
        return json_response(_list_for_messages(exchange))
    document = model_list(
        setup.engine.router,
        describes_images=setup.engine.preparer.describes_images,
        discovered=setup.discovered_models(),
    )
    headers = {"etag": entity_tag(document)}
    if headers["etag"] in exchange.http.headers.get("if-none-match", ""):
        return HTTPResponse(304, headers)
    return json_response(document, headers=headers)


async def retrieve_model(exchange: Exchange) -> HTTPResponse:
    """Describe a model by any name that a request may use; 404 with similar names otherwise."""
    router = exchange.setup.engine.router
    name = exchange.ids["model"]
    if exchange.dialect.name == _MESSAGES:
        return json_response(_describe_for_messages(router, name))
    return json_response(model_entry(router, name))


# The shape of Anthropic's API


def _list_for_messages(exchange: Exchange) -> dict[str, Any]:
    """One page of the list: `limit` models after `after_id`, or before `before_id`."""
    router = exchange.setup.engine.router
    names = list_names(router, exchange.setup.discovered_models())
    if exchange.caller.profile.name == _CLAUDE_CODE:
        names = [_name_for_claude_code(name) for name in names]
    query = Query(exchange.http.query)
    limit = query.integer("limit", _MOST, minimum=1, maximum=_MOST)
    if before := query.text("before_id"):
        rest = names[: _find(names, before, "before_id")]
        page = rest[-limit:]
    else:
        after = query.text("after_id")
        rest = names[_find(names, after, "after_id") + 1 :] if after else names
        page = rest[:limit]
    return {
        "data": [_describe_for_messages(router, name) for name in page],
        "has_more": len(page) < len(rest),
        "first_id": page[0] if page else None,
        "last_id": page[-1] if page else None,
    }


def _name_for_claude_code(name: str) -> str:
    return name if name.startswith(_LISTED_BY_CLAUDE_CODE) else f"{VIA}{name}"


def _find(names: list[str], name: str, param: str) -> int:
    if name not in names:
        raise InvalidRequest(f"There is no model {name!r} in the list.", param=param)
    return names.index(name)


def _describe_for_messages(router: Router, name: str) -> dict[str, Any]:
    target = router.resolve(name)
    can = target.capabilities
    return {
        "type": "model",
        "id": name,
        "display_name": f"{target.model} by {target.provider.spec.title}",
        "created_at": _UNKNOWN_DATE,
        "lifecycle": "active",
        "max_input_tokens": can.context_window,
        "max_tokens": can.max_output_tokens,
    }
