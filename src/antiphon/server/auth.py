"""Authentication of clients and of operators: keys compared in constant time; without keys,
requests from this machine only."""

from __future__ import annotations

import hmac
import ipaddress
import math
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from functools import lru_cache

from antiphon.config import Config, ServerConfig
from antiphon.errors import InvalidRequest, LimitExceeded
from antiphon.server.http import HTTPRequest

_FORWARDING = (
    "forwarded",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-forwarded-server",
    "x-real-ip",
    "x-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
)
"""Headers that a proxy adds: such a request comes from elsewhere, whatever its address."""
_MIN_KEY = 16  # characters of a client's key where others can try keys
_ATTEMPTS = 10
_ATTEMPTS_S = 60.0
_MAX_ADDRESSES = 4096  # that are remembered; the address whose last failure is the oldest goes


class Authenticator:
    """Identifies the client that sent a request."""

    def __init__(self, api_keys: Mapping[str, str]) -> None:
        self._keys = {name: key.encode() for name, key in api_keys.items()}

    def authenticate(self, http: HTTPRequest) -> str:
        """Return the name of the client's key; raises `InvalidRequest` with status 401 or 403."""
        if not self._keys:
            return self._authenticate_loopback(http)
        sent = _read_keys(http.headers)
        client = next((found for key in sent.values() if (found := self._find(key))), "")
        if not client:
            names = " or ".join(f"`{name}`" for name in sent)
            raise InvalidRequest(
                f"Incorrect API key: {names} must have one of the gateway's own keys."
                if sent
                else "An API key is required: send `Authorization: Bearer KEY`, or the key as"
                " `x-api-key`.",
                code="invalid_api_key",
                status=401,
            )
        return client

    def _find(self, key: bytes) -> str:
        """Return whose key it is; empty if it is no client's."""
        client = ""
        for name, known in self._keys.items():  # always all of them: constant time
            if hmac.compare_digest(key, known):
                client = name
        return client

    def _authenticate_loopback(self, http: HTTPRequest) -> str:
        """Without keys, accept only local clients that address this machine by a local name.

        The Host header keeps web pages out whose DNS name was rebound to 127.0.0.1.
        """
        host = http.headers.get("host", "")
        if not is_loopback(http.remote) or not is_loopback(host_name(host)):
            reason = "this request is from another one"
            if is_loopback(http.remote):
                reason = f"this request is addressed to {host!r}, which is not a local name"
            raise InvalidRequest(
                "Without client keys the gateway serves only requests from this machine to"
                f" 127.0.0.1 or localhost, and {reason}. Set [server] api_keys.",
                code="forbidden",
                status=403,
            )
        return "local"


def _read_keys(headers: Mapping[str, str]) -> dict[str, bytes]:
    """Read the keys of a request by the names of their headers. Clients of Messages may send two,
    if their environment has one of another server, too."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    keys = {
        "Authorization": token.strip() if scheme.lower() == "bearer" else "",
        "x-api-key": headers.get("x-api-key", ""),
    }
    # The server decodes headers with surrogateescape: this restores the bytes as sent.
    return {name: key.encode("utf-8", "surrogateescape") for name, key in keys.items() if key}


def host_name(host: str) -> str:
    """Remove the port from a Host header."""
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdigit() else host


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def keeps_client(before: ServerConfig, after: ServerConfig, client: str) -> bool:
    """Whether a client that was authenticated by one configuration has the same key in another."""
    same_key = before.api_keys.get(client) == after.api_keys.get(client)
    return same_key and bool(before.api_keys) == bool(after.api_keys)


def reject_open_bind(config: Config, host: str | None = None) -> None:
    """Raise `ConfigError` for an address that others can reach without an API key, or with one that
    they can guess; `host` is another address than that of the configuration."""
    host = config.server.host if host is None else host
    if not config.server.api_keys and not is_loopback(host):
        raise config.error_at(
            ["server", "host"],
            f"others can reach {host!r}, but there are no [server] api_keys:"
            ' add one (api_keys = { me = "${MY_KEY}" }), or bind to 127.0.0.1.',
        )
    for name, key in config.server.api_keys.items():
        path = ["server", "api_keys", name]
        length = len("".join(key.split()))
        if not length:
            raise config.error_at(path, "must not be empty")
        if length < _MIN_KEY and not is_loopback(host):
            raise config.error_at(
                path,
                f"has {length} characters, and others can reach server.host:"
                f" use a random key of at least {_MIN_KEY} (openssl rand -hex 16).",
            )


class FailedAttempts:
    """Limits how often an address may send a wrong admin key."""

    def __init__(
        self, clock: Callable[[], float], *, limit: int = _ATTEMPTS, window_s: float = _ATTEMPTS_S
    ) -> None:
        self._clock = clock
        self._limit = limit
        self._window_s = window_s
        self._failed_at: OrderedDict[str, deque[float]] = OrderedDict()

    @property
    def addresses(self) -> int:
        """The number of addresses that are remembered."""
        return len(self._failed_at)

    def match(self, http: HTTPRequest, given: bytes, key: bytes) -> bool:
        """Whether a request was sent with the key. Raises `LimitExceeded`, without a comparison,
        after too many requests of its address that had another one."""
        if not given:
            return False
        address = _network(http.remote)
        self._check(address)
        if hmac.compare_digest(given, key):
            return True
        self._failed_at.setdefault(address, deque()).append(self._clock())
        self._failed_at.move_to_end(address)
        if len(self._failed_at) > _MAX_ADDRESSES:
            self._failed_at.popitem(last=False)
        return False

    def _check(self, address: str) -> None:
        failed_at = self._failed_at.get(address)
        if failed_at is None:
            return
        begin = self._clock() - self._window_s
        while failed_at and failed_at[0] <= begin:
            failed_at.popleft()
        if len(failed_at) < self._limit:
            return
        wait_s = max(1, math.ceil(failed_at[0] - begin))
        raise LimitExceeded(
            f"Too many wrong admin keys were sent from this address. Try again in {wait_s} s.",
            code="too_many_attempts",
            kind="rate_limit_error",
            headers={"retry-after": str(wait_s)},
            permanent=False,
        )


@lru_cache(maxsize=256)
def _network(address: str) -> str:
    """The addresses that count as one: of IPv6, which gives each customer many, the first half."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4 or parsed.ipv4_mapped is not None:
        return address
    return str(ipaddress.ip_network((parsed, 64), strict=False))


def check_admin(http: HTTPRequest, admin_key: str, attempts: FailedAttempts) -> None:
    """Raise `InvalidRequest` unless a request has the admin key or, where none is configured,
    comes from this machine."""
    if not admin_key and not is_local(http):
        raise InvalidRequest(
            f"{http.path} is for this machine only. To read it from elsewhere, set `admin_key` in"
            " [server].",
            code="forbidden",
            status=403,
        )
    if admin_key and not attempts.match(http, read_bearer(http), admin_key.encode()):
        raise InvalidRequest(
            f"{http.path} needs the admin key: send `Authorization: Bearer KEY` with the"
            " `admin_key` of [server].",
            code="invalid_api_key",
            status=401,
        )


def read_bearer(http: HTTPRequest) -> bytes:
    """The bearer token of a request as it was sent; empty if it has none."""
    scheme, _, token = http.headers.get("authorization", "").partition(" ")
    return token.strip().encode("utf-8", "surrogateescape") if scheme.lower() == "bearer" else b""


def is_local(http: HTTPRequest) -> bool:
    """Whether a request comes from this machine, to a name of this machine, and not by a proxy."""
    headers = http.headers
    is_forwarded = any(headers.get(header) is not None for header in _FORWARDING)
    name = host_name(headers.get("host", ""))
    return is_loopback(http.remote) and is_loopback(name) and not is_forwarded
