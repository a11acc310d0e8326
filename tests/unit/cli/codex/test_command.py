"""`antiphon codex`: which words are whose, and what Codex is started with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from antiphon.cli.codex.command import split
from antiphon.cli.codex.gateway import find_gateway, started_gateway
from antiphon.config import Config, ServerConfig
from tests.support.commands import (
    COMMAND,
    PATIENCE_S,
    environment,
    on_terminal,
    own_settings,
    run,
    serving,
)

# Tells what it was started with, and what it finds where it was sent.
FAKE = """\
#!{python}
import json, os, sys, tomllib
from urllib.request import urlopen
words = sys.argv[1:]
pairs = [words[at + 1] for at, word in enumerate(words) if word == "-c"]
settings = tomllib.loads("\\n".join(pairs[:4]))
base_url = settings["model_providers"]["antiphon"]["base_url"]
health = json.load(urlopen(base_url.removesuffix("/v1") + "/health"))
catalog = json.load(open(settings["model_catalog_json"]))
told = dict(words=words, settings=settings, health=health, catalog=catalog, pid=os.getpid())
print(json.dumps(dict(told, environment=dict(os.environ), stdin=sys.stdin.read())))
sys.exit(int(os.environ.get("FAKE_STATUS", 0)))
"""
# Says what it is told to stop by, and stops in its own way.
STUBBORN = """\
#!{python}
import os, signal, sys
def stop(number, frame):  # perhaps in the middle of a print
    os.write(1, f"codex got {{signal.Signals(number).name}}\\n".encode())
    sys.exit(7)
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, stop)
print("codex runs with", sys.argv[6], flush=True)
while True:
    signal.pause()
"""


def put(directory: Path, source: str = FAKE) -> str:
    """A program called codex; its directory."""
    directory.mkdir(exist_ok=True)
    program = directory / "codex"
    program.write_text(source.format(python=sys.executable), encoding="utf-8")
    program.chmod(0o755)
    return str(directory)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH with our codex on it."""
    return f"{put(tmp_path / 'bin')}:{os.environ['PATH']}"


def told(done: subprocess.CompletedProcess[bytes]) -> Any:
    assert (done.returncode, done.stderr) == (0, b"")
    return json.loads(done.stdout)


def is_there(base_url: str) -> bool:
    try:
        with urlopen(base_url.removesuffix("/v1") + "/health", timeout=PATIENCE_S):
            return True
    except URLError:
        return False


@contextmanager
def gateway(home: Path, extra: str = "", **more: str) -> Iterator[str]:
    """A gateway that runs where the configuration says; its base URL."""
    (home / "serving.toml").write_text(extra, encoding="utf-8")
    with serving(home, "--config", "serving.toml", **more) as base_url:
        port = base_url.rpartition(":")[2].removesuffix("/v1")
        head, _, rest = extra.partition("[server]\n")
        text = f"{head}[server]\nport = {port}\n{rest}"
        own_settings(home).write_text(text, encoding="utf-8")
        yield base_url


# --- whose words ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "ours", "theirs"),
    [
        ("", "", ""),
        ("exec hello", "", "exec hello"),
        ("-m x exec", "", "-m x exec"),
        ("--model x exec --model y", "--model x", "exec --model y"),
        ("--model=x -- hello", "--model=x", "-- hello"),
        ("--config a.toml resume --last", "--config a.toml", "resume --last"),
        ("--config a=1 exec", "", "--config a=1 exec"),
        ("--config=a=1", "", "--config=a=1"),
        ("--config=a.toml --config b=1", "--config=a.toml", "--config b=1"),
        ("-c a=1 --config a.toml", "", "-c a=1 --config a.toml"),
        ("--help", "--help", ""),
        ("exec --help", "", "exec --help"),
        ("setup --yes", "setup --yes", ""),
        ("--config a.toml setup --model x", "--config a.toml setup --model x", ""),
        ("undo", "undo", ""),
        ("exec setup", "", "exec setup"),
        ("--config", "--config", ""),
    ],
)
def test_our_options_come_first_and_the_rest_is_codex_s(line: str, ours: str, theirs: str) -> None:
    assert split(line.split()) == (ours.split(), theirs.split())


# --- without a gateway ----------------------------------------------------------------------------


def test_a_gateway_is_started_and_is_gone_afterwards(tmp_path: Path, path: str) -> None:
    own_settings(tmp_path).write_text("[server]\nport = 0\n")
    done = told(run(tmp_path, "codex", "exec", "-", "--", "-x", given=b"typed", PATH=path))
    assert done["health"] == {"status": "ok", "ready": True}
    assert done["words"][8:] == ["exec", "-", "--", "-x"]
    assert done["stdin"] == "typed"
    assert not is_there(done["settings"]["model_providers"]["antiphon"]["base_url"])
    assert not Path(done["settings"]["model_catalog_json"]).exists()


def test_codex_is_told_where_to_ask_for_what(tmp_path: Path, path: str) -> None:
    own_settings(tmp_path).write_text('[server]\nport = 0\napi_keys = { me = "k-me" }\n')
    done = told(run(tmp_path, "codex", PATH=path))
    settings = done["settings"]
    assert (settings["model_provider"], settings["model"]) == ("antiphon", "echo/echo")
    assert settings["model_providers"]["antiphon"]["env_key"] == "ANTIPHON_API_KEY"
    assert done["environment"]["ANTIPHON_API_KEY"] == "k-me"
    assert done["catalog"]["models"][0]["slug"] == "echo/echo"
    assert "k-me" not in json.dumps(done["words"])


def test_nothing_is_written_where_codex_keeps_its_own(tmp_path: Path, path: str) -> None:
    own_settings(tmp_path).write_text("[server]\nport = 0\n")
    told(run(tmp_path, "codex", PATH=path))
    assert not (tmp_path / ".codex").exists()


def test_the_configuration_that_is_named_is_the_gateway_s(tmp_path: Path, path: str) -> None:
    (tmp_path / "team.toml").write_text('[server]\nport = 0\n[models]\nours = "echo/echo"\n')
    done = told(run(tmp_path, "codex", "--config", "team.toml", "exec", PATH=path))
    assert "ours" in [model["slug"] for model in done["catalog"]["models"]]


@pytest.mark.parametrize(
    ("own", "args", "model"),
    [
        ("", [], "echo/echo"),
        ('model = "gpt-6-sol"\n', [], "echo/echo"),
        ('model = "echo/reasoner"\n', [], "echo/reasoner"),
        ('model = "echo/reasoner"\n', ["--model", "echo/cut"], "echo/cut"),
        ("model = [\n", [], "echo/echo"),
    ],
)
def test_the_model_is_the_one_that_is_named_or_chosen_or_the_default(
    own: str, args: list[str], model: str, tmp_path: Path, path: str
) -> None:
    own_settings(tmp_path).write_text("[server]\nport = 0\n")
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex/config.toml").write_text(own)
    assert told(run(tmp_path, "codex", *args, PATH=path))["settings"]["model"] == model
    assert (tmp_path / ".codex/config.toml").read_text() == own


def test_the_exit_status_is_codex_s(tmp_path: Path, path: str) -> None:
    own_settings(tmp_path).write_text("[server]\nport = 0\n")
    assert run(tmp_path, "codex", PATH=path, FAKE_STATUS="9").returncode == 9


def test_a_signal_that_ended_codex_is_told_as_shells_do(tmp_path: Path) -> None:
    own_settings(tmp_path).write_text("[server]\nport = 0\n")
    directory = put(tmp_path / "bin", "#!/bin/sh\nkill -KILL $$\n")
    done = run(tmp_path, "codex", ANTIPHON_CODEX=f"{directory}/codex")
    assert done.returncode == 128 + signal.SIGKILL


def test_a_gateway_that_cannot_start_says_why(tmp_path: Path, path: str) -> None:
    own_settings(tmp_path).write_text('[server]\nport = 0\n[models]\na = "x/y"\n')
    done = run(tmp_path, "codex", PATH=path)
    assert (done.returncode, done.stdout) == (2, b"")
    [line] = done.stderr.decode().splitlines()
    assert line.startswith("antiphon: ")
    assert "there is no provider 'x'" in line


def test_no_proxy_stands_between_codex_and_the_gateway(tmp_path: Path, path: str) -> None:
    own_settings(tmp_path).write_text("[server]\nport = 0\n")
    done = told(
        run(tmp_path, "codex", PATH=path, http_proxy="http://127.0.0.1:9", no_proxy="intra")
    )
    assert done["environment"]["NO_PROXY"] == done["environment"]["no_proxy"] == "intra,127.0.0.1"


# --- with one -------------------------------------------------------------------------------------


def test_a_gateway_that_runs_is_used_and_goes_on(tmp_path: Path, path: str) -> None:
    with gateway(tmp_path) as base_url:
        done = told(run(tmp_path, "codex", "exec", PATH=path))
        assert done["settings"]["model_providers"]["antiphon"]["base_url"] == base_url
        assert is_there(base_url)


def test_the_process_becomes_codex_where_nothing_is_left_to_do(tmp_path: Path, path: str) -> None:
    with gateway(tmp_path):
        process = subprocess.Popen(
            [*COMMAND, "codex"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            cwd=tmp_path,
            env=environment(tmp_path, PATH=path),
        )
        out, _ = process.communicate(timeout=PATIENCE_S)
        assert json.loads(out)["pid"] == process.pid


def test_its_key_is_that_of_the_configuration(tmp_path: Path, path: str) -> None:
    with gateway(tmp_path, '[server]\napi_keys = { me = "k-me" }\n') as base_url:
        done = told(run(tmp_path, "codex", PATH=path, ANTIPHON_API_KEY="another"))
        assert done["environment"]["ANTIPHON_API_KEY"] == "k-me"
        assert "k-me" not in json.dumps(done["words"])  # which everybody on the machine can read
        assert done["settings"]["model_providers"]["antiphon"]["base_url"] == base_url


def test_a_key_does_not_follow_a_redirection(tmp_path: Path) -> None:
    """Whatever listens there may send us anywhere."""
    heard: list[tuple[str, str | None]] = []

    class Pointer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append((self.path, self.headers["authorization"]))
            self.send_response(200 if self.path == "/health" else 302)
            self.send_header("location", "/elsewhere")
            self.end_headers()
            self.wfile.write(b'{"ready": true}')

        def log_message(self, *about: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Pointer) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        keyed = ServerConfig(port=server.server_port, api_keys={"me": "k-me"})
        assert find_gateway(Config(server=keyed)) is None
        server.shutdown()
    assert heard == [("/health", None), ("/v1/models", "Bearer k-me")]


def test_nothing_is_imported_from_where_codex_is_started(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project may have modules with names like ours, or a trap."""
    monkeypatch.setenv("PYTHONPATH", environment(home)["PYTHONPATH"])
    for name in ("antiphon", "msgspec", "aiohttp"):
        (home / f"{name}.py").write_text("raise SystemExit('imported from the project')")
    with started_gateway(Config(), None) as gateway:
        assert gateway.catalog["antiphon"]["default_model"] == "echo/echo"


def test_one_that_does_not_take_our_key_is_left_alone(tmp_path: Path, path: str) -> None:
    with gateway(tmp_path, '[server]\napi_keys = { me = "k-me" }\n') as base_url:
        text = own_settings(tmp_path).read_text()
        own_settings(tmp_path).write_text(text.replace("k-me", "k-new"))
        done = told(run(tmp_path, "codex", PATH=path))
        assert done["environment"]["ANTIPHON_API_KEY"] == "k-new"
        assert done["settings"]["model_providers"]["antiphon"]["base_url"] != base_url


# --- at the keyboard ------------------------------------------------------------------------------


def test_ctrl_c_is_for_codex_alone_and_the_gateway_outlives_it(tmp_path: Path) -> None:
    own_settings(tmp_path).write_text("[server]\nport = 0\n")
    program = f"{put(tmp_path / 'bin', STUBBORN)}/codex"
    with on_terminal(tmp_path, "codex", ANTIPHON_CODEX=program) as terminal:
        terminal.wait_for("codex runs with model_catalog_json")
        assert terminal.interrupt() == 7
    assert terminal.plain.count("codex got SIGINT") == 1
    assert "Traceback" not in terminal.plain


def test_who_ends_us_ends_codex(tmp_path: Path) -> None:
    own_settings(tmp_path).write_text("[server]\nport = 0\n")
    program = f"{put(tmp_path / 'bin', STUBBORN)}/codex"
    with on_terminal(tmp_path, "codex", ANTIPHON_CODEX=program) as terminal:
        terminal.wait_for("codex runs with")
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.wait() == 7
    assert "codex got SIGTERM" in terminal.plain


def test_a_project_cannot_say_where_keys_go(tmp_path: Path) -> None:
    """Codex is run in projects of others: a configuration that lies there is not ours."""
    own_settings(tmp_path).write_text("[server]\nport = 0\n")
    (tmp_path / "antiphon.toml").write_text("this is no configuration")
    done = run(tmp_path, "codex", ANTIPHON_CODEX=f"{put(tmp_path / 'bin')}/codex")
    assert done.returncode == 0, done.stderr


# --- without Codex --------------------------------------------------------------------------------


def test_how_to_get_codex_is_said_where_there_is_none(tmp_path: Path) -> None:
    done = run(tmp_path, "codex", PATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"npm install -g @openai/codex" in done.stderr


def test_a_program_that_is_named_and_missing_is_named(tmp_path: Path) -> None:
    done = run(tmp_path, "codex", ANTIPHON_CODEX="/no/codex")
    assert done.returncode == 2
    assert b"$ANTIPHON_CODEX is '/no/codex', but no program is there" in done.stderr


def test_the_settings_are_valid_toml_whatever_the_names_are(tmp_path: Path, path: str) -> None:
    own_settings(tmp_path).write_text("[server]\nport = 0\n")
    done = told(run(tmp_path, "codex", "--model", 'a "b" \\ é', PATH=path))
    assert tomllib.loads(done["words"][3])["model"] == 'a "b" \\ é'
