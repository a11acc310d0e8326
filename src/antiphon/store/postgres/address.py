"""Addresses of PostgreSQL databases: `postgresql://USER:PASSWORD@HOST:PORT/DATABASE?OPTIONS`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

from msgspec import Struct

from antiphon.errors import StoreError

DEFAULT_SCHEMA = "antiphon"
CONNECT_S = 5.0
"""Seconds to connect, unless the URL has `connect_timeout`."""
_UNREADABLE = (
    "The PostgreSQL URL of the store cannot be read: its port and `connect_timeout` must be"
    " numbers, and special characters in the password must be percent-encoded."
)
_MAX_SCHEMA_BYTES = 56
"""PostgreSQL cuts names at 63 bytes; the channel of notifications is the name of the schema and
`_events`."""
_HOSTS = re.compile(r"([^,:\[\]]*|\[[^\]]*\])(:\d*)?(,([^,:\[\]]*|\[[^\]]*\])(:\d*)?)*")
_FILES = ("sslrootcert", "sslcert", "sslkey", "sslcrl")
_SESSION = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
"""Settings that let the server notice a gateway that is gone without a word: its locks end with its
connection, by default after two hours."""


class PostgresAddress(Struct, frozen=True):
    """Where a database is, and how to connect to it."""

    dsn: str
    """The URL with the options that the driver reads itself: TLS, host, user and so on."""
    name: str
    """For messages: without user name, password and options."""
    schema: str = DEFAULT_SCHEMA
    connect_s: float = CONNECT_S
    given: frozenset[str] = frozenset()
    """Names of the options in the URL: they go before our own."""

    def options(self) -> dict[str, Any]:
        """Return the arguments of a connection."""
        name = {} if "application_name" in self.given else {"application_name": "antiphon"}
        return {"dsn": self.dsn, "timeout": self.connect_s, "server_settings": name}

    def check_files(self) -> None:
        """Raise `StoreError` if a file of the options for TLS cannot be read: the error of the
        driver does not name it."""
        for name, path in parse_qsl(urlsplit(self.dsn).query):
            if name in _FILES and not os.access(path, os.R_OK):
                raise StoreError(f"{self.name}: the file {path!r} of `{name}` cannot be read.")

    def session(self, **more: str) -> str:
        """Return the statements that a connection begins with. They are no parameters of the
        connection, which a pooler refuses or ignores."""
        settings = {**_SESSION, **more}
        own = [f"SET {name} TO '{settings[name]}'" for name in settings if name not in self.given]
        return "; ".join([f'SET search_path TO "{self.schema}"', *own])


def _has_password_outside(parts: SplitResult, options: Iterable[str]) -> bool:
    """Whether a part of the password is where path or options are expected: messages have these.
    Its `/`, `?` or `#` was not encoded."""
    return any("@" in name for name in (parts.path, *options)) or bool(parts.fragment)


def parse_address(url: str) -> PostgresAddress:
    """Parse a URL; raises `StoreError` without quoting its password."""
    try:
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        schema = query.pop("schema", DEFAULT_SCHEMA)
        connect_s = float(query.pop("connect_timeout", CONNECT_S))
        hosts = parts.netloc.rpartition("@")[2]
    except ValueError:
        raise StoreError(_UNREADABLE) from None
    if not _HOSTS.fullmatch(hosts) or _has_password_outside(parts, query):
        raise StoreError(_UNREADABLE)
    if not schema.replace("_", "").isalnum() or len(schema.encode()) > _MAX_SCHEMA_BYTES:
        raise StoreError(
            f"{schema!r} is not a schema name: use letters, digits and underscores, at most"
            f" {_MAX_SCHEMA_BYTES} bytes."
        )
    dsn = urlunsplit(parts._replace(query=urlencode(query)))
    name = f"postgresql://{hosts or query.get('host', '')}{parts.path}"
    return PostgresAddress(dsn, name, schema, connect_s, frozenset(query))
