"""Access to the page: the admin key, or this machine only; never from pages of other origins."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie

from antiphon.errors import InvalidRequest
from antiphon.server.admin_access import is_local
from antiphon.server.http import HTTPRequest

COOKIE = "antiphon_session"
SESSION_S = 12 * 3600


class PageAccess:
    """Decides who may open the page and use its API."""

    def __init__(self, admin_key: str, now: Callable[[], int]) -> None:
        self._key = admin_key.encode()
        self._now = now
        self._signing_key = hashlib.sha256(b"antiphon page session\0" + self._key).digest()

    @property
    def needs_key(self) -> bool:
        return bool(self._key)

    def check_page(self, http: HTTPRequest) -> None:
        """Raise `InvalidRequest` if the page itself, which holds no data, may not be opened."""
        if not self._key and not is_local(http):
            raise InvalidRequest(
                "The page is for this machine only. To open it from elsewhere, set `admin_key` in"
                " [server].",
                code="forbidden",
                status=403,
            )

    def check_api(self, http: HTTPRequest) -> None:
        """Raise `InvalidRequest` if data may not be read or changed."""
        self.check_page(http)
        self.check_origin(http)
        if self._key and not self.is_signed_in(http):
            raise InvalidRequest(
                "The page needs the admin key: sign in, or send `Authorization: Bearer KEY` with"
                " the `admin_key` of [server].",
                code="invalid_api_key",
                status=401,
            )

    def check_origin(self, http: HTTPRequest) -> None:
        """Refuse requests that a page of another origin makes."""
        headers = http.headers
        origin = headers.get("origin")
        site = headers.get("sec-fetch-site", "none")
        is_own = origin is None or origin.partition("://")[2] == headers.get("host", "")
        if not is_own or site not in ("same-origin", "none"):
            raise InvalidRequest(
                "Requests of other web pages are not accepted here: `Origin` must be the address"
                " of the gateway.",
                code="forbidden",
                status=403,
            )

    def sign_in(self, key: str) -> str:
        """Return the cookie of a session; raises `InvalidRequest` for a wrong key."""
        if not self._key or not hmac.compare_digest(key.encode("utf-8", "replace"), self._key):
            raise InvalidRequest(
                "Incorrect admin key: it is the `admin_key` of [server] in the configuration.",
                param="key",
                code="invalid_api_key",
                status=401,
            )
        expires = str(self._now() + SESSION_S)
        return _cookie(f"{expires}.{self._sign(expires)}", SESSION_S)

    def sign_out(self) -> str:
        """Return the cookie that ends a session."""
        return _cookie("", 0)

    def is_signed_in(self, http: HTTPRequest) -> bool:
        scheme, _, token = http.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            given = token.strip().encode("utf-8", "surrogateescape")
            return hmac.compare_digest(given, self._key)
        expires, _, signature = _read_cookie(http).partition(".")
        if not (expires.isascii() and signature.isascii() and expires.isdigit()):
            return False
        return hmac.compare_digest(signature, self._sign(expires)) and int(expires) > self._now()

    def _sign(self, text: str) -> str:
        return hmac.digest(self._signing_key, text.encode(), "sha256").hex()


def _cookie(value: str, max_age_s: int) -> str:
    return f"{COOKIE}={value}; Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Strict"


def _read_cookie(http: HTTPRequest) -> str:
    try:
        found = SimpleCookie(http.headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""
