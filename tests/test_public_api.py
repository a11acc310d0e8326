"""The public API: every name with its signature is in public_api.txt, and importing it is cheap.

`pytest tests/test_public_api.py --update-golden` rewrites the file; read the difference, because
every line of it is a promise to somebody's program.
"""

from __future__ import annotations

import enum
import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

import antiphon
from antiphon import dialect, stage

API = Path(__file__).parent / "public_api.txt"
SOURCE = Path(__file__).parents[1] / "src"
LIMIT_S = 0.1
MEASURE = """
import sys, time
before, modules = time.process_time(), set(sys.modules)
import antiphon
print(time.process_time() - before, *sorted(set(sys.modules) - modules))
"""


def describe_api() -> str:
    """Every public name, one line for each signature, of the library and of the two modules for
    authors of other packages."""
    lines = [line for name in antiphon.__all__ for line in _describe(name, antiphon)]
    for facade in (dialect, stage):
        lines += ["", f"# {facade.__name__}"]
        lines += [line for name in facade.__all__ for line in _describe(name, facade)]
    return "".join(f"{line}\n" for line in lines)


def _describe(name: str, module: ModuleType) -> Iterator[str]:
    value = getattr(module, name)
    if module is not antiphon and getattr(antiphon, name, None) is value:
        yield f"{name}: see above"
    elif isinstance(value, type):
        yield f"class {name}[{value.__bases__[0].__name__}]{_call_signature(value)}"
        yield from sorted(_members(value))
    elif callable(value) and not hasattr(value, "__args__"):
        yield f"{name}{_signature(value)}"
    elif hasattr(value, "__args__"):
        yield f"{name} = {' | '.join(kind.__name__ for kind in value.__args__)}"
    else:
        yield f"{name}: {type(value).__name__}"


def _call_signature(kind: type) -> str:
    return "" if issubclass(kind, enum.Enum) else _signature(kind)


def _members(kind: type) -> Iterator[str]:
    if issubclass(kind, enum.Enum):
        yield from (f"    {member.name} = {member.value!r}" for member in kind)
        return
    for name, member in vars(kind).items():
        if not name.startswith("_") and (line := _describe_member(name, member)):
            yield f"    {line}"


def _describe_member(name: str, member: Any) -> str:
    if isinstance(member, property):
        return f"{name}: {inspect.signature(member.fget).return_annotation}"  # type: ignore[arg-type]
    if inspect.isfunction(member):
        return f"{name}{_signature(member)}"
    return f"{name} = {member!r}" if isinstance(member, str) else ""


def _signature(value: Any) -> str:
    """The signature as it is written in the source; a default that is no literal is an ellipsis."""
    written = _written_annotations(value)
    signature = inspect.signature(value)
    parameters = [
        each.replace(
            annotation=_Text(written.get(each.name, each.annotation)), default=_default(each)
        )
        for each in signature.parameters.values()
    ]
    returned = signature.return_annotation
    if returned is not inspect.Signature.empty:
        returned = _Text(returned)
    return str(signature.replace(parameters=parameters, return_annotation=returned))


def _written_annotations(value: Any) -> dict[str, Any]:
    kinds = value.__mro__ if isinstance(value, type) and issubclass(value, msgspec.Struct) else ()
    return {name: text for kind in kinds for name, text in inspect.get_annotations(kind).items()}


def _default(parameter: inspect.Parameter) -> Any:
    default = parameter.default
    literal = default is parameter.empty or isinstance(default, str | int | float | tuple | None)
    return default if literal else _Text("…")


class _Text:
    """A text that is shown without quotes."""

    def __init__(self, text: Any) -> None:
        self._text = text if isinstance(text, str) else inspect.formatannotation(text)

    def __repr__(self) -> str:
        return self._text


def test_the_public_api_is_as_it_was(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        API.write_text(describe_api(), encoding="utf-8")
    assert API.read_text(encoding="utf-8") == describe_api()


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'antiphon' has no attribute 'opne'"):
        antiphon.opne  # noqa: B018
    assert dir(antiphon) == sorted(antiphon.__all__)


WITHOUT_EXTRA = """
import sys
sys.modules["httpx2"] = None
import antiphon
antiphon.openai_http_client
"""


def test_a_name_that_needs_an_extra_names_the_extra_to_install() -> None:
    command = [sys.executable, "-c", WITHOUT_EXTRA]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "ImportError: antiphon.openai_http_client needs the package 'httpx2'" in done.stderr
    assert "pip install '.[openai]'" in done.stderr


def measure_import() -> tuple[float, set[str]]:
    """Import the package in a new process: seconds of CPU, and the modules that were loaded."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-c", MEASURE]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    seconds, *modules = done.stdout.split()
    return float(seconds), set(modules)


def test_importing_the_package_is_cheap() -> None:
    seconds, modules = measure_import()
    best = min([seconds, *(measure_import()[0] for _ in range(2))])  # other programs may interfere
    assert best < LIMIT_S
    loaded = {name.partition(".")[0] for name in modules}
    assert loaded.isdisjoint({"aiohttp", "cryptography", "msgspec", "openai", "sqlite3"})
    assert {name for name in modules if name.startswith("antiphon")} == {"antiphon"}
    assert len(modules) < 50  # of the standard library
