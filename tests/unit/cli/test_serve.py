"""`antiphon serve`: options, the announcement of the address, and errors at the start."""

from __future__ import annotations

import errno
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from antiphon.cli.main import main
from antiphon.config import Config, ServerConfig
from antiphon.server.setup import make_checked_router
from tests.support.commands import Screen

Start = Callable[[Config], object]


def replace_server(monkeypatch: pytest.MonkeyPatch, start: Start) -> None:
    """Replace the server: `start` may raise; it ends at once."""

    async def serve(config: Config, environment: Any, emit: Any, announce: Any, load: Any) -> None:
        start(config)
        engine = SimpleNamespace(router=make_checked_router(config, environment))
        announce(SimpleNamespace(port=config.server.port or 4321), engine)

    monkeypatch.setattr("antiphon.cli.serve.serve", serve)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """The configurations that servers were started with."""
    configs: list[Config] = []

    replace_server(monkeypatch, configs.append)
    return configs


def test_options_override_the_configuration(home: Path, started: list[Config]) -> None:
    (home / "antiphon.toml").write_text('[server]\nhost = "::1"\nport = 1\nshutdown_s = 7\n')
    assert main(["serve"]) == 0
    assert main(["serve", "--host", "127.0.0.1", "--port", "0"]) == 0
    servers = [config.server for config in started]
    assert [(each.host, each.port) for each in servers] == [("::1", 1), ("127.0.0.1", 0)]
    assert {each.shutdown_s for each in servers} == {7}


def test_no_config_reads_no_file_and_shows_none(
    home: Path, started: list[Config], screen: Screen
) -> None:
    (home / "antiphon.toml").write_text("[server]\nshutdown_s = 7\n")
    assert screen.run("serve", "--no-config", "--port", "0") == 0
    assert started[0] == msgspec.structs.replace(Config(), server=ServerConfig(port=0))
    assert "antiphon.toml" not in screen.plain


@pytest.mark.parametrize("port", ["-1", "65536"])
@pytest.mark.usefixtures("home")
def test_a_port_out_of_range_is_rejected(
    port: str, started: list[Config], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", f"--port={port}"]) == 2
    expected = f"antiphon: --port {port}: must be a number from 0 to 65535\n"
    assert capsys.readouterr().err == expected
    assert started == []


@pytest.mark.usefixtures("home", "started")
def test_a_pipe_gets_one_line_with_the_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--port", "0"]) == 0
    [line] = capsys.readouterr().out.splitlines()
    assert line.endswith(" listens on http://127.0.0.1:4321/v1")


@pytest.mark.usefixtures("home", "started")
def test_a_terminal_shows_where_everything_is_and_what_to_do_next(screen: Screen) -> None:
    assert screen.run("serve", "--port", "0") == 0
    assert "API        http://127.0.0.1:4321/v1" in screen.plain
    assert re.search(r"page       http://127.0.0.1:4321/ui#token=[0-9a-f]{32} ", screen.plain)
    assert "config     no file; `antiphon init` writes one" in screen.plain
    assert "providers  none: only the built-in echo model, a test" in screen.plain
    assert "Set an API key such as DEEPSEEK_API_KEY, or start Ollama" in screen.plain
    assert "this machine only, no API key required" in screen.plain
    assert "next  antiphon codex " in screen.plain
    assert "curl http://127.0.0.1:4321/v1/responses" in screen.plain
    assert '"model":"echo/echo"' in screen.plain
    assert "authorization" not in screen.plain


@pytest.mark.usefixtures("started")
def test_a_terminal_shows_each_provider_and_where_it_comes_from(
    home: Path, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEEPSEEK_API_KEY", "sk-mine")
    assert screen.run("serve", "--port", "0") == 0
    assert "providers  deepseek (DEEPSEEK_API_KEY)" in screen.plain
    assert "model      deepseek/deepseek-v4-pro" in screen.plain
    assert "sk-mine" not in screen.plain
    assert "Set an API key" not in screen.plain
    (home / "antiphon.toml").write_text('[providers.lab]\nkind = "chat"\nbase_url = "http://lab"\n')
    assert screen.run("serve", "--port", "0") == 0
    assert "lab (file)" in screen.plain
    assert "config     /" in screen.plain
    assert "no file" not in screen.plain.rpartition("API")[2]


@pytest.mark.usefixtures("started")
def test_clients_with_keys_are_named_without_their_keys(home: Path, screen: Screen) -> None:
    path = home / "antiphon.toml"
    path.write_text(
        '[server]\napi_keys = { alice = "k-alice", bob = "k-bob" }\nadmin_key = "k-admin"\n'
    )
    assert screen.run("serve") == 0
    assert "token" not in screen.plain
    assert "with an API key: alice, bob" in screen.plain
    assert "authorization: Bearer YOUR-KEY" in screen.plain
    assert "k-alice" not in screen.plain


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.EADDRINUSE, "x"), "port 80 on 127.0.0.1 is in use by another program"),
        (PermissionError(errno.EACCES, "x"), "port 80 on 127.0.0.1 needs more privileges: choose"),
        (
            OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address"),
            "cannot listen on port 80 on 127.0.0.1: Cannot assign requested address",
        ),
    ],
)
@pytest.mark.usefixtures("home")
def test_a_port_that_cannot_be_bound_is_one_line_with_advice(
    error: OSError,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(config: Config) -> None:
        raise error

    replace_server(monkeypatch, fail)
    assert main(["serve", "--port", "80"]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"antiphon: {message}")


def test_a_gateway_imports_no_library_that_it_may_never_need() -> None:
    heavy = ("rich", "cryptography", "jsonschema_rs", "prompt_toolkit", "asyncpg")
    code = f"import sys, antiphon.cli.serve; print([n for n in {heavy} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
