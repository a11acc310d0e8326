"""Finding a gateway that runs, or starting one for the time that Codex runs."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from antiphon.cli.launcher.gateway import (
    RunningGateway,
    describe_use,
    find_gateway,
    start_gateway,
)
from antiphon.config import Config, ServerConfig
from antiphon.errors import GatewayError
from tests.support.commands import PATIENCE_S, environment, own_settings
from tests.support.tables import table

READY = {"ready": True}
MODELS = {"models": [{"slug": "m"}], "data": [], "antiphon": {"default_model": "m"}}
Answer = tuple[int, Any]


@contextmanager
def server(answers: Mapping[str, Answer]) -> Iterator[tuple[int, list[tuple[str, str | None]]]]:
    """An HTTP server with one answer for each path: its port, and path and key of each request."""
    requests: list[tuple[str, str | None]] = []

    class Recorder(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append((self.path, self.headers["authorization"]))
            status, document = answers[self.path]
            self.send_response(status)
            self.send_header("location", "/elsewhere")
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        do_POST = do_GET

        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Recorder) as listening:
        Thread(target=listening.serve_forever, daemon=True).start()
        try:
            yield listening.server_port, requests
        finally:
            listening.shutdown()


def config(port: int) -> Config:
    return Config(server=ServerConfig(port=port, api_keys={"me": "k-me"}))


def test_a_running_gateway_is_found_with_its_models() -> None:
    with server({"/health": (200, READY), "/v1/models": (200, MODELS)}) as (port, requests):
        gateway = find_gateway(config(port))
    assert gateway is not None
    assert (gateway.base_url, gateway.key) == (f"http://127.0.0.1:{port}/v1", "k-me")
    assert gateway.catalog == MODELS
    assert requests == [("/health", None), ("/v1/models", "Bearer k-me")]


@table("reply", [b"SSH-2.0-OpenSSH_9.9\r\n", b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 5000, b""])
def test_a_program_that_speaks_something_else_is_not_taken_for_a_gateway(reply: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(reply)

        thread = Thread(target=serve)
        thread.start()
        assert find_gateway(config(listening.getsockname()[1])) is None
        thread.join()


@table(
    ("health", "models"),
    [
        ((200, {"ready": False}), (200, MODELS)),
        ((200, [1]), (200, MODELS)),
        ((503, READY), (200, MODELS)),
        ((200, READY), (401, {})),
        ((200, READY), (200, {"data": [{"id": "m"}]})),
        ((200, READY), (200, {**MODELS, "models": []})),
    ],
    ids=["not ready", "not health", "failing", "key rejected", "not Antiphon", "no models"],
)
def test_another_server_is_not_taken_for_a_gateway(health: Answer, models: Answer) -> None:
    with server({"/health": health, "/v1/models": models}) as (port, _):
        assert find_gateway(config(port)) is None


def test_the_key_does_not_follow_a_redirect() -> None:
    """Another program may listen at that address, and send us to any server."""
    with server({"/health": (200, READY), "/v1/models": (302, MODELS)}) as (port, requests):
        assert find_gateway(config(port)) is None
    assert requests == [("/health", None), ("/v1/models", "Bearer k-me")]


def test_port_0_is_no_address_to_find_a_gateway_at() -> None:
    assert find_gateway(config(0)) is None


@pytest.fixture
def subprocess_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", environment(home)["PYTHONPATH"])
    return home


def test_a_started_gateway_imports_nothing_from_the_current_directory(
    subprocess_home: Path,
) -> None:
    """A project may have modules with the names of ours, by chance or on purpose."""
    for name in ("antiphon", "msgspec", "aiohttp"):
        (subprocess_home / f"{name}.py").write_text("raise SystemExit('imported from the project')")
    with start_gateway(Config(), None) as gateway:
        assert gateway.catalog["antiphon"]["default_model"] == "echo/echo"
    with pytest.raises(URLError):
        urlopen(gateway.base_url.removesuffix("/v1") + "/health", timeout=PATIENCE_S)


KEY_COLLECTOR = """\
[providers.collector]
kind = "chat"
base_url = "http://127.0.0.1:{port}/v1"
api_keys = ["${{USERS_KEY}}"]
models.m = {{}}
"""


def test_a_started_gateway_reads_no_configuration_of_the_current_directory(
    subprocess_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project could send the user's keys to any address. Here the user has no file of their own,
    so that nothing but the search of the gateway itself decides."""
    monkeypatch.setenv("USERS_KEY", "sk-of-the-user")
    with server({"/v1/models": (200, {}), "/v1/chat/completions": (500, {})}) as (port, requests):
        (subprocess_home / "antiphon.toml").write_text(KEY_COLLECTOR.format(port=port))
        with start_gateway(Config(), None) as gateway:
            body = json.dumps({"model": "collector/m", "input": "hello"}).encode()
            headers = {"content-type": "application/json"}
            with pytest.raises(HTTPError) as refused:
                urlopen(Request(f"{gateway.base_url}/responses", body, headers))
    with refused.value as response:
        assert (response.code, requests) == (404, [])


def test_a_gateway_that_does_not_start_is_an_error_with_its_message(subprocess_home: Path) -> None:
    own_settings(subprocess_home).write_text("[server]\nprot = 1\n")
    with (
        pytest.raises(GatewayError, match=r"antiphon\.toml:2: server\.prot: unknown key"),
        start_gateway(Config(), None),
    ):
        pass


@pytest.mark.usefixtures("subprocess_home")
def test_a_gateway_that_exits_silently_is_an_error_with_advice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.executable", "/bin/true")
    with pytest.raises(GatewayError, match="run `antiphon serve`"), start_gateway(Config(), None):
        pass


def test_a_gateway_that_does_not_stop_is_killed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = home / "stubborn"
    with server({"/v1/models": (200, MODELS)}) as (port, _):
        program.write_text(
            "#!/bin/sh\ntrap '' TERM\n"
            f"echo listens on http://127.0.0.1:{port}/v1\necho $$ > pid\n"
            "while :; do sleep 0.1; done\n"
        )
        program.chmod(0o755)
        monkeypatch.setattr("sys.executable", str(program))
        monkeypatch.setattr("antiphon.cli.launcher.gateway._STOP_TIMEOUT_S", 0.2)
        with start_gateway(Config(), None) as gateway:
            assert gateway.catalog == MODELS
            while not (home / "pid").exists() or not (home / "pid").read_text():
                pass
    pid = (home / "pid").read_text().strip()
    assert subprocess.run(["kill", "-0", pid], capture_output=True, check=False).returncode != 0


def session(name: str, began_at_ms: int, **more: Any) -> dict[str, Any]:
    counts = {"requests": 1, "input_tokens": 900, "output_tokens": 100, "cost": 0.05}
    return {"session": name, "began_at_ms": began_at_ms, **counts, "unpriced": 0, **more}


LATE = session("0199/a", 20, requests=14, input_tokens=211_000, output_tokens=1_000, cost=0.11)
OTHER = session("other", 30, unpriced=1)


@table(
    ("answer", "expected"),
    [
        (
            (200, {"rows": [LATE, session("before", 10)]}),
            "14 requests, 212,000 tokens, $0.1100 · {page}/sessions/0199%2Fa",
        ),
        (
            (200, {"rows": [OTHER]}),
            "1 request, 1,000 tokens, at least $0.0500 · {page}/sessions/other",
        ),
        (
            (200, {"rows": [session("free", 20, cost=0.0, unpriced=1)]}),
            "1 request, 1,000 tokens, cost unknown (no price is set) · {page}/sessions/free",
        ),
        ((200, {"rows": [OTHER, LATE]}), None),
        ((200, {"rows": [session("before", 10)]}), ""),
        ((401, {}), ""),
        ((200, []), ""),
    ],
)
def test_the_use_of_a_session_is_one_line_with_its_address(
    answer: Answer, expected: str | None
) -> None:
    with server({"/ui/api/sessions": answer}) as (port, requests):
        page = f"http://127.0.0.1:{port}/ui"
        gateway = RunningGateway(base_url=f"http://127.0.0.1:{port}/v1", key="k-me", catalog={})
        line = describe_use(gateway, 15)
    if expected is None:  # several: the list of them
        assert line is not None
        assert line.endswith(f"{page}/sessions")
    else:
        assert (line or "") == expected.format(page=page)
    assert requests == [("/ui/api/sessions", None)]
