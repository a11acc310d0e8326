"""Static files of the page: our own HTML, JavaScript and CSS, read from the package."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath
from typing import NamedTuple

from antiphon.server.http import HTTPRequest, HTTPResponse

_TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
    " require-trusted-types-for 'script'; trusted-types 'none'"
)
SECURITY_HEADERS: Mapping[str, str] = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}
"""Headers of everything below `/ui`."""


def add_security_headers(response: HTTPResponse) -> None:
    """Add the headers of everything below `/ui`, whatever the response is."""
    for name, value in SECURITY_HEADERS.items():
        response.headers.setdefault(name, value)


class StaticFile(NamedTuple):
    content: bytes
    content_type: str
    etag: str


@cache
def load_files() -> Mapping[str, StaticFile]:
    """Read all files of the page, by their path below `/ui/static/`."""
    directory = files("antiphon.server.ui") / "static"
    found: dict[str, StaticFile] = {}
    for folder in ("", "views"):
        for entry in (directory / folder if folder else directory).iterdir():
            name = str(PurePosixPath(folder) / entry.name)
            if entry.is_file() and (kind := _TYPES.get(PurePosixPath(name).suffix)):
                content = entry.read_bytes()
                tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
                found[name] = StaticFile(content, kind, tag)
    return found


def file_response(http: HTTPRequest, name: str) -> HTTPResponse | None:
    """Answer with a file, or with 304 if the browser has it; None if there is none."""
    file = load_files().get(name)
    if file is None:
        return None
    if file.etag in http.headers.get("if-none-match", ""):
        return HTTPResponse(304, {"etag": file.etag})
    return HTTPResponse(200, {"content-type": file.content_type, "etag": file.etag}, file.content)


def shell_response(path: str, status: int = 200) -> HTTPResponse:
    """Answer with the HTML of every view. Its links are relative, so that the gateway may be
    mounted below another application."""
    depth = path.count("/") - 2
    base = "ui/" if depth < 0 else "../" * depth
    file = load_files()["index.html"]
    content = file.content.replace(b"%BASE%", base.encode())
    return HTTPResponse(status, {"content-type": file.content_type}, content)
