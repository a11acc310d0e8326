"""docs/connect.md: programs whose packages are development tools; tests/clients runs the others."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import serving
from tests.support.connect_page import SECTIONS, read_blocks, read_program
from tests.test_readme import send_with_python


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("home")) as base_url:
        yield base_url


@pytest.mark.parametrize(
    "client",
    ["OpenAI SDK for Python", "OpenAI Agents SDK for Python", "Anthropic SDK for Python"],
)
def test_a_program_prints_what_the_model_says(
    client: str, gateway: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "to be replaced")
    monkeypatch.setenv("OPENAI_API_KEY", "to be replaced")
    out = io.StringIO()
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(out):
        exec(compile(read_program(client, "python", gateway), "connect.md", "exec"), names)
    if "client" in names:
        names["client"].close()
    assert out.getvalue() == "Hello\n"


def test_the_request_of_a_front_end_is_answered(gateway: str) -> None:
    program = read_program("Open WebUI and other chat front ends", "sh", gateway)
    assert b'"content":"Hello"' in send_with_python(program)


def test_every_client_of_the_page_has_a_program_that_a_test_runs() -> None:
    tested = (Path(__file__).parent / "clients" / "test_connect.py").read_text(encoding="utf-8")
    tested += Path(__file__).read_text(encoding="utf-8")
    by_their_own_tests = {"Codex", "Claude Code", "It does not work"}
    assert [
        name for name in SECTIONS if name not in by_their_own_tests and name not in tested
    ] == []
    assert read_blocks("Codex", "sh")
