"""Reading of `antiphon.toml` into a `Config`.

An error names the file, the line and the key, and suggests the nearest valid key or value.
`${NAME}` in a string is replaced by an environment variable, so that the file needs no secrets.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec
from msgspec import Struct

from antiphon.config.schema import Config
from antiphon.config.source import ConfigSource, suggest
from antiphon.errors import ConfigError


def find_config(
    explicit: str | None, environment: Mapping[str, str], cwd: Path | None
) -> Path | None:
    """Find the file: an explicit one, else in `cwd` if given, else in the user's directory."""
    named = explicit or environment.get("ANTIPHON_CONFIG")
    if named:
        return Path(named)
    directories = (*([cwd] if cwd else []), config_directory(environment))
    paths = (directory / "antiphon.toml" for directory in directories)
    return next((path for path in paths if path.is_file()), None)


def config_directory(environment: Mapping[str, str]) -> Path:
    """The user's configuration directory."""
    return _user_directory(environment, "XDG_CONFIG_HOME", ".config")


def data_directory(environment: Mapping[str, str]) -> Path:
    """The default directory of the store and the trace."""
    return _user_directory(environment, "XDG_DATA_HOME", ".local/share")


def _user_directory(environment: Mapping[str, str], variable: str, default: str) -> Path:
    directory = Path(environment.get(variable, ""))
    if not directory.is_absolute():  # unset, or relative, which the XDG specification ignores
        directory = Path(environment.get("HOME") or "~").expanduser() / default
    return directory / "antiphon"


def load_config(path: Path, environment: Mapping[str, str]) -> Config:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: not encoded in UTF-8") from error
    return parse_config(text, environment, name=str(path))


def parse_config(text: str, environment: Mapping[str, str], *, name: str) -> Config:
    source = ConfigSource(name, text)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise source.syntax_error(str(error)) from error
    config = _convert(Config, _interpolate(document, environment, source), [], source)
    assert isinstance(config, Config)
    return msgspec.structs.replace(config, source=source)


def _interpolate(value: Any, environment: Mapping[str, str], source: ConfigSource) -> Any:
    """Replace `${NAME}` in every string by the environment variable of this name."""

    def walk(value: Any, path: list[str]) -> Any:
        if isinstance(value, str):
            return re.sub(r"\$\{(\w+)\}", lambda found: look_up(found[1], path), value)
        if isinstance(value, dict):
            return {key: walk(inner, [*path, key]) for key, inner in value.items()}
        if isinstance(value, list):
            return [walk(inner, path) for inner in value]
        return value

    def look_up(name: str, path: list[str]) -> str:
        found = environment.get(name)
        if not found:
            problem = "is empty" if found is not None else "is not set"
            advice = f"set it, or remove ${{{name}}}"
            raise source.error_at(path, f"the environment variable {name} {problem}; {advice}")
        return found

    return walk(value, [])


def _convert(kind: Any, value: Any, path: list[str], source: ConfigSource) -> Any:
    """Convert a value to a type, table by table, so that an error has an exact path."""
    if isinstance(value, dict):
        if isinstance(kind, type) and issubclass(kind, Struct):
            return _convert_table(kind, value, path, source)
        if getattr(kind, "__origin__", None) is dict:
            inner = kind.__args__[1]
            return {key: _convert(inner, each, [*path, key], source) for key, each in value.items()}
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        problem, _, inside = str(error).partition(" - at `$")
        raise source.error_at(path, _describe(problem, kind), inside=inside.rstrip("`")) from error


def _describe(problem: str, kind: Any) -> str:
    """Describe a validation error of msgspec in the terms of TOML."""
    if enum := re.fullmatch(r"Invalid enum value '(.*)'", problem):
        return f"{enum[1]!r} is not supported; {suggest(enum[1], _allowed_values(kind))}"
    if problem == "Expected `str` of length >= 1":
        return "must not be empty"
    problem = problem.replace(" | null", "")
    problem = re.sub(r"`str` matching regex .*", "a URL such as https://host/path", problem)
    problem = re.sub(r"`(\w+)`", lambda found: _TYPE_NAMES.get(found[1], found[1]), problem)
    problem = re.sub(r"`([^`]*)`", r"\1", problem)
    return problem.replace("Expected ", "must be ", 1).replace(", got ", ", not ", 1)


_TYPE_NAMES = {
    "array": "an array",
    "bool": "true or false",
    "float": "a number",
    "int": "an integer",
    "null": "null",
    "object": "a table",
    "str": "a string",
}


def _allowed_values(kind: Any) -> list[str]:
    """List the strings that a type allows, at any depth."""
    if get_origin(kind) is Literal:
        return [*get_args(kind)]
    return [value for inner in get_args(kind) for value in _allowed_values(inner)]


def _convert_table(
    kind: type[Struct], value: dict[str, Any], path: list[str], source: ConfigSource
) -> Struct:
    types = {known.name: known.type for known in msgspec.structs.fields(kind)}
    types.pop("source", None)
    for key in value:
        if key not in types:
            raise source.error_at([*path, key], f"unknown key; {suggest(key, types)}")
    return kind(
        **{key: _convert(types[key], each, [*path, key], source) for key, each in value.items()}
    )
