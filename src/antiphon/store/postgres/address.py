"""Addresses of PostgreSQL databases: `postgresql://USER:PASSWORD@HOST:PORT/DATABASE?OPTIONS`."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from msgspec import Struct

from antiphon.errors import StoreError

DEFAULT_SCHEMA = "antiphon"
CONNECT_S = 5.0
"""Seconds to connect, unless the URL has `connect_timeout`."""


class PostgresAddress(Struct, frozen=True):
    """Where a database is, and how to connect to it."""

    dsn: str
    """The URL with the options that the driver reads itself: TLS, host, user and so on."""
    name: str
    """For messages: without user name, password and options."""
    schema: str = DEFAULT_SCHEMA
    connect_s: float = CONNECT_S

    def options(self) -> dict[str, Any]:
        """Return the arguments of a connection."""
        settings = {"search_path": f'"{self.schema}"', "application_name": "antiphon"}
        return {"dsn": self.dsn, "timeout": self.connect_s, "server_settings": settings}


def parse_address(url: str) -> PostgresAddress:
    """Parse a URL; raises `StoreError` without quoting its password."""
    try:
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        schema = query.pop("schema", DEFAULT_SCHEMA)
        connect_s = float(query.pop("connect_timeout", CONNECT_S))
        host = parts.netloc.rpartition("@")[2] or query.get("host", "")
        _ = parts.port
    except ValueError:
        raise StoreError(
            "The PostgreSQL URL of the store cannot be read: its port and `connect_timeout` must be"
            " numbers, and special characters in the password must be percent-encoded."
        ) from None
    if not schema.replace("_", "").isalnum():
        raise StoreError(f"{schema!r} is not a schema name: use letters, digits and underscores.")
    dsn = urlunsplit(parts._replace(query=urlencode(query)))
    name = f"postgresql://{host}{parts.path}"
    return PostgresAddress(dsn, name, schema, connect_s)
