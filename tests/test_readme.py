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
from tests.support.commands import PATIENCE_S, environment, on_terminal, serving
from tests.support.gateways import events_of

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BASE_URL = "http://127.0.0.1:8484/v1"


def find_blocks(language: str, containing: str = "") -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return [block for name, block in found if name == language and containing in block]


CURLS = find_blocks("sh", "curl ")
EVENTS = re.findall(
    r"^response\.[a-z_.]+", "".join(find_blocks("", "response.created")), re.MULTILINE
)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("home")) as base_url:
        yield base_url


# --- first lines ----------------------------------------------------------------------------------


def test_the_readme_begins_with_two_commands() -> None:
    lines = [line for line in README.splitlines() if line]
    assert lines[0] == "# Antiphon"
    assert [line.partition("#")[0].strip() for line in lines[1:3]] == ["make serve", "make test"]
    assert not lines[3].startswith("    ")


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
def test_the_first_curl_command_streams_the_listed_events(
    send: Callable[[str], bytes], gateway: str
) -> None:
    data = send(CURLS[0].replace(BASE_URL, gateway))
    names = [event["type"] for event in events_of(data)]
    assert list(dict.fromkeys(names)) == EVENTS
    assert data.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("send", SENDERS)
def test_the_second_curl_command_returns_a_whole_response(
    send: Callable[[str], bytes], gateway: str
) -> None:
    data = send(CURLS[1].replace(BASE_URL, gateway))
    assert b'"status":"completed"' in data
    assert b'"text":"Hello, who is there?"' in data


def test_there_are_two_curl_commands() -> None:
    assert len(CURLS) == 2
    assert all(BASE_URL in block for block in CURLS)


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


def test_every_api_key_of_the_environment_is_listed() -> None:
    rows = re.findall(r"^\| `\w+`: .*$", (ROOT / "docs" / "providers.md").read_text("utf-8"), re.M)
    found = [row for row in rows if "only if" not in row and "set `base_url`" not in row]
    names = re.findall(r"`([A-Z]+_[A-Z_]+)`", " ".join(found))
    assert len(names) >= 20
    assert [name for name in names if f"`{name}`" not in README] == []


def test_every_dialect_is_named() -> None:
    assert [name for name in DIALECTS if f"`{name}`" not in README] == []
    assert len(DIALECTS) == 7


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
    [block] = find_blocks("python", "antiphon.replay")
    lines = run_block(block).splitlines()
    assert lines[0] == "0 response.created"
    assert lines[-1] == f"{len(lines) - 1} response.completed"


def test_the_replay_output_is_as_shown(tmp_path: Path) -> None:
    [block] = find_blocks("sh", "antiphon replay hello.sse")
    [shown] = find_blocks("", "output_item.added                #0")
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

    named = {tuple(words.split()) for words in re.findall(r"^\| `antiphon ([a-z ]+)", README, re.M)}
    assert len(named) == 16
    for words in named:
        with pytest.raises(SystemExit) as leaving, contextlib.redirect_stdout(io.StringIO()):
            main([*words, "--help"])
        assert leaving.value.code == 0
