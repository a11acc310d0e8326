"""POST /admin/reload: only from this machine, and only for users who can read the file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from antiphon.config import Config, load_config
from antiphon.server.http import HTTPResponse
from tests.support.applications import (
    LOCAL,
    OpenApplication,
    document_of,
    error_of,
    open_application,
)

FILE = """
default_provider = "echo"
[server]
api_keys = { me = "a key of mine" }
[store]
url = "memory://"
[trace]
enabled = false
[capsule]
keys = ["a key that only tests use"]
"""


def write(path: Path, text: str) -> None:
    path.write_text(text)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@asynccontextmanager
async def reloadable(path: Path) -> AsyncIterator[OpenApplication]:
    write(path, FILE)

    def load() -> Config:
        return load_config(path, {})

    async with open_application(load(), load) as opened:
        yield opened


async def ask(
    opened: OpenApplication,
    path: Path,
    headers: Mapping[str, str] = LOCAL,
    remote: str = "127.0.0.1",
) -> HTTPResponse:
    body = json.dumps({"sha256": digest(path)}).encode()
    return await opened.request("POST", "/admin/reload", body, headers, remote)


async def test_the_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "antiphon.toml"
    async with reloadable(path) as opened:
        path.write_text(FILE.replace("[server]", "[server]\nport = 1"))
        answer = await ask(opened, path)
        assert document_of(answer) == {
            "file": str(path),
            "needs_restart": ["server.port"],
            "replaces_workers": False,
        }


async def test_a_bad_file_is_reported_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "antiphon.toml"
    async with reloadable(path) as opened:
        path.write_text(FILE + "[nonsense]\n")
        answer = await ask(opened, path)
        error = error_of(answer)
    assert (answer.status, error["code"]) == (400, "invalid_configuration")
    assert error["message"].startswith(f"{path}:11: nonsense: unknown key")


@pytest.mark.parametrize(
    ("headers", "remote"),
    [
        (LOCAL, "10.0.0.7"),
        ({**LOCAL, "host": "evil.test"}, "127.0.0.1"),
        ({**LOCAL, "x-forwarded-for": "10.0.0.7"}, "127.0.0.1"),
    ],
)
async def test_a_request_from_elsewhere_is_refused(
    tmp_path: Path, headers: Mapping[str, str], remote: str
) -> None:
    path = tmp_path / "antiphon.toml"
    async with reloadable(path) as opened:
        answer = await ask(opened, path, headers, remote)
    assert (answer.status, error_of(answer)["code"]) == (403, "forbidden")


async def test_the_gateway_of_another_file_is_not_reloaded(tmp_path: Path) -> None:
    path, other = tmp_path / "antiphon.toml", tmp_path / "other.toml"
    other.write_text("# another one")
    async with reloadable(path) as opened:
        answer = await ask(opened, other)
        assert (answer.status, error_of(answer)["code"]) == (403, "other_configuration_file")
        path.unlink()
        assert (await ask(opened, other)).status == 403


async def test_a_gateway_without_a_file_has_nothing_to_reload(tmp_path: Path) -> None:
    path = tmp_path / "antiphon.toml"
    path.write_text("")
    async with open_application() as opened:
        answer = await ask(opened, path)
    assert (answer.status, error_of(answer)["code"]) == (409, "no_configuration_file")
