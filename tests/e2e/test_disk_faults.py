"""Every file operation of the stores fails once: nothing acknowledged is lost (`make faults`)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.disk_faults.injector import COMPILER, build

ROOT = Path(__file__).parents[2]
STRIDE = os.environ.get("ANTIPHON_FAULT_STRIDE", "53")
"""Every 53th operation in the default run, for its time."""

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD and /proc are Linux's"),
    pytest.mark.skipif(COMPILER is None, reason="no C compiler (cc) to build the faults with"),
]


def test_a_fault_of_any_file_operation_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    (files := tmp_path / "files").mkdir()
    loop = [sys.executable, "-m", "tests.support.disk_faults.loop", str(files), STRIDE]
    environment = os.environ | {
        "LD_PRELOAD": str(build(tmp_path)),
        "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
    }
    done = subprocess.run(loop, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 8, "each store, with a new and an existing file, one fault and many"
    assert all(int(line.split()[-2]) > 0 for line in lines), done.stdout
