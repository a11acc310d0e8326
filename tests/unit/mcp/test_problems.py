"""Problems of servers, as values without secrets."""

from __future__ import annotations

from antiphon.mcp.problems import hide_secrets, protocol_problem, status_problem


def test_a_refused_credential_is_said_with_its_status_and_advice() -> None:
    problem = status_problem("a", 401)
    assert problem.type == "http_error"
    assert problem.code == 401
    assert problem.message == (
        "MCP server 'a' returned HTTP status 401; it needs other credentials in `authorization` or"
        " `headers`."
    )


def test_an_error_of_the_protocol_keeps_its_code_and_its_text_is_bounded() -> None:
    problem = protocol_problem("a", -32602, "x" * 1000, {})
    assert problem is not None
    assert problem.type == "mcp_protocol_error"
    assert (problem.code, problem.quotes) == (-32602, True)
    assert len(problem.message) < 600


def test_a_message_of_the_client_package_is_not_one_of_the_server() -> None:
    assert protocol_problem("a", -32603, "Server returned an error response", {}) is None
    assert protocol_problem("a", -32700, "Failed to parse JSON response: canary", {}) is None
    assert protocol_problem("a", -32600, "Unexpected content type: text/canary", {}) is None


def test_a_credential_that_a_server_repeats_is_hidden() -> None:
    headers = {"authorization": "Bearer canary-1234", "x": "de"}
    text = "wrong token canary-1234 (Bearer canary-1234), language de"
    assert hide_secrets(text, headers) == ("wrong token «redacted» («redacted»), language de")
