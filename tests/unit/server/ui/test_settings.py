"""Settings in effect with file and line, without secrets; and the check of the file."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from antiphon.config import Config, load_config, parse_config
from antiphon.server.ui.settings import HIDDEN, find_problems, list_settings
from tests.support.applications import document_of, echo_config, error_of, open_application
from tests.support.gateways import replaced
from tests.support.pages.api import ask, ask_json, own_files, with_token

TEXT = """\
default_provider = "up"

[server]
api_keys = { alice = "sk-alice" }
admin_key = "sk-admin"

[providers.up]
kind = "chat"
base_url = "https://user:sk-url@up.example/v1"
api_keys = ["sk-up"]
headers = { x-team = "sk-header" }

[providers.up.models.big]
context_window = 1000

[models]
fast = "up/big"

[capsule]
keys = ["sk-capsule"]
"""


def settings(config: Config) -> dict[str, dict[str, Any]]:
    return {".".join([*each["table"], each["key"]]): each for each in list_settings(config)}


def test_settings_have_their_lines_and_defaults_have_none() -> None:
    found = settings(parse_config(TEXT, {}, name="a.toml"))
    assert (found["default_provider"]["line"], found["default_provider"]["default"]) == (1, False)
    assert found["providers.up.models.big.context_window"]["line"] == 14
    assert found["models.fast"]["value"] == "up/big"
    assert (found["server.port"]["line"], found["server.port"]["default"]) == (None, True)
    assert (found["providers.up.query"]["line"], found["providers.up.query"]["default"]) == (
        None,
        True,
    )
    assert "providers.up.models.big.tools" not in found  # None: not overridden
    assert not any(name.startswith("source") for name in found)


def test_no_setting_shows_a_secret() -> None:
    found = settings(parse_config(TEXT, {}, name="a.toml"))
    assert "sk-" not in str(found)
    assert found["server.api_keys"]["value"] == {"alice": HIDDEN}
    assert found["server.admin_key"]["value"] == HIDDEN
    assert found["providers.up.api_keys"]["value"] == [HIDDEN]
    assert found["providers.up.base_url"]["value"] == f"https://{HIDDEN}@up.example/v1"
    assert found["search.api_key"]["value"] == ""


def test_a_value_that_the_program_set_has_no_line() -> None:
    port = settings(echo_config())["server.port"]
    assert (port["line"], port["default"]) == (None, False)


def test_every_problem_of_a_file_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "antiphon.toml"
    path.write_text('[server]\nhost = "0.0.0.0"\nprot = 1\n[models]\nx = "nobody/m"\n')
    problems = find_problems(path, {})
    assert len(problems) == 3
    assert f"{path}:3: server.prot: unknown key" in problems[0]
    assert "nobody" in problems[1]
    assert "others can reach" in problems[2]


def test_a_file_that_is_no_toml_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "antiphon.toml"
    path.write_text("[server\n")
    [problem] = find_problems(path, {})
    assert "not valid TOML" in problem


def test_what_a_reload_rejects_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "antiphon.toml"
    path.write_text("[limits.bob]\nmax_streams = 1\n")
    [problem] = find_problems(path, {})
    assert f"{path}:1: limits.bob: there is no client key 'bob'" in problem


def test_a_valid_file_has_no_problems(tmp_path: Path) -> None:
    path = tmp_path / "antiphon.toml"
    path.write_text(TEXT)
    assert find_problems(path, {}) == []


async def test_the_file_is_checked_as_it_is_now(tmp_path: Path) -> None:
    path = tmp_path / "antiphon.toml"
    source = parse_config("", {}, name=str(path)).source
    async with open_application(replaced(echo_config(), source=source)) as opened:
        shown = await ask_json(opened, "config")
        assert shown["file"] == str(path)
        assert shown["settings"]
        path.write_text("prot = 1")
        checked = document_of(await ask(opened, "/ui/api/config/check", method="POST"))
        assert "prot: unknown key" in checked["problems"][0]


async def test_without_a_file_there_is_nothing_to_check() -> None:
    async with open_application() as opened:
        checked = document_of(await ask(opened, "/ui/api/config/check", method="POST"))
    assert checked == {"file": None, "problems": []}


async def test_the_file_is_reloaded_and_a_mistake_in_it_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "antiphon.toml"
    text = 'store.url = "memory://"\ntrace.enabled = false\ncapsule.keys = ["of a test"]\n'
    path.write_text(text)

    def load() -> Config:
        return load_config(path, {})

    async with open_application(load(), load, own_files(tmp_path)) as opened:
        before = opened.application.process.setup
        reload = partial(
            ask,
            opened,
            "/ui/api/config/reload",
            method="POST",
            headers=with_token(opened.application.process),
        )
        path.write_text(f'{text}models.x = "nobody/m"\nlog.level = "loud"\n')
        answer = document_of(await reload())
        assert answer["file"] == str(path)
        assert f"{path}:5: log.level" in str(answer["problems"])
        assert opened.application.process.setup is before
        path.write_text(f'{text}models.x = "echo/echo"\nlog.level = "debug"\n')
        answer = document_of(await reload())
        assert (answer["file"], answer["needs_restart"]) == (str(path), ["log"])
        assert (answer["problems"], answer["replaces_workers"]) == ([], False)
        assert "x" in opened.application.process.setup.engine.router.names()


async def test_without_a_file_there_is_nothing_to_reload(tmp_path: Path) -> None:
    async with open_application(environment=own_files(tmp_path)) as opened:
        own = with_token(opened.application.process)
        answer = await ask(opened, "/ui/api/config/reload", method="POST", headers=own)
    assert (answer.status, error_of(answer)["code"]) == (409, "no_configuration_file")
