"""Static files of the page: complete, our own, small, and without anything inline."""

from __future__ import annotations

import re

from antiphon.server.http import HTTPRequest
from antiphon.server.ui.static_files import (
    SECURITY_HEADERS,
    file_response,
    load_files,
    shell_response,
)
from tests.support.tables import table

FILES = {name: file.content.decode() for name, file in load_files().items()}
MODULES = {name: text for name, text in FILES.items() if name.endswith(".js")}
MAX_LINES = 600


def http(**headers: str) -> HTTPRequest:
    return HTTPRequest.with_body("GET", "/ui/static/main.js", headers)


def test_the_policy_allows_nothing_unsafe_and_nothing_from_elsewhere() -> None:
    policy = SECURITY_HEADERS["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    sources = re.findall(r"(?:script|style|img|connect)-src ([^;]*)", policy)
    assert sources == ["'self'"] * 4


@table("name", sorted(FILES))
def test_no_file_is_longer_than_its_limit(name: str) -> None:
    assert len(FILES[name].splitlines()) <= MAX_LINES


@table("name", sorted(MODULES))
def test_every_import_of_a_module_exists(name: str) -> None:
    folder = name.rpartition("/")[0]
    for path in re.findall(r'^import [^"`]*from "([^"]+)";$', MODULES[name], re.MULTILINE):
        found = path.removeprefix("../") if path.startswith("../") else path.removeprefix("./")
        assert (found if path.startswith("../") or not folder else f"{folder}/{found}") in FILES


@table("name", sorted(MODULES))
def test_no_module_parses_markup_or_code(name: str) -> None:
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function"
    assert re.findall(forbidden, MODULES[name]) == []


def test_the_shell_has_no_inline_script_or_style() -> None:
    shell = FILES["index.html"]
    assert re.findall(r"<script(?![^>]*src=)|<style|\sstyle=|\son\w+=", shell) == []


@table("name", sorted(FILES))
def test_nothing_is_loaded_from_elsewhere(name: str) -> None:
    known = ("http://www.w3.org/2000/svg",)
    assert [url for url in re.findall(r"https?://[\w./-]+", FILES[name]) if url not in known] == []


@table(
    ("path", "prefix"),
    [
        ("/ui", "ui/"),
        ("/ui/", ""),
        ("/ui/requests", ""),
        ("/ui/requests/req_1", "../"),
    ],
)
def test_the_links_of_the_shell_are_relative_to_its_address(path: str, prefix: str) -> None:
    response = shell_response(path)
    assert isinstance(response.body, bytes)
    assert f'src="{prefix}static/main.js"'.encode() in response.body
    assert b"%BASE%" not in response.body


def test_a_file_has_its_type_and_is_sent_once() -> None:
    response = file_response(http(), "main.js")
    assert response is not None
    assert response.headers["content-type"] == "text/javascript; charset=utf-8"
    again = file_response(http(**{"if-none-match": response.headers["etag"]}), "main.js")
    assert again is not None
    assert (again.status, again.body) == (304, b"")


@table("name", ["nothing.js", "../page.py", "", "views"])
def test_what_is_no_file_of_the_page_is_none(name: str) -> None:
    assert file_response(http(), name) is None
