"""Routes: endpoints by path and method. Exact paths come first, then paths with an id in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from antiphon.server.endpoints import (
    compact,
    conversations,
    health,
    input_tokens,
    metrics,
    models,
    reload,
    responses,
    stored_responses,
)
from antiphon.server.endpoints.context import Endpoint
from antiphon.server.websocket.handshake import connect

Methods: TypeAlias = Mapping[str, Endpoint]


def _get(endpoint: Endpoint) -> Methods:
    """Methods of an endpoint that is read. A HEAD request is a GET whose body the server leaves
    out."""
    return {"GET": endpoint, "HEAD": endpoint}


EXACT: Mapping[str, Methods] = {
    "/v1/responses": {"POST": responses.create, **_get(connect)},
    "/v1/responses/compact": {"POST": compact.create},
    "/v1/responses/input_tokens": {"POST": input_tokens.count},
    "/v1/conversations": {"POST": conversations.create},
    "/v1/models": _get(models.list_models),
    reload.PATH: {"POST": reload.reload},
    "/health": _get(health.live),
    "/health/live": _get(health.live),
    "/health/ready": _get(health.ready),
    "/metrics": _get(metrics.scrape),
}
"""Endpoints of paths without an id."""

TEMPLATES: Mapping[str, Methods] = {
    "/v1/models/{model:path}": _get(models.retrieve_model),
    "/v1/conversations/{conversation_id}": {
        **_get(conversations.retrieve),
        "POST": conversations.update,
        "DELETE": conversations.delete,
    },
    "/v1/conversations/{conversation_id}/items": {
        **_get(conversations.list_items),
        "POST": conversations.create_items,
    },
    "/v1/conversations/{conversation_id}/items/{item_id}": {
        **_get(conversations.retrieve_item),
        "DELETE": conversations.delete_item,
    },
    "/v1/responses/{response_id}": {
        **_get(stored_responses.retrieve),
        "DELETE": stored_responses.delete,
    },
    "/v1/responses/{response_id}/cancel": {"POST": stored_responses.cancel},
    "/v1/responses/{response_id}/input_items": _get(stored_responses.list_input_items),
}
"""Endpoints of paths with ids: `{name}` is one segment, `{name:path}` may hold slashes."""

PUBLIC = frozenset(path for path in EXACT if path.startswith(("/health", "/metrics", "/admin")))
"""Paths that need no client key: probes, and what checks the access of operators itself."""


class Match(NamedTuple):
    """The endpoints of a path, and the ids that are part of it."""

    methods: Methods
    ids: Mapping[str, str]


def compile_templates(templates: Mapping[str, Methods]) -> list[tuple[re.Pattern[str], Methods]]:
    return [(_compile(template), methods) for template, methods in templates.items()]


def match_template(
    path: str, compiled: Iterable[tuple[re.Pattern[str], Methods]] | None = None
) -> Match | None:
    """Find the first template that a path fits; None if there is none."""
    for pattern, methods in _COMPILED if compiled is None else compiled:
        if found := pattern.fullmatch(path):
            return Match(methods, found.groupdict())
    return None


def _compile(template: str) -> re.Pattern[str]:
    literal = re.escape(template).replace(r"\{", "{").replace(r"\}", "}")
    literal = re.sub(r"\{(\w+):path\}", r"(?P<\1>.+)", literal)
    return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", literal), re.DOTALL)


_COMPILED = compile_templates(TEMPLATES)
