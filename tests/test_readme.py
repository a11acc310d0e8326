"""The README is executed: its commands, requests, code blocks and shown output."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from antiphon.config import parse_config
from antiphon.dialects.dialect import DIALECTS
from antiphon.engine.routing import make_router
from antiphon.providers.registry import build_providers
from tests.support.commands import PATIENCE_S, environment, on_terminal, run, serving

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BASE_URL = "http://127.0.0.1:8484/v1"


def find_blocks(language: str, containing: str = "", page: str = README) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [block for name, block in found if name == language and containing in block]


CURLS = find_blocks("sh", "curl ")
COMMANDS = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("home")) as base_url:
        yield base_url


# --- first lines ----------------------------------------------------------------------------------


def test_the_readme_begins_with_two_commands() -> None:
    lines = [line for line in README.splitlines() if line]
    assert lines[0] == "# Antiphon"
    assert [line.partition("#")[0].strip() for line in lines[2:4]] == ["make serve", "make test"]
    assert not lines[4].startswith("    ")


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 130


def test_the_figures_of_the_readme_are_those_of_the_pages_with_the_results() -> None:
    clients = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
    scenarios = re.findall(r"^\| .+ \| \d\S* \| .+\|$", clients, re.MULTILINE)
    assert "[more than 300 scenarios](docs/clients.md)" in README
    assert len(scenarios) > 300
    assert "✗" not in "".join(scenarios)
    defects = (ROOT / "docs" / "known-defects.md").read_text(encoding="utf-8")
    numbers = [int(number) for number in re.findall(r"^\| (\d+) \|", defects, re.MULTILINE)]
    assert f"[{max(numbers)} known defects of gateways]" in README
    assert f"{len(DIALECTS)}" == "7"
    assert "seven provider formats" in README
    assert all(f"{name}" in README for name in ("Responses", "Messages", "Chat Completions"))


def test_every_way_to_install_is_on_the_page_about_it() -> None:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    for command in ("pip install .", "uv tool install .", "pipx install", "deploy/Containerfile"):
        assert command in README
        assert command in page


def test_every_make_command_is_a_target_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = re.findall(r"^(?:    )?make ([\w-]+)", README, re.MULTILINE)
    assert {"serve", "test"} <= {*named}
    assert [name for name in named if f"\n{name}:" not in makefile] == []


# --- the gateway ----------------------------------------------------------------------------------


def send_with_curl(block: str) -> bytes:
    return subprocess.run(["sh", "-c", block], capture_output=True, check=True).stdout


def send_with_python(block: str) -> bytes:
    """Send the request of a curl command, where curl is not installed."""
    words = shlex.split(block.replace("\\\n", " "))
    [url] = [word for word in words if word.startswith("http")]
    given = dict(pairwise(words))
    name, _, value = given["--header"].partition(": ")
    request = Request(url, given["--data"].encode(), {name: value})
    with urlopen(request, timeout=PATIENCE_S) as answer:
        return bytes(answer.read())


SENDERS = [send_with_python, *([send_with_curl] if shutil.which("curl") else [])]


@pytest.mark.parametrize("send", SENDERS)
def test_the_curl_command_returns_a_whole_response(
    send: Callable[[str], bytes], gateway: str
) -> None:
    data = send(CURLS[0].replace(BASE_URL, gateway))
    assert b'"status":"completed"' in data
    assert b'"text":"Hello, who is there?"' in data


def test_the_example_of_the_official_client_runs(gateway: str) -> None:
    [block] = find_blocks("python", "from openai import")
    assert run_block(block.replace(BASE_URL, gateway)) == "Hello\n"


def test_the_example_configuration_is_valid() -> None:
    [example] = find_blocks("toml")
    variables = {"DEEPSEEK_API_KEY": "sk"}
    config = parse_config(example, variables, name="README.md")
    router = make_router(config, build_providers(config, variables))
    assert router.resolve("gpt-5.5").model == "deepseek-v4-pro"
    assert router.resolve("anything").model == "deepseek-v4-flash"


# --- the library and the command ------------------------------------------------------------------


def run_block(block: str) -> str:
    """Execute a Python block and return what it prints."""
    out = io.StringIO()
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(out):
        exec(compile(block, "README.md", "exec"), names)
    if "client" in names:
        names["client"].close()  # an open connection would be a warning in another test
    return out.getvalue()


def test_the_example_of_the_library_runs() -> None:
    [block] = find_blocks("python", "antiphon.open_blocking")
    assert run_block(block) == "completed Hello\n"


def test_the_replay_example_runs() -> None:
    [block] = find_blocks("python", "antiphon.replay", COMMANDS)
    lines = run_block(block).splitlines()
    assert lines[0] == "0 response.created"
    assert lines[-1] == f"{len(lines) - 1} response.completed"


def test_the_replay_output_is_as_shown(tmp_path: Path) -> None:
    [block] = find_blocks("sh", "antiphon replay hello.sse", COMMANDS)
    [shown] = find_blocks("", "output_item.added                #0", COMMANDS)
    command = tmp_path / "antiphon"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m antiphon.cli.main "$@"\n')
    command.chmod(0o755)
    path = f"{tmp_path}:{environment(tmp_path)['PATH']}"
    with on_terminal(tmp_path, block, command=("sh", "-c"), PATH=path) as terminal:
        assert terminal.wait() == 0
    assert terminal.plain == shown
    assert "\x1b[" in terminal.shown


def test_every_listed_command_has_help() -> None:
    from antiphon.cli.main import main

    named = {
        tuple(words.split()) for words in re.findall(r"^\| `antiphon ([a-z ]+)", COMMANDS, re.M)
    }
    assert len(named) == 18
    for words in named:
        with pytest.raises(SystemExit) as leaving, contextlib.redirect_stdout(io.StringIO()):
            main([*words, "--help"])
        assert leaving.value.code == 0


# --- the first hour of a contributor --------------------------------------------------------------


def test_the_commands_of_the_first_hour_exist() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"(?:`|^    )make ([a-z-]+)", page, re.MULTILINE)
    assert {"check", "test", "clients", "golden"} <= {*targets}
    assert [name for name in targets if f"\n{name}:" not in makefile] == []
    paths = re.findall(r"(?:src|tests|docs)/[\w./-]*\w", page)
    assert len(paths) > 10
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_a_recording_of_the_golden_cases_is_replayed(tmp_path: Path) -> None:
    recording = sorted((ROOT / "tests" / "golden").rglob("upstream.*"))[0]
    done = run(tmp_path, "replay", str(recording))
    assert done.returncode == 0, done.stderr.decode()
    assert b'"type":"response.completed"' in done.stdout
