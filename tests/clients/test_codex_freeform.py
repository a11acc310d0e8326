"""Codex CLI: patches that a model wraps or gets wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.test_codex_tools import PATCH
from tests.support.clients.codex import CODEX, Codex
from tests.support.clients.gateway import client_gateway
from tests.support.clients.scripted_model import Call, Dialect, Reply

BEFORE, AFTER = "roses are red\nviolets are blue\n", "roses are blue\nviolets are blue\n"


@CODEX.does("apply_patch, wrapped")
@pytest.mark.parametrize(
    "arguments",
    [
        {"input": f"```\n{PATCH}```"},
        {"input": f"apply_patch <<'EOF'\n{PATCH}EOF\n"},
        {"patch": PATCH},
    ],
    ids=["fence", "heredoc", "other key"],
)
async def test_a_wrapped_patch_changes_the_files(
    tmp_path: Path, dialect: Dialect, arguments: dict[str, str]
) -> None:
    async with client_gateway(
        tmp_path, dialect, [Reply(calls=[Call("apply_patch", arguments)]), Reply()]
    ) as setup:
        codex = await Codex.at(setup)
        poem = codex.directory / "poem.txt"
        poem.write_text(BEFORE, encoding="utf-8")
        assert (await codex.exec("Make it blue.")).status == 0
        assert poem.read_text(encoding="utf-8") == AFTER
        assert "Success" in setup.requests[1].results[0]


@CODEX.does("apply_patch, invalid at first")
async def test_an_invalid_patch_is_asked_for_again_before_codex_sees_it(
    tmp_path: Path, dialect: Dialect
) -> None:
    script = [
        Reply(calls=[Call("apply_patch", {"input": "please make it blue"})]),
        Reply(calls=[Call("apply_patch", {"input": PATCH})]),
        Reply("Done."),
    ]
    async with client_gateway(tmp_path, dialect, script) as setup:
        codex = await Codex.at(setup)
        poem = codex.directory / "poem.txt"
        poem.write_text(BEFORE, encoding="utf-8")
        ran = await codex.exec("Make it blue.")
        assert (ran.status, ran.messages) == (0, ["Done."])
        assert poem.read_text(encoding="utf-8") == AFTER
        _, again, after = setup.requests
        assert "verification failed" not in again.text  # that is what Codex would have said
        assert [name for name, _ in after.calls] == ["apply_patch"]
        assert "please make it blue" not in after.text
