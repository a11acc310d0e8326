"""Pyright reads a user's program against the wheel: what is right passes, what is misspelled does
not. tests/unit/test_types.py has the same for mypy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.typed_programs import MISSPELLED, WELL_TYPED

ROOT = Path(__file__).parents[2]
PYTHON = (ROOT / os.environ.get("ANTIPHON_INSTALLED", "")).resolve() / "bin" / "python"
VERSION = "1.1.414"
PATIENCE_S = 600.0


@pytest.fixture(scope="module")
def pyright(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The command of the package on PyPI, which fetches the program from npm."""
    directory = tmp_path_factory.mktemp("pyright")
    subprocess.run([sys.executable, "-m", "venv", directory], check=True)
    install = [f"{directory}/bin/pip", "install", "-qq", f"pyright=={VERSION}"]
    subprocess.run(install, check=True, timeout=PATIENCE_S)
    return f"{directory}/bin/pyright"


def check(pyright: str, directory: Path, program: str) -> list[str]:
    """Return the errors of a program in strict mode."""
    (directory / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    (directory / "program.py").write_text(program, encoding="utf-8")
    command = [pyright, "--outputjson", "--pythonpath", str(PYTHON), "program.py"]
    done = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] == 1
    return [each["message"] for each in report["generalDiagnostics"] if each["severity"] == "error"]


def test_a_program_of_a_user_passes_in_strict_mode(pyright: str, tmp_path: Path) -> None:
    assert check(pyright, tmp_path, WELL_TYPED) == []


def test_a_misspelled_field_of_a_request_or_response_is_found(pyright: str, tmp_path: Path) -> None:
    errors = "\n".join(check(pyright, tmp_path, MISSPELLED))
    assert '"temprature"' in errors
    assert '"sttus"' in errors
