"""The set-up of the Makefile: which Python it takes, what it says of others, and a second try."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import PATIENCE_S

MAKEFILE = Path(__file__).parents[1] / "Makefile"
TOO_OLD = """\
case "$*" in
--version) echo "Python 3.10.13" ;;
*) exit 1 ;;
esac
"""
WITHOUT_NETWORK = f"""\
case "$*" in
*"pip --version") ;;
*" install "*) exit $PIP_STATUS ;;
*) exec {sys.executable} "$@" ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A directory with the Makefile, and with a few programs on the path, but no Python."""
    shutil.copy(MAKEFILE, tmp_path)
    (tmp_path / "pyproject.toml").touch()
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "sed", "rm", "touch"):
        (programs / name).symlink_to(shutil.which(name) or "")
    return tmp_path


def add_program(checkout: Path, name: str, script: str) -> None:
    path = checkout / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}")
    path.chmod(0o755)


def make(
    checkout: Path, *arguments: str, pip_status: int = 0, path: str = ""
) -> subprocess.CompletedProcess[str]:
    program = shutil.which("make")
    assert program, "make is not installed"
    return subprocess.run(
        [program, "--no-print-directory", *arguments],
        cwd=checkout,
        env={"PATH": f"{path}{checkout / 'bin'}", "PIP_STATUS": str(pip_status)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_a_python_that_is_too_old_is_refused_before_anything_is_created(checkout: Path) -> None:
    add_program(checkout, "python3", TOO_OLD)
    done = make(checkout, "serve")
    assert done.returncode != 0
    assert "Antiphon needs Python 3.11 or newer; python3 is 3.10.13." in done.stderr
    assert "make serve PYTHON=/path/to/python3" in done.stderr
    assert "uv tool install" in done.stderr
    assert not (checkout / ".venv").exists()


def test_a_newer_python_on_the_path_is_proposed(checkout: Path) -> None:
    add_program(checkout, "python3", TOO_OLD)
    add_program(checkout, "python3.12", WITHOUT_NETWORK)
    assert "Run: make serve PYTHON=python3.12\n" in make(checkout, "serve").stderr


def test_a_missing_python_is_said(checkout: Path) -> None:
    done = make(checkout, "test")
    assert "Antiphon needs Python 3.11 or newer; python3 is not installed." in done.stderr


def test_a_python_without_pip_is_refused(checkout: Path) -> None:
    without_pip = f'case "$*" in *pip*) exit 1 ;; *) exec {sys.executable} "$@" ;; esac\n'
    add_program(checkout, "python3", without_pip)
    assert "python3 has no pip. Install it" in make(checkout, "serve").stderr
    assert not (checkout / ".venv").exists()


def test_the_environment_on_the_path_is_not_the_python_that_makes_it_again(checkout: Path) -> None:
    """The README puts `.venv/bin` on the path; its Python has no pip."""
    own = checkout / ".venv" / "bin"
    own.mkdir(parents=True)
    (own / "python3").write_text("#!/bin/sh\nexit 1\n")
    (own / "python3").chmod(0o755)
    add_program(checkout, "python3", WITHOUT_NETWORK)
    done = make(checkout, ".venv/runtime", path=f"{own}:")
    assert done.returncode == 0, done.stderr


def test_another_python_replaces_the_environment_that_a_failed_try_has_left(checkout: Path) -> None:
    add_program(checkout, "python-new", WITHOUT_NETWORK)
    assert make(checkout, ".venv/runtime", "PYTHON=python-new", pip_status=1).returncode != 0
    assert not (checkout / ".venv" / "runtime").exists()
    of_old_python = checkout / ".venv" / "lib" / "python3.10"
    of_old_python.mkdir(parents=True)
    done = make(checkout, ".venv/runtime", "PYTHON=python-new")
    assert done.returncode == 0, done.stderr
    assert (checkout / ".venv" / "runtime").exists()
    assert not of_old_python.exists()


def test_help_has_every_target_in_one_group(checkout: Path) -> None:
    add_program(checkout, "awk", f'exec {shutil.which("awk")} "$@"\n')
    lines = make(checkout, "help").stdout.splitlines()
    titles = [line for line in lines if line and not line.startswith(" ")]
    listed = [line.split()[1] for line in lines if line.startswith("  make ")]
    described = re.findall(r"^([a-z-]+):.*## ", MAKEFILE.read_text(encoding="utf-8"), re.MULTILINE)
    assert titles == ["Use:", "Develop:", "Check:", "Break:", "Measure:"]
    assert sorted(listed) == sorted(described)
