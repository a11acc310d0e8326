"""What goes wrong with a server, as values: no secrets, no addresses, bounded text."""

from __future__ import annotations

from collections.abc import Mapping

from antiphon.core.mcp.values import McpProblem

_MAX_TEXT = 500
_MIN_SECRET = 4  # shorter values of headers are words such as "1" or "de"
_STAND_INS = (
    "Connection closed",
    "Failed to parse ",
    "Not Found",
    "Redirect to ",
    "SSE stream ",
    "Server returned an error response",
    "Session terminated",
    "Unexpected content type",
)
"""Beginnings of messages that the client package writes itself, where the server sent no error of
the protocol."""

CLOSED = McpProblem(type="http_error", message="The call was cancelled: the response has ended.")


def http_problem(text: str, code: int | None = None) -> McpProblem:
    return McpProblem(type="http_error", message=text, code=code)


def status_problem(label: str, status: int) -> McpProblem:
    advice = {
        401: "; it needs other credentials in `authorization` or `headers`",
        403: "; it needs other credentials in `authorization` or `headers`",
        404: "; check its URL",
    }
    return http_problem(
        f"MCP server '{label}' returned HTTP status {status}{advice.get(status, '')}.", status
    )


def protocol_problem(
    label: str, code: int, message: str, secrets: Mapping[str, str]
) -> McpProblem | None:
    """Describe an error of the protocol; None if the server itself sent none."""
    if message.startswith(_STAND_INS):
        return None
    text = hide_secrets(message, secrets)
    shown = text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + " …"
    return McpProblem(
        type="mcp_protocol_error",
        message=f"MCP server '{label}' returned an error: {shown}",
        code=code,
        quotes=True,
    )


def unreadable_problem(label: str, what: str) -> McpProblem:
    return McpProblem(type="mcp_protocol_error", message=f"MCP server '{label}' {what}.")


def hide_secrets(text: str, headers: Mapping[str, str]) -> str:
    """Replace values of headers in a text: a server may repeat a credential that it refuses."""
    secrets = {word for value in headers.values() for word in (value, *value.split())}
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _MIN_SECRET:
            text = text.replace(secret, "«redacted»")
    return text
