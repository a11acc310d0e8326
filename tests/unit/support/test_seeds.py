"""A seed decides which examples a property tries: the same seed, the same examples."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
MODULE = """
from hypothesis import given, strategies

@given(strategies.integers())
def test_a_property(number):
    print("example", number)
"""


def examples(directory: Path, *options: str) -> tuple[list[str], str]:
    """The examples that the property tries in a run with these options, and its output."""
    path = directory / "test_module.py"
    path.write_text(MODULE, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-rP", "-n0", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "-p", "tests.conftest", *options, str(path)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return re.findall(r"^example (.*)$", done.stdout, re.MULTILINE), done.stdout


def test_the_same_seed_tries_the_same_examples_and_is_printed(tmp_path: Path) -> None:
    first, output = examples(tmp_path, "--hypothesis-seed=11")
    again, _ = examples(tmp_path, "--hypothesis-seed=11")
    other, _ = examples(tmp_path, "--hypothesis-seed=12")
    assert len(first) == 30
    assert first == again
    assert first != other
    assert "Properties had the seed 11: pytest --hypothesis-seed=11" in output


def test_without_a_seed_every_run_tries_the_same_examples(tmp_path: Path) -> None:
    first, output = examples(tmp_path)
    again, _ = examples(tmp_path)
    assert len(first) == 30
    assert first == again
    assert "seed" not in output


def test_the_quick_tests_try_fewer_of_them(tmp_path: Path) -> None:
    quick, _ = examples(tmp_path, "--quick")
    assert len(quick) == 5
