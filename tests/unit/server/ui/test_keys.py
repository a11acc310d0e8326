"""Keys of the page's API: what can be made, added and revoked, and what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from antiphon.config import Config, load_config
from antiphon.config.key_file import KeyFile, key_file_path, read_key_file, write_key_file
from antiphon.server.ui.keys import PREFIX
from tests.support.applications import document_of, echo_config, error_of, open_application
from tests.support.gateways import replaced, running, settings
from tests.support.pages.api import HOST, ask, ask_json, own_files, traced_application, with_token

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

    async with running(load(), load=load, environment=own_files(tmp_path)) as gateway:
        base = f"{gateway.base_url.removesuffix('/v1')}/ui/api"
        own = with_token(gateway.gateway.process)

        async def send(method: str, path: str, body: Any = None) -> tuple[int, Any]:
            async with gateway.client.request(
                method, f"{base}/{path}", json=body, headers=own
            ) as response:
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
            {"name": "antiphon"},
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

    async with running(load(), load=load, environment=own_files(tmp_path)) as gateway:
        url = f"{gateway.base_url.removesuffix('/v1')}/ui/api/keys"
        own = with_token(gateway.gateway.process)

        async def make(name: str) -> tuple[int, Any]:
            async with gateway.client.post(url, json={"name": name}, headers=own) as response:
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


async def test_a_gateway_in_another_process_makes_no_keys(tmp_path: Path) -> None:
    async with open_application(echo_config(admin_key="sk-admin")) as opened:
        headers = {**HOST, "authorization": "Bearer sk-admin"}
        listed = document_of(await ask(opened, "/ui/api/keys", headers=headers))
        body = {"name": "alice"}
        refused = await ask(opened, "/ui/api/keys", method="POST", headers=headers, body=body)
    assert listed["file"] is None
    assert "deepseek" in [each["name"] for each in listed["providers"]]
    assert (refused.status, error_of(refused)["code"]) == (409, "no_configuration_file")
    assert "key" not in document_of(refused)


async def test_without_the_token_nothing_is_changed(tmp_path: Path) -> None:
    bodies: dict[str, Any] = {
        "keys": {"name": "eve"},
        "provider-keys": {"provider": "deepseek", "key": "sk-eve"},
        "default-model": {"model": "echo/echo"},
    }
    async with traced_application(tmp_path) as opened:
        for path, body in bodies.items():
            refused = await ask(opened, f"/ui/api/{path}", method="POST", body=body)
            assert (refused.status, error_of(refused)["code"]) == (403, "page_token_required")
        refused = await ask(opened, "/ui/api/keys/alice", method="DELETE")
        assert refused.status == 403
        assert not (await ask_json(opened, "session"))["may_change"]
    assert not (tmp_path / "config").exists()


async def test_the_page_sends_requests_without_a_client_key_only_with_the_token(
    tmp_path: Path,
) -> None:
    body = {"model": "echo/echo", "input": "Hello"}
    async with traced_application(tmp_path, api_keys={"alice": "sk-alice"}) as opened:
        path = "/ui/api/responses"
        assert (await ask(opened, path, method="POST", body=body)).status == 403
        own = with_token(opened.application.process)
        assert (await ask(opened, path, method="POST", headers=own, body=body)).status == 200
    async with traced_application(tmp_path) as opened:
        assert (await ask(opened, path, method="POST", body=body)).status == 200


def load_first(directory: Path) -> Config:
    """Load the file that the page creates, as `antiphon serve` does."""
    path = Path(own_files(directory)["XDG_CONFIG_HOME"]) / "antiphon" / "antiphon.toml"
    base = settings(directory)
    if not path.exists():
        return base
    loaded = load_config(path, {})
    kept = {"source": loaded.source, "chosen_model": loaded.chosen_model}
    return replaced(base, providers=loaded.providers, **kept)


async def test_the_first_key_creates_the_file_of_a_gateway_without_one(tmp_path: Path) -> None:
    environment = own_files(tmp_path)

    def load() -> Config:
        return load_first(tmp_path)

    async with running(load(), load=load, environment=environment) as gateway:
        base = f"{gateway.base_url.removesuffix('/v1')}/ui/api"
        own = with_token(gateway.gateway.process)

        async def post(path: str, body: Any) -> tuple[int, Any]:
            async with gateway.client.post(f"{base}/{path}", json=body, headers=own) as response:
                return response.status, await response.json()

        key = {"provider": "deepseek", "key": "sk-pasted"}
        assert await post("provider-keys", key) == (200, {"provider": "deepseek"})
        model = {"model": "deepseek/deepseek-v4-pro"}
        assert await post("default-model", model) == (200, model)
        async with gateway.client.get(f"{base}/models") as response:
            assert (await response.json())["default"] == model["model"]
        status, refused = await post("default-model", {"model": "nobody/nothing"})
        assert (status, refused["error"]["code"]) == (404, "model_not_found")
        assert (await post("default-model", {"model": 5}))[0] == 400
    [file, keys] = sorted((tmp_path / "config" / "antiphon").iterdir(), reverse=True)
    assert (file.name, keys.name) == ("antiphon.toml", "antiphon.keys.json")
    assert load_config(file, {}).providers["deepseek"].api_keys == ["sk-pasted"]


async def test_a_gateway_that_reads_no_file_gets_none(tmp_path: Path) -> None:
    config = settings(tmp_path)
    async with running(config, load=lambda: config, environment=own_files(tmp_path)) as gateway:
        url = f"{gateway.base_url.removesuffix('/v1')}/ui/api/provider-keys"
        body = {"provider": "deepseek", "key": "sk-pasted"}
        own = with_token(gateway.gateway.process)
        async with gateway.client.post(url, json=body, headers=own) as response:
            assert response.status == 409
            assert (await response.json())["error"]["code"] == "no_configuration_file"
    assert [*(tmp_path / "config" / "antiphon").iterdir()] == []


async def test_the_default_model_of_the_file_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "antiphon.toml"
    path.write_text(_FILE.format(directory=tmp_path) + '[models]\n"*" = "echo/echo"\n')

    def load() -> Config:
        return load_config(path, {})

    async with running(load(), load=load, environment=own_files(tmp_path)) as gateway:
        url = f"{gateway.base_url.removesuffix('/v1')}/ui/api/default-model"
        own = with_token(gateway.gateway.process)
        async with gateway.client.post(url, json={"model": "echo/echo"}, headers=own) as response:
            assert response.status == 409
            assert "[models]" in (await response.json())["error"]["message"]
