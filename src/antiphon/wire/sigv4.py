"""Signature Version 4: how a request to Amazon's services proves who sent it.

Pure: the time is passed in as the text that travels with the request (`20150830T123600Z`). What is
signed is what is sent, so the address must reach the wire exactly as it was given here.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping

from msgspec import Struct

_ALGORITHM = "AWS4-HMAC-SHA256"
# Whoever stands between us and the service may change these.
_UNSIGNED = frozenset(
    "authorization connection content-length expect transfer-encoding user-agent".split()
)
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_ADDRESS = re.compile(r"(?P<scheme>https?)://(?P<host>[^/?#]+)(?P<path>[^?#]*)\??(?P<query>[^#]*)")
_REGION = re.compile(r"(?<![a-z0-9-])[a-z]{2,4}(?:-[a-z]+)+-[0-9]{1,2}(?![a-z0-9-])")
_KEY_ID = re.compile(r"[A-Z0-9]{16,128}")


class Credentials(Struct, frozen=True):
    """Who signs. A session token comes with keys that were lent for a while."""

    access_key: str
    secret_key: str
    session_token: str | None = None

    def __repr__(self) -> str:
        return f"Credentials({self.access_key!r})"  # a traceback must not show the secret


def read_credentials(key: str) -> Credentials | None:
    """`ACCESS:SECRET` or `ACCESS:SECRET:TOKEN`; any other key is no pair of keys, and None."""
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
    at: str,
    region: str | None = None,
) -> dict[str, str]:
    """The headers that make a key count: a signature by a pair of keys, or a bearer's token."""
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
        at=at,
    )


def region_of(url: str) -> str | None:
    """The region that a service's address names."""
    found = _REGION.search(_address(url)["host"])
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
    at: str,
) -> dict[str, str]:
    """The headers to add to a request. All that it already has are signed, if they may be."""
    address = _address(url)
    added = {"x-amz-date": at}
    if session_token:
        added["x-amz-security-token"] = session_token
    signed = _signed_headers(address, {**headers, **added})
    names = ";".join(signed)
    canonical = "\n".join(
        (
            method.upper(),
            _canonical_path(address["path"]),
            _canonical_query(address["query"]),
            *(f"{name}:{value}" for name, value in signed.items()),
            "",
            names,
            hashlib.sha256(body).hexdigest(),
        )
    )
    scope = f"{at[:8]}/{region}/{service}/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    signature = _signature(secret_key, scope, f"{_ALGORITHM}\n{at}\n{scope}\n{digest}")
    added["authorization"] = (
        f"{_ALGORITHM} Credential={access_key}/{scope},"
        f" SignedHeaders={names}, Signature={signature}"
    )
    return added


def _signature(secret_key: str, scope: str, text: str) -> str:
    """The secret is stirred with each part of the scope, so that no key works anywhere else."""
    key = b"AWS4" + secret_key.encode()
    for part in (*scope.split("/"), text):
        key = hmac.digest(key, part.encode(), "sha256")
    return key.hex()


def _address(url: str) -> Mapping[str, str]:
    found = _ADDRESS.fullmatch(url.partition("#")[0])
    if found is None:
        raise ValueError("This is not the address of a web service.")
    return found.groupdict()


def _signed_headers(address: Mapping[str, str], headers: Mapping[str, str]) -> dict[str, str]:
    host = address["host"].removesuffix(_DEFAULT_PORTS[address["scheme"]])
    lowered = {"host": host} | {name.lower(): value for name, value in headers.items()}
    return {
        name: " ".join(lowered[name].split()) for name in sorted(lowered) if name not in _UNSIGNED
    }


def _canonical_path(path: str) -> str:
    """Without detours, and encoded once more: what is sent is encoded once already."""
    segments: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            segments = segments[:-1]
        elif segment not in ("", "."):
            segments.append(segment)
    tail = "/" if segments and path.endswith("/") else ""
    return quote("/" + "/".join(segments) + tail, keep="/")


def _canonical_query(query: str) -> str:
    pairs = (each.partition("=") for each in query.split("&") if each)
    return "&".join(f"{name}={value}" for name, value in sorted((n, v) for n, _, v in pairs))


_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def quote(text: str, *, keep: str = "") -> str:
    """Percent-encoded, but for letters, digits, `-._~`, and what is to be kept."""
    kept = _UNRESERVED | frozenset(keep.encode())
    return "".join(
        chr(byte) if byte in kept else f"%{byte:02X}" for byte in text.encode("utf-8", "replace")
    )
