"""`antiphon claude`: what Claude Code is started with."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from antiphon.cli.claude.command import CLAUDE
from antiphon.cli.claude.settings import ClaudeSettings
from antiphon.errors import ProgramNotFound
from tests.support.commands import own_settings, run, serving

# Prints its arguments and environment, and what it reads from the gateway.
FAKE_CLAUDE = f"""\
#!{sys.executable}
import json, os, sys
from urllib.request import Request, urlopen
base = os.environ["ANTHROPIC_BASE_URL"]
headers = {{"authorization": "Bearer " + os.environ["ANTHROPIC_AUTH_TOKEN"]}}
listed = json.load(urlopen(Request(base + "/v1/models", headers=headers)))
report = dict(arguments=sys.argv[1:], environment=dict(os.environ), models=len(listed["data"]))
given = sys.argv[sys.argv.index("--settings") + 1]
is_file = not given.startswith("{{")
report["mode"] = os.stat(given).st_mode & 0o777 if is_file else None
report["settings"] = json.loads(open(given).read() if is_file else given)
print(json.dumps(report))
sys.exit(int(os.environ.get("FAKE_STATUS", 0)))
"""
TWO_MODELS = """
[providers.up]
kind = "chat"
base_url = "http://127.0.0.1:9/v1"
api_keys = ["${USERS_KEY}"]
models.large = { context_window = 65536 }
models.small = {}
[discovery]
enabled = false
[models]
"*" = "up/large"
"""
SMALL = '[clients.claude-code]\nsmall_model = "up/small"\n'


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "bin" / "claude"
    path.parent.mkdir()
    path.write_text(FAKE_CLAUDE)
    path.chmod(0o755)
    return str(path)


@pytest.fixture(scope="module")
def running_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("gateway")) as base_url:
        yield base_url


def start(home: Path, program: str, *arguments: str, **more: str) -> Any:
    variables: Any = {"ANTIPHON_CLAUDE": program, "USERS_KEY": "sk-1", **more}
    done = run(home, "claude", *arguments, **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_everything_that_claude_code_needs_is_in_its_environment(
    tmp_path: Path, program: str
) -> None:
    own_settings(tmp_path).write_text(f"[server]\nport = 0\n{TWO_MODELS}{SMALL}")
    report = start(tmp_path, program, "-p", "hi")
    variables = report["environment"]
    names = ("OPUS", "SONNET", "FABLE", "HAIKU")
    models = [variables[f"ANTHROPIC_DEFAULT_{name}_MODEL"] for name in names]
    assert models == ["up/large", "up/large", "up/large", "up/small"]
    assert variables["ANTHROPIC_BASE_URL"].startswith("http://127.0.0.1:")
    assert not variables["ANTHROPIC_BASE_URL"].endswith("/v1")
    assert (variables["ANTHROPIC_AUTH_TOKEN"], variables["ANTHROPIC_API_KEY"]) == ("none", "")
    assert variables["CLAUDE_CODE_SUBAGENT_MODEL"] == "up/large"
    assert variables["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == "65536"
    assert variables["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] == "1"
    option, settings, *rest = report["arguments"]
    assert (option, rest) == ("--settings", ["--model", "up/large", "-p", "hi"])
    passed = json.loads(settings)["env"]
    assert passed.items() <= variables.items()
    assert "ANTHROPIC_AUTH_TOKEN" not in passed, "other users of the machine see arguments"


def test_a_project_cannot_redirect_requests_by_a_proxy_or_to_a_cloud(
    tmp_path: Path, program: str
) -> None:
    """Settings on the command line replace those of a project, also with the user's own ones."""
    own_settings(tmp_path).write_text("[server]\nport = 0\n")
    own: Any = {"env": {"MINE": "1", "ANTHROPIC_DEFAULT_OPUS_MODEL": "m"}, "verbose": True}
    file = tmp_path / "own.json"
    file.write_text(json.dumps(own))
    for given in ([], ["--settings", json.dumps(own)], [f"--settings={file}"]):
        report = start(tmp_path, program, *given, "-p", "hi", NO_PROXY="intra")
        option, value, *rest = report["arguments"]
        assert (option, rest) == ("--settings", ["--model", "echo/echo", "-p", "hi"])
        settings = report["settings"]
        passed = settings["env"]
        assert passed["ANTHROPIC_BASE_URL"] == report["environment"]["ANTHROPIC_BASE_URL"]
        assert passed["NO_PROXY"] == passed["no_proxy"] == "intra,127.0.0.1"
        assert {passed[f"CLAUDE_CODE_USE_{name}"] for name in ("BEDROCK", "VERTEX", "FOUNDRY")} == {
            ""
        }
        assert "ANTHROPIC_AUTH_TOKEN" not in passed
        if given:
            assert (settings["verbose"], own["env"].items() <= passed.items()) == (True, True)
        assert value.startswith("{") == (given != [f"--settings={file}"]), "a file stays one"
        assert report["mode"] in (None, 0o600)


def test_settings_that_cannot_be_read_are_named(tmp_path: Path, program: str) -> None:
    own_settings(tmp_path).write_text("[server]\nport = 0\n")
    for given, reason in (("{", b"not valid JSON"), ("/nowhere.json", b"does not exist")):
        done = run(tmp_path, "claude", "--settings", given, ANTIPHON_CLAUDE=program)
        assert (done.returncode, b"--settings" in done.stderr, reason in done.stderr) == (
            2,
            True,
            True,
        )


def test_the_model_and_the_window_are_those_that_the_user_names(
    tmp_path: Path, program: str
) -> None:
    own_settings(tmp_path).write_text(f"[server]\nport = 0\n{TWO_MODELS}")
    own = {"CLAUDE_CODE_MAX_CONTEXT_TOKENS": "9000"}
    for arguments in (("--model", "up/small"), ("-p", "--model=up/small")):
        report = start(tmp_path, program, *arguments, **own)
        assert report["environment"]["ANTHROPIC_DEFAULT_OPUS_MODEL"] == "up/small"
        assert report["environment"]["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == "9000"
        assert sum("--model" in word for word in report["arguments"]) == 1
    chosen = start(tmp_path, program, ANTHROPIC_MODEL="up/small")
    assert chosen["arguments"][2:] == ["--model", "up/small"]
    unlisted = start(tmp_path, program, "--model", "up/unlisted")["environment"]
    assert "CLAUDE_CODE_MAX_CONTEXT_TOKENS" not in unlisted


def test_a_running_gateway_is_used_and_keeps_running(
    tmp_path: Path, program: str, running_gateway: str
) -> None:
    port = running_gateway.rpartition(":")[2].removesuffix("/v1")
    own_settings(tmp_path).write_text(f"[server]\nport = {port}\n")
    for _ in range(2):
        done = run(tmp_path, "claude", ANTIPHON_CLAUDE=program, FAKE_STATUS="3")
        assert done.returncode == 3
        report = json.loads(done.stdout)
        assert report["environment"]["ANTHROPIC_BASE_URL"] == running_gateway.removesuffix("/v1")
        assert b"Claude Code runs with the built-in echo model" in done.stderr


def test_a_configuration_in_the_current_directory_is_not_read(tmp_path: Path, program: str) -> None:
    """Claude Code runs in projects of other people, whose file could send keys to any address."""
    (tmp_path / "antiphon.toml").write_text(TWO_MODELS)
    own_settings(tmp_path).write_text("[server]\nport = 0\n")
    assert start(tmp_path, program)["arguments"][-1] == "echo/echo"
    own_settings(tmp_path).unlink()
    assert start(tmp_path, program)["arguments"][-1] == "echo/echo"


def test_a_program_that_is_missing_is_named() -> None:
    with pytest.raises(ProgramNotFound, match="npm install -g @anthropic-ai/claude-code"):
        CLAUDE.find({"PATH": ""} | {"ANTIPHON_CLAUDE": ""} | {"PATH": "/nonexistent"})
    with pytest.raises(ProgramNotFound, match=r"\$ANTIPHON_CLAUDE is 'nothing'"):
        CLAUDE.find({"ANTIPHON_CLAUDE": "nothing"})


def test_without_a_small_model_the_main_one_is_used() -> None:
    settings = ClaudeSettings(base_url="http://h/v1", model="m")
    assert settings.variables()["ANTHROPIC_DEFAULT_HAIKU_MODEL"] == "m"
