"""docs/connect.md: each program and command, run with the real client and the built-in model."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.support.clients.installed import NEWEST, PINNED, Release, node_command, python_command
from tests.support.clients.opencode import OPENCODE_ENVIRONMENT
from tests.support.commands import serving
from tests.support.connect_page import read_program

PATIENCE_S = 180.0


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[str]:
    home = tmp_path / "gateway"
    home.mkdir()
    with serving(home) as base_url:
        yield base_url


def run(directory: Path, command: Sequence[str], variables: Mapping[str, str] | None = None) -> str:
    """Run a program in an empty home; return what it prints."""
    done = subprocess.run(
        command,
        cwd=directory,
        env={"HOME": str(directory), "PATH": os.environ["PATH"], **(variables or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("client", ["LangChain", "Pydantic AI"])
def test_a_python_program_prints_what_the_model_says(
    client: str, tmp_path: Path, gateway: str
) -> None:
    program = read_program(client, "python", gateway)
    assert run(tmp_path, [python_command(), "-c", program]) == "Hello\n"


@pytest.mark.parametrize(
    ("client", "release"),
    [
        ("OpenAI SDK for JavaScript", PINNED),
        ("OpenAI Agents SDK for JavaScript", PINNED),
        ("AI SDK", PINNED),
        ("AI SDK", NEWEST),
    ],
    ids=str,
)
def test_a_javascript_program_prints_what_the_model_says(
    client: str, release: Release, tmp_path: Path, gateway: str
) -> None:
    (tmp_path / "node_modules").symlink_to(release.modules)
    (tmp_path / "program.mjs").write_text(read_program(client, "js", gateway))
    assert run(tmp_path, [release.node, "program.mjs"]) == "Hello\n"


def test_llm_prints_what_the_model_says(tmp_path: Path, gateway: str) -> None:
    (tmp_path / "extra-openai-models.yaml").write_text(read_program("llm", "yaml", gateway))
    command = read_program("llm", "sh", gateway).split('"')
    words = [python_command("llm"), *command[0].split()[1:], command[1]]
    assert run(tmp_path, words, {"LLM_USER_PATH": str(tmp_path)}) == "Hello\n"


def test_opencode_prints_what_the_model_says(tmp_path: Path, gateway: str) -> None:
    (tmp_path / "opencode.json").write_text(read_program("opencode", "json", gateway))
    command = [node_command("opencode"), "run", "-m", "antiphon/echo", "Hello"]
    printed = run(tmp_path, command, OPENCODE_ENVIRONMENT)
    assert "echo" in printed  # the result of a tool that the model called
