"""Routes: endpoints by path and method. Exact paths come first, then paths with an id in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from antiphon.dialects.anthropic.client import MESSAGES
from antiphon.dialects.chat.client import CHAT
from antiphon.dialects.client_dialect import ClientDialect
from antiphon.dialects.responses.client import RESPONSES
from antiphon.server.create import create
from antiphon.server.endpoints import (
    conversations,
    models,
    operator,
    responses,
    stored_responses,
)
from antiphon.server.exchange import Endpoint
from antiphon.server.websocket.handshake import connect

Methods: TypeAlias = Mapping[str, Endpoint]


class Route(NamedTuple):
    """A path: its endpoints by method, and the format of the clients that use it."""

    methods: Methods
    dialect: ClientDialect = RESPONSES
    is_shared: bool = False
    """Whether clients of every format use it: `SHARED_DIALECTS` says which one it is."""


def _get(endpoint: Endpoint) -> Methods:
    """Methods of an endpoint that is read. A HEAD request is a GET whose body the server leaves
    out."""
    return {"GET": endpoint, "HEAD": endpoint}


SHARED_DIALECTS: Mapping[str, ClientDialect] = {"anthropic-version": MESSAGES}
"""Formats of clients that use shared paths, or paths that do not exist, by a header of theirs."""

EXACT: Mapping[str, Route] = {
    "/v1/chat/completions": Route({"POST": create}, CHAT),
    "/v1/messages": Route({"POST": create}, MESSAGES),
    "/v1/messages/count_tokens": Route({"POST": responses.count_tokens_of_messages}, MESSAGES),
    "/v1/responses": Route({"POST": create, **_get(connect)}),
    "/v1/responses/compact": Route({"POST": responses.compact}),
    "/v1/responses/input_tokens": Route({"POST": responses.count_tokens}),
    "/v1/conversations": Route({"POST": conversations.create}),
    "/v1/models": Route(_get(models.list_models), is_shared=True),
    operator.RELOAD_PATH: Route({"POST": operator.reload}),
    "/health": Route(_get(operator.show_live)),
    "/health/live": Route(_get(operator.show_live)),
    "/health/ready": Route(_get(operator.show_ready)),
    "/metrics": Route(_get(operator.scrape)),
}
"""Routes without an id. Another client format is one row: its path, `create` and its dialect."""

TEMPLATES: Mapping[str, Route] = {
    "/v1/models/{model:path}": Route(_get(models.retrieve_model), is_shared=True),
    "/v1/conversations/{conversation_id}": Route(
        {
            **_get(conversations.retrieve),
            "POST": conversations.update,
            "DELETE": conversations.delete,
        }
    ),
    "/v1/conversations/{conversation_id}/items": Route(
        {
            **_get(conversations.list_items),
            "POST": conversations.create_items,
        }
    ),
    "/v1/conversations/{conversation_id}/items/{item_id}": Route(
        {
            **_get(conversations.retrieve_item),
            "DELETE": conversations.delete_item,
        }
    ),
    "/v1/responses/{response_id}": Route(
        {
            **_get(stored_responses.retrieve),
            "DELETE": stored_responses.delete,
        }
    ),
    "/v1/responses/{response_id}/cancel": Route({"POST": stored_responses.cancel}),
    "/v1/responses/{response_id}/input_items": Route(_get(stored_responses.list_input_items)),
}
"""Routes with ids: `{name}` is one segment, `{name:path}` may hold slashes."""

PUBLIC = frozenset(path for path in EXACT if path.startswith(("/health", "/metrics", "/admin")))
"""Paths that need no client key: probes, and what checks the access of operators itself."""


class Match(NamedTuple):
    """The route of a path, and the ids that are part of it."""

    route: Route
    ids: Mapping[str, str] = {}


EXACT_MATCHES: Mapping[str, Match] = {path: Match(route) for path, route in EXACT.items()}
"""What `find_route` returns for routes without an id."""


def find_route(path: str) -> Match | None:
    """Find the route of a path; None if there is none.

    Base URLs are often set without `/v1`, or with it twice: such a path has the route of the right
    one."""
    if (exact := EXACT_MATCHES.get(path)) is not None:
        return exact
    if (found := match_template(path)) is not None:
        return found
    meant = path.removeprefix("/v1") if path.startswith("/v1/v1/") else f"/v1{path}"
    return EXACT_MATCHES.get(meant) or match_template(meant)


def compile_templates(templates: Mapping[str, Route]) -> list[tuple[re.Pattern[str], Route]]:
    return [(_compile(template), route) for template, route in templates.items()]


def match_template(
    path: str, compiled: Iterable[tuple[re.Pattern[str], Route]] | None = None
) -> Match | None:
    """Find the first template that a path fits; None if there is none."""
    for pattern, route in _COMPILED if compiled is None else compiled:
        if found := pattern.fullmatch(path):
            return Match(route, found.groupdict())
    return None


def _compile(template: str) -> re.Pattern[str]:
    literal = re.escape(template).replace(r"\{", "{").replace(r"\}", "}")
    literal = re.sub(r"\{(\w+):path\}", r"(?P<\1>.+)", literal)
    return re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", literal), re.DOTALL)


_COMPILED = compile_templates(TEMPLATES)
