"""HTTP requests and responses as plain values."""

from __future__ import annotations

from antiphon.server.http import HTTPRequest, HTTPResponse, json_response


async def test_a_request_with_a_body_in_memory_reads_it_on_demand() -> None:
    http = HTTPRequest.with_body("POST", "/v1/responses", {"host": "localhost"}, b"{}")
    assert (http.method, http.path, http.remote) == ("POST", "/v1/responses", "127.0.0.1")
    pieces: list[bytes] = []
    await http.read_body(pieces.append)
    assert pieces == [b"{}"]


def test_a_json_response_has_its_content_type_and_the_given_headers() -> None:
    response = json_response({"a": 1}, status=201, headers={"etag": '"x"'})
    assert response == HTTPResponse(
        201, {"content-type": "application/json", "etag": '"x"'}, b'{"a":1}'
    )


def test_two_responses_do_not_share_their_headers() -> None:
    first, second = HTTPResponse(304), HTTPResponse(304)
    first.headers["etag"] = '"x"'
    assert second.headers == {}
