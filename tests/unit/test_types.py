"""`antiphon.types`: made of the vocabulary, true of every event, and of use to a type checker."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from openai.types.responses import ResponseOutputItem, ResponseStreamEvent
from openai.types.responses.response_create_params import ResponseCreateParamsBase
from pydantic import TypeAdapter

from antiphon import types
from antiphon.dialects.responses import parse
from tests.support import public_types
from tests.support.typed_programs import MISSPELLED, WELL_TYPED

TESTS = Path(__file__).parents[1]
ONLY_IN_WEBSOCKET_FRAMES = {"type", "generate", "stream_id"}


def test_the_file_is_what_make_types_writes() -> None:
    ruff = [
        str(Path(sys.executable).with_name("ruff")),
        "format",
        "-",
        "--stdin-filename",
        "types.py",
    ]
    written = subprocess.run(
        ruff, input=public_types.render(), capture_output=True, text=True, check=True
    )
    assert public_types.PATH.read_text(encoding="utf-8") == written.stdout


def test_a_request_has_the_fields_that_the_parser_knows() -> None:
    known = {*parse._FIELDS, *parse._CHECKED_FIELDS} - ONLY_IN_WEBSOCKET_FRAMES
    assert set(types.CreateRequest.__annotations__) == known


def test_every_field_of_the_official_request_is_a_field() -> None:
    official = set(ResponseCreateParamsBase.__annotations__)
    assert official - set(types.CreateRequest.__annotations__) == set()


@pytest.fixture
def checked_types(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module as Pydantic can read it: before Python 3.12, only typed dictionaries of the
    backport."""
    module = ModuleType("checked_types")
    source = public_types.PATH.read_text("utf-8")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(source.replace("from typing", "from typing_extensions"), vars(module))
    return module


def golden_events() -> Iterator[dict[str, Any]]:
    for path in sorted((TESTS / "golden").glob("*/*/events.jsonl")):
        for line in path.read_bytes().split(b"\n")[:-1]:
            yield msgspec.json.decode(line)


def test_every_golden_event_is_of_the_types(checked_types: ModuleType) -> None:
    adapter: TypeAdapter[types.Event] = TypeAdapter(checked_types.Event)
    kinds = set()
    for event in golden_events():
        adapter.validate_python(event, strict=True)
        kinds.add(event["type"])
    assert len(kinds) > 20


def _literals(union: Any) -> set[str]:
    """The values of `type` in a union of the official package."""
    members = get_args(get_args(union)[0])
    return {name for each in members for name in get_args(each.model_fields["type"].annotation)}


def _named(union: Any) -> set[str]:
    """The values of `type` in one of our unions."""
    return {name for each in get_args(union) for name in get_args(get_type_hints(each)["type"])}


def test_events_and_items_have_the_names_of_the_official_package() -> None:
    assert _named(types.Event) - _literals(ResponseStreamEvent) == {"keepalive"}
    assert _named(types.Item) - _literals(ResponseOutputItem) == set()


def check_with_mypy(program: str, directory: Path) -> str:
    (directory / "program.py").write_text(program, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "program.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=directory, check=False)
    return done.stdout


def test_mypy_accepts_a_program_and_reports_misspelled_fields_of_another(tmp_path: Path) -> None:
    assert check_with_mypy(WELL_TYPED, tmp_path).startswith("Success")
    found = check_with_mypy(MISSPELLED, tmp_path)
    assert 'did you mean "temperature"' in found
    assert 'has no key "sttus"' in found
    assert "Found 2 errors" in found
