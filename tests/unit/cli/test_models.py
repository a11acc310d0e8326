"""`antiphon models`: the available models and their capabilities."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.cli.main import main
from tests.support.commands import Screen

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


def read_models(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
    assert main(["models"]) == 0
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return {document["name"]: document for document in documents}


@pytest.mark.usefixtures("home")
def test_without_a_configuration_the_echo_models_are_listed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = read_models(capsys)
    assert found
    assert {document["provider"] for document in found.values()} == {"echo"}


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
