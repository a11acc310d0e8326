"""AWS Signature Version 4: the authorization headers of requests to Amazon's services.

Pure: the time is passed in, in the form of the `x-amz-date` header (`20150830T123600Z`). The URL is
signed as it is given here, so the HTTP client must send it unchanged.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping

from msgspec import Struct

_ALGORITHM = "AWS4-HMAC-SHA256"
# Proxies between the gateway and the service may change these.
_UNSIGNED = frozenset(
    "authorization connection content-length expect transfer-encoding user-agent".split()
)
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_URL = re.compile(r"(?P<scheme>https?)://(?P<host>[^/?#]+)(?P<path>[^?#]*)\??(?P<query>[^#]*)")
_REGION = re.compile(r"(?<![a-z0-9-])[a-z]{2,4}(?:-[a-z]+)+-[0-9]{1,2}(?![a-z0-9-])")
_KEY_ID = re.compile(r"[A-Z0-9]{16,128}")


class Credentials(Struct, frozen=True):
    """An access key pair; temporary ones have a session token."""

    access_key: str
    secret_key: str
    session_token: str | None = None

    def __repr__(self) -> str:
        return f"Credentials({self.access_key!r})"  # the secret must not appear in a traceback


def read_credentials(key: str) -> Credentials | None:
    """Read `ACCESS:SECRET` or `ACCESS:SECRET:TOKEN`; None for any other form of key."""
    access_key, _, rest = key.partition(":")
    secret_key, _, session_token = rest.partition(":")
    if not _KEY_ID.fullmatch(access_key) or not secret_key:
        return None
    return Credentials(access_key, secret_key, session_token or None)


def authorize(
    key: str,
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    service: str,
    timestamp: str,
    region: str | None = None,
) -> dict[str, str]:
    """Make the authorization headers: a signature for a key pair, a bearer token for other keys."""
    credentials = read_credentials(key)
    if credentials is None:
        return {"authorization": f"Bearer {key}"} if key else {}
    return sign(
        method,
        url,
        headers,
        body,
        access_key=credentials.access_key,
        secret_key=credentials.secret_key,
        session_token=credentials.session_token,
        region=region or region_of(url) or "us-east-1",
        service=service,
        timestamp=timestamp,
    )


def region_of(url: str) -> str | None:
    """Find the region in the host name of a service."""
    found = _REGION.search(_split_url(url)["host"])
    return found[0] if found else None


def sign(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    access_key: str,
    secret_key: str,
    session_token: str | None = None,
    region: str,
    service: str,
    timestamp: str,
) -> dict[str, str]:
    """Make the headers to add to a request. The signature covers all headers but `_UNSIGNED`."""
    parts = _split_url(url)
    added = {"x-amz-date": timestamp}
    if session_token:
        added["x-amz-security-token"] = session_token
    signed = _canonical_headers(parts, {**headers, **added})
    names = ";".join(signed)
    canonical = "\n".join(
        (
            method.upper(),
            _canonical_path(parts["path"]),
            _canonical_query(parts["query"]),
            *(f"{name}:{value}" for name, value in signed.items()),
            "",
            names,
            hashlib.sha256(body).hexdigest(),
        )
    )
    scope = f"{timestamp[:8]}/{region}/{service}/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    signature = _signature(secret_key, scope, f"{_ALGORITHM}\n{timestamp}\n{scope}\n{digest}")
    added["authorization"] = (
        f"{_ALGORITHM} Credential={access_key}/{scope},"
        f" SignedHeaders={names}, Signature={signature}"
    )
    return added


def _signature(secret_key: str, scope: str, text: str) -> str:
    """Derive a key from the secret and each part of the scope, and sign with it."""
    key = b"AWS4" + secret_key.encode()
    for part in (*scope.split("/"), text):
        key = hmac.digest(key, part.encode(), "sha256")
    return key.hex()


def _split_url(url: str) -> Mapping[str, str]:
    found = _URL.fullmatch(url.partition("#")[0])
    if found is None:
        raise ValueError("not an HTTP or HTTPS URL")
    return found.groupdict()


def _canonical_headers(url: Mapping[str, str], headers: Mapping[str, str]) -> dict[str, str]:
    host = url["host"].removesuffix(_DEFAULT_PORTS[url["scheme"]])
    lowered = {"host": host} | {name.lower(): value for name, value in headers.items()}
    return {
        name: " ".join(lowered[name].split()) for name in sorted(lowered) if name not in _UNSIGNED
    }


def _canonical_path(path: str) -> str:
    """Resolve `.` and `..`, and percent-encode once more; the path that is sent is encoded once."""
    segments: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            segments = segments[:-1]
        elif segment not in ("", "."):
            segments.append(segment)
    tail = "/" if segments and path.endswith("/") else ""
    return percent_encode("/" + "/".join(segments) + tail, safe="/")


def _canonical_query(query: str) -> str:
    pairs = (each.partition("=") for each in query.split("&") if each)
    return "&".join(f"{name}={value}" for name, value in sorted((n, v) for n, _, v in pairs))


_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def percent_encode(text: str, *, safe: str = "") -> str:
    """Percent-encode all but letters, digits, `-._~` and the `safe` characters."""
    unescaped = _UNRESERVED | frozenset(safe.encode())
    return "".join(
        chr(byte) if byte in unescaped else f"%{byte:02X}"
        for byte in text.encode("utf-8", "replace")
    )
