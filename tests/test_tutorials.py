"""The tutorials are checked against the code: their configurations are valid, and their commands
have the options that they are shown with."""

from __future__ import annotations

import re
import shlex
import textwrap
from pathlib import Path

import pytest

from antiphon.cli.launcher.program import split_arguments
from antiphon.cli.main import _make_parser
from antiphon.config import parse_config
from antiphon.engine.routing import make_router
from antiphon.providers.registry import build_providers
from tests.support.tables import table

PAGES = sorted((Path(__file__).parents[1] / "docs" / "tutorials").glob("*.md"))


def find_blocks(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    found = re.findall(rf"^ *```{language}\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(block) for block in found]


CONFIGURATIONS = [(page.stem, block) for page in PAGES for block in find_blocks(page, "toml")]
COMMANDS = [
    (page.stem, line.partition(">")[0].strip())
    for page in PAGES
    for block in find_blocks(page, "sh")
    for line in block.splitlines()
    if line.startswith("antiphon ")
]


def test_there_are_tutorials() -> None:
    assert len(PAGES) == 6
    assert len(CONFIGURATIONS) >= 4
    assert len(COMMANDS) >= 10


@pytest.mark.parametrize(("page", "block"), CONFIGURATIONS)
def test_a_configuration_is_valid(page: str, block: str) -> None:
    variables = dict.fromkeys(re.findall(r"\$\{(\w+)\}", block), "x" * 32)
    config = parse_config(block, variables, name=page)
    assert make_router(config, build_providers(config, variables)).names()


@table(("page", "line"), COMMANDS)
def test_a_command_has_the_options_it_is_shown_with(page: str, line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    if words[0] in ("codex", "claude"):
        words = [words[0], *split_arguments(words[1:])[0]]
    assert _make_parser(words).parse_args(words).run, page
