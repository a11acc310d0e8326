"""Keys of the page's API: what can be made, added and revoked, and what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from antiphon.config import Config, load_config
from antiphon.config.key_file import KeyFile, key_file_path, read_key_file, write_key_file
from antiphon.server.ui.keys import PREFIX
from tests.support.applications import document_of, error_of
from tests.support.gateways import running
from tests.support.pages.api import ask, ask_json, traced_application

_FILE = """\
[server]
port = 0
api_keys = {{ carol = "sk-carol-0123456789" }}
[store]
url = "sqlite:///{directory}/turns.db"
[trace]
path = "{directory}/trace.db"
[capsule]
keys = ["a key that only tests use"]
"""


async def test_keys_are_made_listed_without_their_value_and_revoked(tmp_path: Path) -> None:
    path = tmp_path / "antiphon.toml"
    path.write_text(_FILE.format(directory=tmp_path))

    def load() -> Config:
        return load_config(path, {})

    async with running(load(), load=load) as gateway:
        base = f"{gateway.base_url.removesuffix('/v1')}/ui/api"

        async def send(method: str, path: str, body: Any = None) -> tuple[int, Any]:
            async with gateway.client.request(method, f"{base}/{path}", json=body) as response:
                return response.status, await response.json() if response.status != 204 else None

        limits = {"requests_per_minute": 5, "cost_per_day": 2.5}
        status, made = await send("POST", "keys", {"name": "alice", "limits": limits})
        assert (status, made["name"]) == (200, "alice")
        assert made["key"].startswith(PREFIX)
        _, listed = await send("GET", "keys")
        known = {each["name"]: each for each in listed["clients"]}
        assert {name: each["made_here"] for name, each in known.items()} == {
            "alice": True,
            "carol": False,
        }
        assert known["alice"]["limits"]["cost_per_day"] == 2.5
        assert made["key"] not in str(listed)
        for wrong in (
            {"name": "alice"},
            {"name": "admin"},
            {"name": "../x"},
            {"name": "bob", "limits": {"requests_per_minute": -1}},
            {"name": "bob", "limits": {"other": 1}},
            {},
        ):
            assert (await send("POST", "keys", wrong))[0] == 400
        assert (await send("DELETE", "keys/alice"))[0] == 204
        assert (await send("DELETE", "keys/carol"))[0] == 404
        _, listed = await send("GET", "keys")
        assert [each["name"] for each in listed["clients"]] == ["carol"]
        for wrong in ({"provider": "nobody", "key": "k"}, {"provider": "deepseek", "key": " "}):
            assert (await send("POST", "provider-keys", wrong))[0] == 400
        broken = {"provider": "deepseek", "key": "sk-\nx"}
        status, refused = await send("POST", "provider-keys", broken)
        assert (status, refused["error"]["param"]) == (400, "key")


async def test_a_name_is_given_once_and_a_damaged_key_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "antiphon.toml"
    path.write_text(_FILE.format(directory=tmp_path))

    def load() -> Config:
        return load_config(path, {})

    async with running(load(), load=load) as gateway:
        url = f"{gateway.base_url.removesuffix('/v1')}/ui/api/keys"

        async def make(name: str) -> tuple[int, Any]:
            async with gateway.client.post(url, json={"name": name}) as response:
                return response.status, await response.json()

        made = await asyncio.gather(*(make("alice") for _ in range(4)))
        assert sorted(status for status, _ in made) == [200, 400, 400, 400]
        # Another process has made this one, and this one has not reloaded yet.
        file = key_file_path(path)
        write_key_file(file, KeyFile(clients={"bob": "sk-antiphon-of-bob-0123"}))
        assert (await make("bob"))[0] == 400
        assert read_key_file(file).clients == {"bob": "sk-antiphon-of-bob-0123"}
        file.write_text('{"clients": ')
        status, refused = await make("carl")
        assert (status, refused["error"]["code"]) == (409, "config")
        async with gateway.client.get(url) as response:
            assert response.status == 409
        assert file.read_text() == '{"clients": '


async def test_without_a_configuration_file_no_key_is_made(tmp_path: Path) -> None:
    async with traced_application(tmp_path) as opened:
        listed = await ask_json(opened, "keys")
        refused = await ask(opened, "/ui/api/keys", method="POST", body={"name": "alice"})
    assert listed["file"] is None
    assert "deepseek" in [each["name"] for each in listed["providers"]]
    assert (refused.status, error_of(refused)["code"]) == (409, "no_configuration_file")
    assert "key" not in document_of(refused)
