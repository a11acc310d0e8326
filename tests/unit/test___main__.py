"""`python -m antiphon` is the `antiphon` command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import antiphon
from tests.support.commands import PATIENCE_S, environment


def test_the_module_runs_the_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "antiphon", "--version"],
        capture_output=True,
        env=environment(tmp_path),
        timeout=PATIENCE_S,
        check=True,
    )
    assert done.stdout.decode() == f"antiphon {antiphon.__version__}\n"
