"""Every program in examples/ runs: against echo, or against a scripted provider on loopback."""

from __future__ import annotations

import asyncio
import os
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from tests.support.plugin_packages import install
from tests.support.upstream import (
    HELLO_WORLD,
    Script,
    send_frames,
    send_json,
    upstream,
    whole_answer,
)

EXAMPLES = Path(__file__).parents[1] / "examples"
SOURCE = EXAMPLES.parent / "src"
ACME = EXAMPLES / "custom_provider"

WEB_REQUESTS = """
from fastapi.testclient import TestClient
from web_app import application

local = {"base_url": "http://127.0.0.1", "client": ("127.0.0.1", 1)}
with TestClient(application, **local) as client:
    print(client.get("/summary", params={"text": "A long story"}).json())
    request = {"model": "echo/echo", "input": "Hi"}
    print(client.post("/llm/v1/responses", json=request).json()["status"])
"""


async def run(
    *arguments: str | Path, path: Path = EXAMPLES, stdin: str = "", env: Mapping[str, str] = {}
) -> str:
    """Run a program with these arguments of Python, and return what it printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *map(str, arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{SOURCE}{os.pathsep}{path}", **env},
    )
    printed, complaints = await process.communicate(stdin.encode())
    assert (process.returncode, complaints.decode()) == (0, "")
    return printed.decode()


async def test_the_chat_remembers_its_turns() -> None:
    printed = await run(EXAMPLES / "chat.py", stdin="Good morning\nGood night\n\n")
    assert printed == "Good morning\nGood night\n"


async def test_the_agent_calls_its_tool() -> None:
    printed = await run(EXAMPLES / "agent.py")
    assert "sunny" in printed


async def test_the_web_application_answers_at_both_of_its_paths() -> None:
    printed = await run("-c", WEB_REQUESTS)
    assert printed.splitlines() == ["{'summary': 'A long story'}", "completed"]


async def test_providers_are_compared_in_a_table() -> None:
    head, echo, reasoner, failing = (await run(EXAMPLES / "compare_providers.py")).splitlines()
    assert head.split() == ["model", "first", "text", "whole", "tokens"]
    assert (echo.split()[0], reasoner.split()[0]) == ("echo/echo", "echo/reasoner")
    assert failing.startswith("echo/error-401")
    assert "key" in failing


async def test_only_the_translation_is_used_with_another_http_client() -> None:
    script: Script = send_frames(HELLO_WORLD)
    async with upstream(script) as provider:
        arguments = (EXAMPLES / "own_http_client.py", provider.url, "chat", "scripted")
        printed = await run(*arguments, env={"API_KEY": "secret"})
    assert printed.splitlines()[0] == "response.created"
    assert printed.splitlines()[-2:] == ["response.completed", "Hello, world"]
    assert provider.requests[0].headers["authorization"] == "Bearer secret"


async def test_a_stage_of_ones_own_sees_every_answer() -> None:
    printed = await run(EXAMPLES / "own_stage.py")
    assert printed.startswith("echo/echo: ")
    assert printed.endswith(" tokens\n")


async def test_a_provider_is_added_by_a_package(tmp_path: Path) -> None:
    project = tomllib.loads((ACME / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    source = (ACME / "antiphon_acme.py").read_text(encoding="utf-8")
    entry_points = project["entry-points"]["antiphon.providers"]
    install(tmp_path, project["name"], entry_points, module="antiphon_acme", source=source)
    config = tmp_path / "antiphon.toml"
    async with upstream(send_json(200, whole_answer("Hello from Acme"))) as provider:
        config.write_text(f'[providers.acme]\nbase_url = "{provider.url}"\n')
        printed = await run(ACME / "ask.py", config, path=tmp_path, env={"ACME_API_KEY": "k"})
    assert printed.splitlines() == ["Hello from Acme", "param.ignored top_p"]
    assert provider.requests[0].body["max_completion_tokens"] == 50


def test_every_example_is_run() -> None:
    here = Path(__file__).read_text(encoding="utf-8")
    programs = [each for each in EXAMPLES.rglob("*.py") if each.stem not in here]
    assert programs == []
