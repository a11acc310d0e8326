"""docs/library.md is executed: every program on the page runs, and prints what it promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import antiphon

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PRINTED = [
    "completed Hello\nCount to three 13",
    "",
    "One response\nword| by| word|",
    "AuthenticationFailed echo invalid_api_key\ntemperature ",
    "response.created\nresponse.in_progress\n",
    "Hi there end_turn\n",
    "completed",
    "POST /chat/completions True\n0 response.created\n",
    "/v1/messages\nmessage_start\nping\ncontent_block_start\n",
    "completed completed 9\nresponse.completed\n",
]
CONFIG = '[server]\napi_keys = { team = "${TEAM_KEY}" }\n'


@pytest.mark.parametrize(("program", "printed"), [*zip(PROGRAMS, PRINTED, strict=True)])
def test_a_program_of_the_page_runs(program: str, printed: str, tmp_path: Path) -> None:
    (tmp_path / "antiphon.toml").write_text(CONFIG)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    environment["PYTHONPATH"] = str(ROOT / "src")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.startswith(printed)


def test_the_page_has_every_public_name() -> None:
    missing = [name for name in antiphon.__all__ if not re.search(rf"\b{name}\b", PAGE)]
    assert missing == ["__version__"]
