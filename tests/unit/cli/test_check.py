"""`antiphon check`: validation of the configuration, and live tests of its providers."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from antiphon.cli.main import main
from tests.support.commands import Screen
from tests.support.tables import table

SETTINGS = """
default_provider = "lab"
[providers.lab]
kind = "chat"
base_url = "{url}"
api_keys = ["sk-of-the-lab"]
timeouts = {{ connect_s = 5 }}
{models}
[models]
"gpt-5.5" = "{target}"
[trace]
enabled = false
"""


@pytest.fixture
def dead_url() -> Iterator[str]:
    """A URL that refuses connections: its port is bound, but nothing listens there."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/v1"


def write(home: Path, url: str, *, target: str = "lab/m", models: str = "") -> None:
    text = SETTINGS.format(url=url, target=target, models=models)
    (home / "antiphon.toml").write_text(text)


def documents(capsys: pytest.CaptureFixture[str], kind: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [document for document in found if document["check"] == kind]


@pytest.mark.usefixtures("home")
def test_a_missing_configuration_is_valid(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check"]) == 0
    [first, echo, *_] = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == {"check": "config", "ok": True, "file": None}
    assert (echo["name"], echo["base_url"]) == ("echo", None)


def test_keys_are_counted_and_not_shown(
    home: Path, dead_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(home, dead_url)
    assert main(["check"]) == 0
    shown = capsys.readouterr().out
    lab = json.loads(shown.splitlines()[1])
    assert (lab["name"], lab["kind"], lab["keys"], lab["base_url"]) == ("lab", "chat", 1, dead_url)
    assert "sk-of-the-lab" not in shown


def test_a_terminal_shows_providers_aliases_and_settings(
    home: Path, dead_url: str, screen: Screen
) -> None:
    write(home, dead_url)
    assert screen.run("check") == 0
    shown = screen.plain
    assert shown.startswith(f"✓ {home / 'antiphon.toml'}\n")
    assert f"lab default   chat   {dead_url}" in shown
    assert ["gpt-5.5", "lab/m"] in screen.rows()
    assert f"store             sqlite:///{home}/.local/share/antiphon/turns.db" in shown
    assert "trace             off" in shown
    assert not (home / ".local").exists()


@table(
    ("settings", "message"),
    [
        ('default_provider = "x"', 'antiphon.toml:1: default_provider: there is no provider "x"'),
        ('[models]\n"a" = "echo/none"', "antiphon.toml:2: models.a: 'echo' has no model 'none'"),
        (
            '[server]\nhost = "0.0.0.0"',
            "antiphon.toml:2: server.host: others can reach '0.0.0.0', but",
        ),
        (
            '[server]\nhost = "0.0.0.0"\napi_keys = ["x"]',
            "antiphon.toml:3: server.api_keys: must be a table, not an array",
        ),
        (
            '[server]\nhost = "0.0.0.0"\napi_keys = {me = "x"}',
            "antiphon.toml:3: server.api_keys.me: has 1 characters",
        ),
        (
            '[providers.lab]\nkind = "chat"\nbase_url = "http://127.0.0.1:99999/v1"',
            "antiphon.toml:3: providers.lab.base_url: is not the address of a server",
        ),
        (
            '[store]\nurl = "mysql://x"',
            "antiphon.toml:2: store.url: 'mysql://x' is not a supported store URL",
        ),
        ('[vision]\nmodel = "a/b"', "antiphon.toml:2: vision.model: The model 'a/b' does not"),
        ("[clients.codexx]\n", "antiphon.toml:1: clients.codexx: there is no such profile"),
        ("[limits.bob]\n", "antiphon.toml:1: limits.bob: there is no client key 'bob'"),
        ('[shared]\nurl = "http://x"', "antiphon.toml:2: shared.url: must begin with redis://"),
        ("[server\n", "antiphon.toml:1: not valid TOML"),
    ],
)
def test_a_configuration_that_serve_rejects_is_reported(
    settings: str, message: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "antiphon.toml").write_text(settings)
    assert main(["check"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message.replace('"', "'") in captured.err
    assert len(captured.err.splitlines()) == 1


def test_the_password_in_an_address_is_not_shown(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "antiphon.toml").write_text(
        '[providers.lab]\nkind = "chat"\nbase_url = "https://me:a-private-word@lab.test/v1"\n'
    )
    assert main(["check"]) == 0
    [lab, _] = documents(capsys, "provider")
    assert lab["base_url"] == "https://lab.test/v1"


def test_live_reports_success_or_fault_of_each_provider(
    home: Path, dead_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(home, dead_url)
    assert main(["check", "--live"]) == 1
    lab, echo = documents(capsys, "live")
    assert (lab["provider"], lab["model"], lab["ok"]) == ("lab", "m", False)
    assert lab["fault"] == "connection · connection_failed"
    assert lab["message"].startswith("lab could not be reached")
    assert (echo["provider"], echo["ok"]) == ("echo", True)
    assert echo["latency_ms"] >= 0
    assert not (home / ".local").exists()


def test_on_a_terminal_it_is_said_if_there_is_no_provider(
    home: Path, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert screen.run("check") == 0
    assert "! no provider: only the built-in echo model, a test." in screen.plain
    monkeypatch.setenv("DEEPSEEK_API_KEY", "sk-mine")
    already = len(screen.plain)
    assert screen.run("check") == 0
    assert "no provider:" not in screen.plain[already:]


def test_live_results_are_a_table_on_a_terminal(home: Path, dead_url: str, screen: Screen) -> None:
    write(home, dead_url)
    assert screen.run("check", "--live") == 1
    rows = [line.split() for line in screen.plain.splitlines() if line.strip()]
    probes = rows[rows.index("provider model result latency message".split()) :]
    assert ["lab", "m", "connection", "·"] in [row[:4] for row in probes]
    assert ["echo", "echo", "ok"] in [row[:3] for row in probes]


def test_a_provider_without_a_known_model_is_skipped_and_is_no_failure(
    home: Path, dead_url: str, screen: Screen, capsys: pytest.CaptureFixture[str]
) -> None:
    write(home, dead_url, target="echo/echo")
    assert main(["check", "--live"]) == 0
    assert documents(capsys, "live")[0] == {
        "check": "live",
        "provider": "lab",
        "message": "skipped: no model of lab is known;"
        ' declare one as [providers.lab.models."NAME"]',
    }
    assert screen.run("check", "--live") == 0
    assert ["lab", "-", "skipped", "-"] in [row[:4] for row in screen.rows()]


def test_live_requests_a_model_that_the_configuration_declares(
    home: Path, dead_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(home, dead_url, target="echo/echo", models='[providers.lab.models."tiny"]')
    assert main(["check", "--live"]) == 1
    assert documents(capsys, "live")[0]["model"] == "tiny"


# --- all mistakes in one go -----------------------------------------------------------------------

MISTAKES = """
default_provider = "lab"
[server]
port = 99999
locale = 7
colour = "red"
[log]
format = "xml"
[providers.lab]
kind = "chatt"
[providers.shop]
kind = "chat"
base_url = "${SHOP_URL}"
api_keys = ["${SHOP_KEY}"]
[providers.deepseek]
[models]
fast = "nobody/m"
good = "shop/m"
[fallbacks]
fast = ["elsewhere/m"]
[clients.codexx]
"""


def test_every_mistake_is_reported_in_one_go(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "antiphon.toml").write_text(MISTAKES)
    assert main(["check"]) == 1
    output = capsys.readouterr()
    reported = [line.partition(": ")[2] for line in output.err.splitlines()]
    for part in (
        "antiphon.toml:4: server.port: must be",
        "antiphon.toml:5: server.locale: must be a string",
        "antiphon.toml:6: server.colour: unknown key",
        "antiphon.toml:8: log.format: 'xml' is not supported; known: auto, text, json",
        "antiphon.toml:10: providers.lab.kind: unknown kind 'chatt'; did you mean 'chat'?",
        "antiphon.toml:13: providers.shop.base_url: the environment variable SHOP_URL is not set",
        "antiphon.toml:14: providers.shop.api_keys: the environment variable SHOP_KEY is not set",
        "antiphon.toml:15: providers.deepseek.api_keys: required: set an API key here or in",
        "antiphon.toml:17: models.fast: there is no provider 'nobody'",
        "antiphon.toml:20: fallbacks.fast: there is no provider 'elsewhere'",
        "antiphon.toml:21: clients.codexx: there is no such profile",
    ):
        assert [line for line in reported if part in line], part
    assert len(reported) == 11  # nothing that only follows from another mistake
    assert output.out == ""


def test_a_model_that_the_provider_s_data_does_not_know_is_a_warning(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "antiphon.toml").write_text(
        '[providers.deepseek]\napi_keys = ["k"]\n[providers.lab]\nkind = "chat"\n'
        'base_url = "http://127.0.0.1:9/v1"\n'
        '[models]\nfast = "deepseek/deepseek-v44"\nfree = "lab/whatever"\n'
        'good = "deepseek/deepseek-v4-pro"\n'
    )
    assert main(["check"]) == 0
    [warning] = documents(capsys, "warning")
    assert (
        "antiphon.toml:7: models.fast: the data of deepseek has no model 'deepseek-v44'"
        in (warning["message"])
    )
    assert "did you mean 'deepseek-v4-" in warning["message"]


def test_a_warning_is_shown_on_a_terminal(home: Path) -> None:
    (home / "antiphon.toml").write_text(
        '[providers.deepseek]\napi_keys = ["k"]\n[models]\nfast = "deepseek/gpt"\n'
    )
    screen = Screen()
    assert screen.run("check") == 0
    assert "! " in screen.plain
    assert "models.fast: the data of deepseek has no model 'gpt'" in " ".join(screen.plain.split())


UNUSED = [
    ('[providers.deepseek]\napi_keys = ["other"]\n', "[providers.deepseek] has other `api_keys`"),
    ("providers_from_environment = false\n", "`providers_from_environment` is false: set it to"),
]


@pytest.mark.parametrize(("text", "reason"), UNUSED)
def test_a_key_of_the_environment_that_is_not_used_is_named_with_the_reason(
    text: str, reason: str, home: Path, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEEPSEEK_API_KEY", "sk-mine")
    (home / "antiphon.toml").write_text(text)
    assert screen.run("check") == 0
    assert f"DEEPSEEK_API_KEY is set but not used: {reason}" in screen.plain
    assert "sk-mine" not in screen.plain


def test_a_variable_that_needs_a_table_is_named(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "g")
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "a")
    monkeypatch.setenv("DEEPSEEK_API_KEY", "d")
    assert main(["check"]) == 0
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    unused = {each["variable"]: each["reason"] for each in lines if each["check"] == "unused_key"}
    assert unused.keys() == {"GITHUB_TOKEN", "AZURE_OPENAI_API_KEY"}
    assert "add [providers.github]" in unused["GITHUB_TOKEN"]
    assert "add [providers.azure] with `base_url`" in unused["AZURE_OPENAI_API_KEY"]
