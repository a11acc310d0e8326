"""The built wheel, installed into an empty virtual environment: commands, page, API, completion."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

import antiphon
from tests.support.commands import PATIENCE_S, environment

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "antiphon"
ENVIRONMENT = (ROOT / os.environ.get("ANTIPHON_INSTALLED", "")).resolve()
COMMAND = ENVIRONMENT / "bin" / "antiphon"
PYTHON = ENVIRONMENT / "bin" / "python"
FILES = sorted(
    path.relative_to(PACKAGE).as_posix()
    for path in PACKAGE.rglob("*")
    if path.is_file() and path.suffix != ".pyc"
)
STATIC = [path.removeprefix("server/ui/static/") for path in FILES if "/ui/static/" in path]


def run(home: Path, *words: str | Path) -> str:
    """Run a program without the source tree on its path; return what it prints."""
    variables = environment(home)
    variables.pop("PYTHONPATH")
    variables["PATH"] = f"{ENVIRONMENT / 'bin'}:{variables['PATH']}"
    done = subprocess.run(
        words, capture_output=True, cwd=home, env=variables, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway of the installed command; its address without a path."""
    home = tmp_path_factory.mktemp("home")
    variables = environment(home)
    variables.pop("PYTHONPATH")
    with subprocess.Popen(
        [COMMAND, "serve", "--port", "0"], stdout=subprocess.PIPE, cwd=home, env=variables
    ) as process:
        try:
            assert process.stdout is not None
            found = re.search(rb"http://[^/\s]+", process.stdout.readline())
            assert found, "the gateway did not start"
            yield found[0].decode()
        finally:
            process.send_signal(signal.SIGTERM)
    assert process.returncode == 0


def fetch(url: str, body: Any = None) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data, {"content-type": "application/json"})) as answer:
        assert answer.status == 200
        return bytes(answer.read())


def test_the_wheel_has_every_file_of_the_package() -> None:
    [wheel] = (ROOT / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name]
    assert sorted(names) == [f"antiphon/{name}" for name in FILES]


def test_the_module_runs_from_the_new_environment(tmp_path: Path) -> None:
    facts = json.loads(run(tmp_path, PYTHON, "-m", "antiphon", "version"))
    assert facts["antiphon"] == antiphon.__version__
    assert Path(facts["location"]).is_relative_to(ENVIRONMENT)


def test_the_command_and_its_metadata_have_the_same_version(tmp_path: Path) -> None:
    code = "from importlib.metadata import version; print('antiphon', version('antiphon'))"
    assert run(tmp_path, COMMAND, "--version") == run(tmp_path, PYTHON, "-c", code)


@pytest.mark.parametrize("words", ["models", "check"])
def test_commands_run_without_any_configuration(words: str, tmp_path: Path) -> None:
    assert "echo" in run(tmp_path, COMMAND, *words.split())


def test_an_answer_passes_through_the_gateway(address: str) -> None:
    response = json.loads(
        fetch(f"{address}/v1/responses", {"model": "echo/echo", "input": "Hello"})
    )
    assert antiphon.output_text(response) == "Hello"


def test_the_page_is_served(address: str) -> None:
    assert b"<html" in fetch(f"{address}/ui")
    assert json.loads(fetch(f"{address}/ui/api/now"))["version"] == antiphon.__version__


@pytest.mark.parametrize("name", STATIC)
def test_every_file_of_the_page_is_served(name: str, address: str) -> None:
    served = fetch(f"{address}/ui/static/{name}")
    assert served == (PACKAGE / "server" / "ui" / "static" / name).read_bytes()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_the_command(tmp_path: Path) -> None:
    script = """
        eval "$(antiphon completion bash)"
        COMP_WORDS=(antiphon trace re) COMP_CWORD=2 COMP_TYPE=9
        COMP_LINE="antiphon trace re" COMP_POINT=17
        _python_argcomplete antiphon
        echo "${COMPREPLY[@]}"
    """
    assert run(tmp_path, "bash", "--norc", "-c", script).split() == ["replay", "resend", "report"]
