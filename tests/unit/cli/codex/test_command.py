"""`antiphon codex`: which arguments are Codex's, and how Codex is started and ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from antiphon.cli.launcher.program import split_arguments
from tests.support.commands import (
    COMMAND,
    PATIENCE_S,
    environment,
    on_terminal,
    own_settings,
    run,
    serving,
)
from tests.support.tables import table

# Prints its arguments and environment, and what it reads from the gateway and the catalog.
FAKE_CODEX = """\
#!{python}
import json, os, sys, tomllib
from urllib.request import urlopen
arguments = sys.argv[1:]
pairs = [arguments[n + 1] for n, each in enumerate(arguments) if each == "-c"]
settings = tomllib.loads("\\n".join(pairs[:4]))
base_url = settings["model_providers"]["antiphon"]["base_url"]
health = json.load(urlopen(base_url.removesuffix("/v1") + "/health"))
catalog = json.load(open(settings["model_catalog_json"]))
report = dict(arguments=arguments, settings=settings, health=health, catalog=catalog)
report.update(pid=os.getpid(), environment=dict(os.environ), stdin=sys.stdin.read())
print(json.dumps(report))
sys.exit(int(os.environ.get("FAKE_STATUS", 0)))
"""
# Sends one request of a session.
TALKING_CODEX = """\
#!{python}
import json, os, sys, tomllib
from urllib.request import Request, urlopen
arguments = sys.argv[1:]
pairs = [arguments[n + 1] for n, each in enumerate(arguments) if each == "-c"]
settings = tomllib.loads("\\n".join(pairs[:4]))
url = settings["model_providers"]["antiphon"]["base_url"] + "/responses"
headers = {{"content-type": "application/json", "session-id": "0199-thread"}}
headers["authorization"] = "Bearer " + os.environ["ANTIPHON_API_KEY"]
body = json.dumps({{"model": "echo/echo", "input": "Hello"}}).encode()
urlopen(Request(url, data=body, headers=headers)).read()
"""
# A Codex that reads the catalog from the gateway.
NEW_CODEX = """\
#!{python}
import json, sys, tomllib
from urllib.request import Request, urlopen
if sys.argv[1:] == ["--version"]:
    print("codex-cli 0.166.0")
    sys.exit()
arguments = sys.argv[1:]
pairs = [arguments[n + 1] for n, each in enumerate(arguments) if each == "-c"]
settings = tomllib.loads("\\n".join(pairs[:4]))
provider = settings["model_providers"]["antiphon"]
catalog = None
if "model_catalog_url" in provider:
    catalog = json.load(urlopen(provider["model_catalog_url"]))
print(json.dumps(dict(settings=settings, catalog=catalog)))
"""
# Reports the signal that stops it, and exits with a status of its own.
SIGNAL_REPORTER = """\
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


def write_codex(directory: Path, source: str = FAKE_CODEX) -> str:
    """Write an executable named codex; return its directory."""
    directory.mkdir(exist_ok=True)
    program = directory / "codex"
    program.write_text(source.format(python=sys.executable), encoding="utf-8")
    program.chmod(0o755)
    return str(directory)


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH on which `codex` is the fake one."""
    return f"{write_codex(tmp_path / 'bin')}:{os.environ['PATH']}"


def read_report(done: subprocess.CompletedProcess[bytes]) -> Any:
    assert done.returncode == 0
    [line] = done.stderr.decode().splitlines()
    assert line.startswith("antiphon: no provider is configured: Codex runs with the built-in echo")
    return json.loads(done.stdout)


def is_running(base_url: str) -> bool:
    try:
        with urlopen(base_url.removesuffix("/v1") + "/health", timeout=PATIENCE_S):
            return True
    except URLError:
        return False


def use_gateway(home: Path, base_url: str, rest: str = "") -> None:
    """Write the user's configuration: the address of a running gateway, and more of [server]."""
    port = base_url.rpartition(":")[2].removesuffix("/v1")
    own_settings(home).write_text(f"[server]\nport = {port}\n{rest}", encoding="utf-8")


@pytest.fixture(scope="module")
def running_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of a gateway without keys; all tests that only need one share it."""
    with serving(tmp_path_factory.mktemp("gateway")) as base_url:
        yield base_url


@pytest.fixture
def base_url(tmp_path: Path, running_gateway: str) -> str:
    """The base URL of the running gateway; it is that of the user's configuration."""
    use_gateway(tmp_path, running_gateway)
    return running_gateway


@pytest.fixture(scope="module")
def gateway_with_key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of a running gateway that requires the key k-me."""
    home = tmp_path_factory.mktemp("gateway")
    own_settings(home).write_text('[server]\napi_keys = { me = "k-me" }\n')
    with serving(home) as base_url:
        yield base_url


# --- arguments ------------------------------------------------------------------------------------


@table(
    ("line", "own", "of_codex"),
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
def test_own_options_come_first_and_the_rest_is_passed_to_codex(
    line: str, own: str, of_codex: str
) -> None:
    assert split_arguments(line.split()) == (own.split(), of_codex.split())


# --- no gateway is running ------------------------------------------------------------------------


def test_a_gateway_is_started_and_stopped_with_codex(tmp_path: Path, path: str) -> None:
    own_settings(tmp_path).write_text("[server]\nport = 0\n")
    done = read_report(run(tmp_path, "codex", "exec", "-", "--", "-x", given=b"typed", PATH=path))
    assert done["health"] == {"status": "ok", "ready": True}
    assert done["arguments"][8:] == ["exec", "-", "--", "-x"]
    assert done["stdin"] == "typed"
    assert not is_running(done["settings"]["model_providers"]["antiphon"]["base_url"])
    assert not Path(done["settings"]["model_catalog_json"]).exists()
    assert not (tmp_path / ".codex").exists()


def test_codex_gets_provider_model_key_and_catalog_of_the_gateway(
    tmp_path: Path, path: str
) -> None:
    own_settings(tmp_path).write_text('[server]\nport = 0\napi_keys = { me = "k-me" }\n')
    done = read_report(run(tmp_path, "codex", PATH=path))
    settings = done["settings"]
    assert (settings["model_provider"], settings["model"]) == ("antiphon", "echo/echo")
    assert settings["model_providers"]["antiphon"]["env_key"] == "ANTIPHON_API_KEY"
    assert done["environment"]["ANTIPHON_API_KEY"] == "k-me"
    assert done["catalog"]["models"][0]["slug"] == "echo/echo"
    assert "k-me" not in json.dumps(done["arguments"])


def test_a_codex_that_can_reads_the_catalog_from_the_gateway_and_no_file_is_written(
    tmp_path: Path,
) -> None:
    own_settings(tmp_path).write_text("[server]\nport = 0\n")
    program = f"{write_codex(tmp_path / 'bin', NEW_CODEX)}/codex"
    done = read_report(run(tmp_path, "codex", ANTIPHON_CODEX=program))
    assert done["catalog"]["models"][0]["slug"] == "echo/echo"
    assert "model_catalog_json" not in done["settings"]


@pytest.mark.usefixtures("base_url")
def test_a_running_gateway_leaves_no_catalog_file_either(tmp_path: Path) -> None:
    program = f"{write_codex(tmp_path / 'bin', NEW_CODEX)}/codex"
    read_report(run(tmp_path, "codex", ANTIPHON_CODEX=program))
    assert list(tmp_path.rglob("codex-*.json")) == []


def test_a_catalog_file_in_the_configuration_of_codex_is_replaced_by_a_file(tmp_path: Path) -> None:
    """Codex would read its own file rather than the address."""
    own_settings(tmp_path).write_text("[server]\nport = 0\n")
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex/config.toml").write_text('model_catalog_json = "/old.json"\n')
    program = f"{write_codex(tmp_path / 'bin', NEW_CODEX)}/codex"
    done = read_report(run(tmp_path, "codex", ANTIPHON_CODEX=program))
    assert done["settings"]["model_catalog_json"] != "/old.json"


def test_with_a_provider_there_is_no_warning(tmp_path: Path) -> None:
    own_settings(tmp_path).write_text("[server]\nport = 0\n[discovery]\nenabled = false\n")
    program = f"{write_codex(tmp_path / 'bin', NEW_CODEX)}/codex"
    done = run(tmp_path, "codex", ANTIPHON_CODEX=program, DEEPSEEK_API_KEY="k")
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.usefixtures("base_url")
def test_nothing_is_written_to_the_codex_home(tmp_path: Path, path: str) -> None:
    read_report(run(tmp_path, "codex", PATH=path))
    assert not (tmp_path / ".codex").exists()


def test_the_config_option_selects_the_configuration_of_the_gateway(
    tmp_path: Path, path: str
) -> None:
    (tmp_path / "team.toml").write_text('[server]\nport = 0\n[models]\nours = "echo/echo"\n')
    done = read_report(run(tmp_path, "codex", "--config", "team.toml", "exec", PATH=path))
    assert "ours" in [model["slug"] for model in done["catalog"]["models"]]


@pytest.mark.usefixtures("base_url")
@pytest.mark.parametrize(
    ("codex_config", "args", "model"),
    [
        ("", [], "echo/echo"),
        ('model = "gpt-6-sol"\n', [], "echo/echo"),
        ('model = "echo/reasoner"\n', [], "echo/reasoner"),
        ('model = "echo/reasoner"\n', ["--model", "echo/cut"], "echo/cut"),
        ("model = [\n", [], "echo/echo"),
    ],
)
def test_the_model_is_the_option_or_that_of_codex_or_the_default(
    codex_config: str, args: list[str], model: str, tmp_path: Path, path: str
) -> None:
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex/config.toml").write_text(codex_config)
    assert read_report(run(tmp_path, "codex", *args, PATH=path))["settings"]["model"] == model
    assert (tmp_path / ".codex/config.toml").read_text() == codex_config


def test_the_exit_status_is_that_of_codex(tmp_path: Path, path: str) -> None:
    own_settings(tmp_path).write_text("[server]\nport = 0\n")
    assert run(tmp_path, "codex", PATH=path, FAKE_STATUS="9").returncode == 9


def test_a_signal_that_ends_codex_gives_the_exit_status_of_a_shell(tmp_path: Path) -> None:
    own_settings(tmp_path).write_text("[server]\nport = 0\n")
    directory = write_codex(tmp_path / "bin", "#!/bin/sh\nkill -KILL $$\n")
    done = run(tmp_path, "codex", ANTIPHON_CODEX=f"{directory}/codex")
    assert done.returncode == 128 + signal.SIGKILL


def test_a_gateway_that_cannot_start_is_one_line_with_the_reason(tmp_path: Path, path: str) -> None:
    own_settings(tmp_path).write_text('[server]\nport = 0\n[models]\na = "x/y"\n')
    done = run(tmp_path, "codex", PATH=path)
    assert (done.returncode, done.stdout) == (2, b"")
    [line] = done.stderr.decode().splitlines()
    assert line.startswith("antiphon: ")
    assert "there is no provider 'x'" in line


@pytest.mark.usefixtures("base_url")
def test_codex_connects_to_the_gateway_without_a_proxy(tmp_path: Path, path: str) -> None:
    done = read_report(
        run(tmp_path, "codex", PATH=path, http_proxy="http://127.0.0.1:9", no_proxy="intra")
    )
    assert done["environment"]["NO_PROXY"] == done["environment"]["no_proxy"] == "intra,127.0.0.1"


# --- a gateway is running -------------------------------------------------------------------------


def test_a_running_gateway_is_used_and_keeps_running(
    tmp_path: Path, path: str, base_url: str
) -> None:
    done = read_report(run(tmp_path, "codex", "exec", PATH=path))
    assert done["settings"]["model_providers"]["antiphon"]["base_url"] == base_url
    assert is_running(base_url)


@pytest.mark.usefixtures("base_url")
def test_codex_replaces_the_process_if_the_gateway_runs_already(tmp_path: Path, path: str) -> None:
    process = subprocess.Popen(
        [*COMMAND, "codex"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        env=environment(tmp_path, PATH=path),
    )
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert json.loads(out)["pid"] == process.pid


def test_the_users_own_key_wins_over_the_first_of_the_configuration(
    tmp_path: Path, path: str, gateway_with_key: str
) -> None:
    use_gateway(tmp_path, gateway_with_key, 'api_keys = { boss = "k-boss", me = "k-me" }\n')
    done = read_report(run(tmp_path, "codex", PATH=path, ANTIPHON_API_KEY="k-me"))
    assert done["environment"]["ANTIPHON_API_KEY"] == "k-me"
    assert "k-me" not in json.dumps(done["arguments"])  # other users can read these
    assert done["settings"]["model_providers"]["antiphon"]["base_url"] == gateway_with_key


def test_a_rejected_key_of_the_user_is_an_error_and_no_other_key_is_used(
    tmp_path: Path, path: str, gateway_with_key: str
) -> None:
    use_gateway(tmp_path, gateway_with_key, 'api_keys = { me = "k-me" }\n')
    ended = run(tmp_path, "codex", PATH=path, ANTIPHON_API_KEY="k-old")
    assert ended.returncode == 2
    message = ended.stderr.decode()
    assert f"the gateway at {gateway_with_key} rejects the key in ANTIPHON_API_KEY" in message
    assert "k-old" not in message


def test_a_gateway_that_rejects_our_key_is_not_used(
    tmp_path: Path, path: str, gateway_with_key: str
) -> None:
    use_gateway(tmp_path, gateway_with_key, 'api_keys = { me = "k-new" }\n')
    done = read_report(run(tmp_path, "codex", PATH=path))
    assert done["environment"]["ANTIPHON_API_KEY"] == "k-new"
    assert done["settings"]["model_providers"]["antiphon"]["base_url"] != gateway_with_key


# --- signals --------------------------------------------------------------------------------------


def test_ctrl_c_reaches_only_codex_and_its_exit_status_is_returned(tmp_path: Path) -> None:
    own_settings(tmp_path).write_text("[server]\nport = 0\n")
    program = f"{write_codex(tmp_path / 'bin', SIGNAL_REPORTER)}/codex"
    with on_terminal(tmp_path, "codex", ANTIPHON_CODEX=program) as terminal:
        terminal.wait_for("codex runs with model_catalog_json")
        assert terminal.interrupt() == 7
    assert terminal.plain.count("codex got SIGINT") == 1
    assert "Traceback" not in terminal.plain


def test_on_a_terminal_the_last_line_says_what_was_used_and_where_to_see_it(
    tmp_path: Path,
) -> None:
    own_settings(tmp_path).write_text("[server]\nport = 0\n")
    program = f"{write_codex(tmp_path / 'bin', TALKING_CODEX)}/codex"
    with on_terminal(tmp_path, "codex", ANTIPHON_CODEX=program) as terminal:
        terminal.wait_for("/ui/sessions/0199-thread")
        assert terminal.wait() == 0
    assert "antiphon: 1 request, 3 tokens, $0.0000 · http://127.0.0.1:" in terminal.plain


def test_sigterm_is_forwarded_to_codex(tmp_path: Path) -> None:
    own_settings(tmp_path).write_text("[server]\nport = 0\n")
    program = f"{write_codex(tmp_path / 'bin', SIGNAL_REPORTER)}/codex"
    with on_terminal(tmp_path, "codex", ANTIPHON_CODEX=program) as terminal:
        terminal.wait_for("codex runs with")
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.wait() == 7
    assert "codex got SIGTERM" in terminal.plain


def test_a_configuration_in_the_current_directory_is_not_read(tmp_path: Path) -> None:
    """Codex runs in projects of other people, whose file could send keys to any address."""
    program = f"{write_codex(tmp_path / 'bin')}/codex"
    own = own_settings(tmp_path)
    (tmp_path / "antiphon.toml").write_text("this is no configuration")
    for has_own_file in (True, False):
        own.write_text("[server]\nport = 0\n") if has_own_file else own.unlink()
        done = run(tmp_path, "codex", ANTIPHON_CODEX=program)
        assert done.returncode == 0, done.stderr
        assert b"ignoring ./antiphon.toml" in done.stderr
        assert b"Use --config antiphon.toml to trust it." in done.stderr


# --- a gateway that was started before the key was set --------------------------------------------


@pytest.mark.parametrize(
    "arguments", [(), ("-m", "deepseek/deepseek-v4-pro"), ("exec", "-m", "deepseek/x")]
)
def test_a_running_gateway_without_the_key_of_this_shell_is_replaced_for_this_session(
    arguments: tuple[str, ...], tmp_path: Path, path: str, base_url: str
) -> None:
    done = run(tmp_path, "codex", *arguments, PATH=path, DEEPSEEK_API_KEY="sk-set-later")
    [line] = done.stderr.decode().splitlines()
    assert line == (
        f"antiphon: the gateway at {base_url} does not have deepseek (DEEPSEEK_API_KEY): starting"
        " another one for this session. To update the first one, restart it in this shell."
    )
    report = json.loads(done.stdout)
    assert report["settings"]["model_providers"]["antiphon"]["base_url"] != base_url
    assert "deepseek/deepseek-v4-pro" in {each["slug"] for each in report["catalog"]["models"]}


def test_a_running_gateway_with_another_provider_is_used_unless_its_model_is_not_there(
    tmp_path: Path, path: str
) -> None:
    with serving(tmp_path, ZHIPU_API_KEY="z") as url:
        use_gateway(tmp_path, url)
        run_codex = partial(run, tmp_path, "codex", PATH=path, DEEPSEEK_API_KEY="d")
        done = run_codex()
        used = json.loads(done.stdout)["settings"]["model_providers"]["antiphon"]["base_url"]
        assert (used, done.stderr) == (url, b"")
        done = run_codex("-m", "deepseek/deepseek-v4-pro")
        assert b"does not have deepseek" in done.stderr


# --- Codex is missing -----------------------------------------------------------------------------


def test_a_missing_codex_is_reported_with_how_to_install_it(tmp_path: Path) -> None:
    done = run(tmp_path, "codex", PATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"npm install -g @openai/codex" in done.stderr


def test_a_missing_program_of_antiphon_codex_variable_is_named(tmp_path: Path) -> None:
    done = run(tmp_path, "codex", ANTIPHON_CODEX="/no/codex")
    assert done.returncode == 2
    assert b"$ANTIPHON_CODEX is '/no/codex', which is not an executable program" in done.stderr


@pytest.mark.usefixtures("base_url")
def test_the_options_are_valid_toml_for_any_model_name(tmp_path: Path, path: str) -> None:
    done = read_report(run(tmp_path, "codex", "--model", 'a "b" \\ é', PATH=path))
    assert tomllib.loads(done["arguments"][3])["model"] == 'a "b" \\ é'
