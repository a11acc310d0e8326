"""Routes: exact paths, and paths with ids."""

from __future__ import annotations

from antiphon.server.exchange import Exchange
from antiphon.server.http import HTTPResponse
from antiphon.server.routes import (
    EXACT,
    PUBLIC,
    Route,
    compile_templates,
    find_route,
    match_template,
)
from tests.support.tables import table


async def answer(exchange: Exchange) -> HTTPResponse:
    return HTTPResponse(204)


COMPILED = compile_templates(
    {
        "/v1/things/{thing_id}": Route({"GET": answer}),
        "/v1/things/{thing_id}/parts/{part_id}": Route({"DELETE": answer}),
        "/v1/models/{model:path}": Route({"GET": answer}),
    }
)


@table(
    ("path", "ids"),
    [
        ("/v1/things/a", {"thing_id": "a"}),
        ("/v1/things/a.b-c~", {"thing_id": "a.b-c~"}),
        ("/v1/things/a/parts/b", {"thing_id": "a", "part_id": "b"}),
        ("/v1/models/maker/model", {"model": "maker/model"}),
    ],
)
def test_the_ids_of_a_path_are_found(path: str, ids: dict[str, str]) -> None:
    match = match_template(path, COMPILED)
    assert match is not None
    assert match.ids == ids


@table("path", ["/v1/things", "/v1/things/", "/v1/things/a/", "/v1/things/a/parts", "/v1/models/"])
def test_a_path_that_fits_no_template_has_no_route(path: str) -> None:
    assert match_template(path, COMPILED) is None


def test_only_health_and_what_is_for_operators_need_no_client_key() -> None:
    health = {"/health", "/health/live", "/health/ready"}
    assert set(PUBLIC) == health | {"/metrics", "/admin/reload"}
    assert set(PUBLIC) < set(EXACT)


def test_a_head_request_is_answered_where_a_get_request_is() -> None:
    assert all(("GET" in route.methods) == ("HEAD" in route.methods) for route in EXACT.values())


@table(
    ("path", "meant"),
    [
        ("/responses", "/v1/responses"),
        ("/chat/completions", "/v1/chat/completions"),
        ("/messages", "/v1/messages"),
        ("/v1/v1/messages", "/v1/messages"),
        ("/models", "/v1/models"),
    ],
)
def test_a_path_of_a_base_url_that_is_nearly_right_has_its_route(path: str, meant: str) -> None:
    match = find_route(path)
    assert match is not None
    assert match.route is EXACT[meant]
    assert path not in PUBLIC


def test_a_stored_response_is_found_without_v1_and_other_paths_have_no_route() -> None:
    match = find_route("/responses/resp_1")
    assert match is not None
    assert match.ids == {"response_id": "resp_1"}
    for path in ("/", "/v1", "/ui", "/v1/health", "/v1/responses/", "/nowhere"):
        assert find_route(path) is None
