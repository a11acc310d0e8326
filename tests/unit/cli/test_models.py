"""`antiphon models`: the available models and their capabilities."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.cli.main import main
from tests.support.commands import Screen
from tests.support.local_servers import local_server

SETTINGS = """
default_provider = "lab"
discovery.enabled = false
[providers.lab]
kind = "chat"
base_url = "http://[::1]:8000/v1"
[providers.lab.models."tiny"]
context_window = 4096
inputs = ["text"]
efforts = { low = "low", high = "high", max = "max" }
tools = false
[providers.lab.models."big"]
efforts = { low = "low", medium = "medium", high = "high" }
[models]
"gpt-5.5" = "lab/big"
"*" = "lab/tiny"
"""


@pytest.fixture
def settings(home: Path) -> None:
    (home / "antiphon.toml").write_text(SETTINGS)


def read_models(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, dict[str, Any]]:
    assert main(["models", *options]) == 0
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return {document["name"]: document for document in documents}


@pytest.mark.usefixtures("home")
def test_the_test_models_are_listed_on_demand(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [*read_models(capsys)] == ["echo/echo"]
    assert {"echo/echo", "echo/error-500"} <= {*read_models(capsys, "--all")}
    monkeypatch.setenv("DEEPSEEK_API_KEY", "k")
    assert not {name for name in read_models(capsys, "--offline") if name.startswith("echo/")}
    assert {"echo/echo", "deepseek/deepseek-v4-pro"} <= {*read_models(capsys, "--offline", "--all")}


@pytest.mark.usefixtures("settings")
def test_a_pipe_gets_the_capabilities_of_each_model(capsys: pytest.CaptureFixture[str]) -> None:
    found = read_models(capsys)
    assert list(found)[:3] == ["gpt-5.5", "lab/tiny", "lab/big"]
    tiny = found["lab/tiny"]
    assert (tiny["provider"], tiny["model"], tiny["context_window"]) == ("lab", "tiny", 4096)
    assert (tiny["inputs"], tiny["efforts"]) == (["text"], ["low", "high", "max"])
    assert (tiny["tools"], found["lab/big"]["tools"]) == (False, True)
    assert found["gpt-5.5"]["model"] == "big"


@pytest.mark.usefixtures("settings")
def test_a_terminal_gets_a_table(screen: Screen) -> None:
    assert screen.run("models") == 0
    rows = {line.split()[0]: line.split() for line in screen.plain.splitlines() if line.strip()}
    assert rows["name"] == ["name", "served", "by", "context", "inputs", "efforts", "tools"]
    assert rows["lab/tiny"] == ["lab/tiny", "lab", "4,096", "text", "low", "high", "max", "no"]
    assert rows["gpt-5.5"][1:3] == ["lab/big", "?"]
    assert rows["gpt-5.5"][-4:] == ["low", "…", "high", "yes"]


def test_an_unset_variable_does_not_keep_models_from_being_listed(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = '[providers.deepseek]\napi_keys = ["${NOT_SET}"]\n[server.api_keys]\na = "${NEITHER}"\n'
    (home / "antiphon.toml").write_text(text)
    assert main(["models"]) == 0
    shown = capsys.readouterr()
    assert "deepseek/deepseek-v4-pro" in shown.out
    assert "of deepseek could not be listed: the environment variable NOT_SET is not" in shown.err


def test_a_model_server_on_this_machine_is_found(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with local_server("ollama") as url:
        monkeypatch.setenv("ANTIPHON_LOCAL_SERVERS", "on")
        monkeypatch.setenv("OLLAMA_HOST", url)
        nowhere = 'base_url = "http://127.0.0.1:1"\n'
        others = ("lmstudio", "vllm", "llamacpp")
        (home / "antiphon.toml").write_text(
            "".join(f"[providers.{each}]\n{nowhere}" for each in others)
        )
        found = read_models(capsys)
    assert [*found] == ["ollama/qwen3:8b", "ollama/gemma3:4b"]
    assert found["ollama/qwen3:8b"]["context_window"] == 40960
