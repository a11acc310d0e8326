"""Python clients with the library in their process, against echo: no socket is used at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.clients.gateway import ClientSetup, in_process
from tests.support.clients.python_programs import run_program
from tests.support.clients.scripted_model import ScriptedModel

SCENARIOS = [
    ("openai_client", "create", "text"),
    ("openai_client", "create_stream", "text"),
    ("openai_client", "helper", "text"),
    ("agents_client", "run", "output"),
    ("langchain_client", "invoke", "text"),
    ("langchain_client", "stream", "text"),
    ("pydantic_ai_client", "text", "output"),
    ("pydantic_ai_client", "stream", "output"),
]


def echo_setup(tmp_path: Path) -> ClientSetup:
    config = tmp_path / "antiphon.toml"
    config.write_text('[models]\nscripted = "echo/echo"\n', encoding="utf-8")
    return ClientSetup(ScriptedModel("chat", []), tmp_path, in_process(config))


@pytest.mark.parametrize(("program", "scenario", "field"), SCENARIOS)
async def test_a_client_runs_on_echo_without_a_socket(
    tmp_path: Path, program: str, scenario: str, field: str
) -> None:
    seen = await run_program(echo_setup(tmp_path), program, scenario)
    assert seen[field] == "Good morning"


async def test_a_client_that_connects_elsewhere_is_noticed(tmp_path: Path) -> None:
    config = tmp_path / "antiphon.toml"
    elsewhere = '[providers.chat]\nbase_url = "http://127.0.0.1:9/v1"\napi_keys = ["k"]\n'
    config.write_text(f'[models]\nscripted = "chat/m"\n{elsewhere}', encoding="utf-8")
    setup = ClientSetup(ScriptedModel("chat", []), tmp_path, in_process(config))
    with pytest.raises(AssertionError, match=r"socket\.connect to .* is not allowed"):
        await run_program(setup, "openai_client", "create")
