"""Access to the page: the admin key, or this machine only; never from pages of other origins.

Without an admin key, every user of the machine may look at the page. Changes need the page token,
which only the user who runs the gateway can read.

A session is a cookie that we have signed, so that no process has to remember it. A session that was
ended is remembered until it would have expired.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import NamedTuple

from antiphon.errors import InvalidRequest
from antiphon.server.auth import FailedAttempts, is_local, read_bearer
from antiphon.server.http import HTTPRequest

COOKIE = "antiphon_session"
SESSION_S = 12 * 3600
ENDED_FILE = "page-sessions-ended"
_ID_BYTES = 12
_MAX_LINES = 100  # of the file; then expired ones are removed


class PageSession(NamedTuple):
    """A session of the page: the operator who has signed in on one browser."""

    expires: int
    id: str


class EndedSessions:
    """Sessions that were ended before they expire. The file makes them known to the other processes
    of the gateway and to later ones."""

    def __init__(self, path: Path | None, now: Callable[[], int]) -> None:
        """Without a path, only this process knows them."""
        self._path = path
        self._now = now
        self._sessions: set[PageSession] = set()
        self._read_version: tuple[int, int] | None = None

    def __contains__(self, session: PageSession) -> bool:
        self._read()
        return session in self._sessions

    def add(self, session: PageSession) -> None:
        self._read()
        self._sessions = {each for each in self._sessions if each.expires > self._now()}
        self._sessions.add(session)
        if self._path is not None:
            with suppress(OSError):  # then this process knows it, until it ends
                self._write(self._path, session)

    def _read(self) -> None:
        """Read the file, if it has changed."""
        if self._path is None:
            return
        try:
            found = self._path.stat()
            version = found.st_mtime_ns, found.st_size
            if version == self._read_version:
                return
            lines = self._path.read_text().splitlines()
        except OSError:  # there is none
            return
        pairs = (line.partition(" ") for line in lines)
        self._sessions |= {PageSession(int(at), id) for at, _, id in pairs if at.isdigit() and id}
        self._read_version = version

    def _write(self, path: Path, session: PageSession) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        is_full = path.exists() and len(path.read_text().splitlines()) >= _MAX_LINES
        kept = self._sessions if is_full else {session}
        lines = "".join(f"{each.expires} {each.id}\n" for each in sorted(kept))
        flags = os.O_TRUNC if is_full else os.O_APPEND
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o600)
        with open(handle, "w") as file:
            file.write(lines)


class PageAccess:
    """Decides who may open the page and use its API."""

    def __init__(
        self,
        admin_key: str,
        now: Callable[[], int],
        attempts: FailedAttempts,
        ended: EndedSessions,
        new_bytes: Callable[[int], bytes],
        *,
        token: str = "",
    ) -> None:
        """`token` takes the place of an admin key for changes; empty: without a key, there are
        none."""
        self._key = (admin_key or token).encode()
        self.needs_key = bool(admin_key)
        """Whether the page cannot be used without the key."""
        self._now = now
        self._attempts = attempts
        self._ended = ended
        self._new_bytes = new_bytes
        self._signing_key = hashlib.sha256(b"antiphon page session\0" + self._key).digest()

    def check_page(self, http: HTTPRequest) -> None:
        """Raise `InvalidRequest` if the page itself, which holds no data, may not be opened."""
        if not self.needs_key and not is_local(http):
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
        if self.needs_key and not self.is_signed_in(http):
            raise InvalidRequest(
                "The page needs the admin key: sign in, or send `Authorization: Bearer KEY` with"
                " the `admin_key` of [server].",
                code="invalid_api_key",
                status=401,
            )

    def may_change(self, http: HTTPRequest) -> bool:
        """Whether a request may change keys and settings."""
        return bool(self._key) and self.is_signed_in(http)

    def check_change(self, http: HTTPRequest) -> None:
        """Raise `InvalidRequest` if keys and settings may not be changed."""
        if not self.may_change(http):
            raise InvalidRequest(
                "Changes on the page need its link with a token, which `antiphon serve` shows in"
                " its terminal, or `admin_key` in [server]: every user of this machine can open the"
                " page.",
                code="page_token_required",
                status=403,
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

    def sign_in(self, http: HTTPRequest, key: str) -> str:
        """Return the cookie of a session; raises `InvalidRequest` for a wrong key or token."""
        if not self._key or not self._match(http, key.encode("utf-8", "replace")):
            raise InvalidRequest(
                "Incorrect admin key: it is the `admin_key` of [server] in the configuration."
                if self.needs_key
                else "Incorrect token: use the link that `antiphon serve` shows in its terminal.",
                param="key",
                code="invalid_api_key",
                status=401,
            )
        session = f"{self._now() + SESSION_S}.{self._new_bytes(_ID_BYTES).hex()}"
        return _cookie(f"{session}.{self._sign(session)}", SESSION_S)

    def sign_out(self, http: HTTPRequest) -> str:
        """End the session of a request; return the cookie that takes the place of its own."""
        if (session := self._find_session(http)) is not None:
            self._ended.add(session)
        return _cookie("", 0)

    def is_signed_in(self, http: HTTPRequest) -> bool:
        if token := read_bearer(http):
            return self._match(http, token)
        session = self._find_session(http)
        return session is not None and session not in self._ended

    def _match(self, http: HTTPRequest, given: bytes) -> bool:
        """Compare a key. Wrong ones are limited, but for the token: it cannot be guessed, and
        other users of the machine have the same address as its owner."""
        if self.needs_key:
            return self._attempts.match(http, given, self._key)
        return hmac.compare_digest(given, self._key)

    def _find_session(self, http: HTTPRequest) -> PageSession | None:
        """The session of a request, if we have begun it and it has not expired."""
        text, _, signature = _read_cookie(http).rpartition(".")
        expires, _, id = text.partition(".")
        if not (text.isascii() and signature.isascii() and expires.isdigit()):
            return None
        is_ours = hmac.compare_digest(signature, self._sign(text))
        return PageSession(int(expires), id) if is_ours and int(expires) > self._now() else None

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
