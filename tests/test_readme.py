"""The README is true: it begins as it must, and what it shows is what happens."""

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
from antiphon.engine.routing import make_router
from antiphon.providers.registry import build_providers
from tests.support.commands import PATIENCE_S, environment, on_terminal, serving
from tests.support.gateways import events_of

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BASE_URL = "http://127.0.0.1:8484/v1"


def blocks(language: str, containing: str = "") -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return [block for name, block in found if name == language and containing in block]


CURLS = blocks("sh", "curl ")
EVENTS = re.findall(r"^response\.[a-z_.]+", "".join(blocks("", "response.created")), re.MULTILINE)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("home")) as base_url:
        yield base_url


# --- how it begins --------------------------------------------------------------------------------


def test_it_begins_with_two_commands() -> None:
    lines = [line for line in README.splitlines() if line]
    assert lines[0] == "# Antiphon"
    assert [line.partition("#")[0].strip() for line in lines[1:3]] == ["make serve", "make test"]
    assert not lines[3].startswith("    ")


def test_the_commands_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = re.findall(r"^(?:    )?make (\w+)", README, re.MULTILINE)
    assert {"serve", "test"} <= {*named}
    assert [name for name in named if f"\n{name}:" not in makefile] == []


# --- the gateway ----------------------------------------------------------------------------------


def by_curl(block: str) -> bytes:
    return subprocess.run(["sh", "-c", block], capture_output=True, check=True).stdout


def by_python(block: str) -> bytes:
    """The same request, where there is no curl."""
    words = shlex.split(block.replace("\\\n", " "))
    [url] = [word for word in words if word.startswith("http")]
    given = dict(pairwise(words))
    name, _, value = given["--header"].partition(": ")
    request = Request(url, given["--data"].encode(), {name: value})
    with urlopen(request, timeout=PATIENCE_S) as answer:
        return bytes(answer.read())


SENDERS = [by_python, *([by_curl] if shutil.which("curl") else [])]


@pytest.mark.parametrize("send", SENDERS)
def test_the_first_curl_gets_the_events_that_are_listed(
    send: Callable[[str], bytes], gateway: str
) -> None:
    data = send(CURLS[0].replace(BASE_URL, gateway))
    names = [event["type"] for event in events_of(data)]
    assert list(dict.fromkeys(names)) == EVENTS
    assert data.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("send", SENDERS)
def test_the_second_curl_gets_a_whole_answer(send: Callable[[str], bytes], gateway: str) -> None:
    data = send(CURLS[1].replace(BASE_URL, gateway))
    assert b'"status":"completed"' in data
    assert b'"text":"Hello, who is there?"' in data


def test_there_are_no_other_curls() -> None:
    assert len(CURLS) == 2
    assert all(BASE_URL in block for block in CURLS)


def test_the_official_client_works_as_shown(gateway: str) -> None:
    [block] = blocks("python", "from openai import")
    assert printed(block.replace(BASE_URL, gateway)) == "Hello\n"


def test_the_settings_are_valid() -> None:
    [example] = blocks("toml")
    variables = {"DEEPSEEK_API_KEY": "sk"}
    config = parse_config(example, variables, name="README.md")
    router = make_router(config, build_providers(config, variables))
    assert router.resolve("gpt-5.5").model == "deepseek-v4-pro"
    assert router.resolve("anything").model == "deepseek-v4-flash"


# --- the library and the command ------------------------------------------------------------------


def printed(block: str) -> str:
    out = io.StringIO()
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(out):
        exec(compile(block, "README.md", "exec"), names)
    if "client" in names:
        names["client"].close()  # its connection must not be found open by another test
    return out.getvalue()


def test_the_library_works_as_shown() -> None:
    [block] = blocks("python", "antiphon.replay")
    lines = printed(block).splitlines()
    assert lines[0] == "0 response.created"
    assert lines[-1] == f"{len(lines) - 1} response.completed"


def test_a_replay_looks_as_shown(tmp_path: Path) -> None:
    [block] = blocks("sh", "antiphon replay hello.sse")
    [shown] = blocks("", "output_item.added                #0")
    command = tmp_path / "antiphon"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m antiphon.cli.main "$@"\n')
    command.chmod(0o755)
    path = f"{tmp_path}:{environment(tmp_path)['PATH']}"
    with on_terminal(tmp_path, block, command=("sh", "-c"), PATH=path) as terminal:
        assert terminal.wait() == 0
    assert terminal.plain == shown
    assert "\x1b[" in terminal.shown


def test_every_command_that_is_named_has_help() -> None:
    from antiphon.cli.main import main

    named = {tuple(words.split()) for words in re.findall(r"^\| `antiphon ([a-z ]+)", README, re.M)}
    assert len(named) == 8
    for words in named:
        with pytest.raises(SystemExit) as leaving, contextlib.redirect_stdout(io.StringIO()):
            main([*words, "--help"])
        assert leaving.value.code == 0
