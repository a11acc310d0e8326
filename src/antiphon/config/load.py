"""Reading of `antiphon.toml` into a `Config`.

All problems of a file are found at once. Each names the file, the line and the key, and suggests
the nearest valid key or value.
`${NAME}` in a string is replaced by an environment variable, so that the file needs no secrets.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec
from msgspec import Struct

from antiphon.config.key_file import add_keys, key_file_path, read_key_file
from antiphon.config.schema import ClientLimitConfig, Config, LimitConfig
from antiphon.config.source import ConfigSource, raise_problems, suggest
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


def load_config(
    path: Path, environment: Mapping[str, str], *, needs: Collection[str] | None = None
) -> Config:
    """Read the file; raises `ConfigError` with all problems. `needs`: see `read_config`."""
    config, problems = read_config(_read_text(path), environment, name=str(path), needs=needs)
    raise_problems(problems)
    return add_keys(config, read_key_file(key_file_path(path)))


def parse_config(text: str, environment: Mapping[str, str], *, name: str) -> Config:
    config, problems = read_config(text, environment, name=name)
    raise_problems(problems)
    return config


def inspect_config(
    path: Path, environment: Mapping[str, str]
) -> tuple[Config, Sequence[ConfigError]]:
    """Read the valid settings of the file, and list its mistakes."""
    config, problems = read_config(_read_text(path), environment, name=str(path))
    return add_keys(config, read_key_file(key_file_path(path))), problems


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: not encoded in UTF-8") from error


def read_config(
    text: str,
    environment: Mapping[str, str],
    *,
    name: str,
    needs: Collection[str] | None = None,
) -> tuple[Config, Sequence[ConfigError]]:
    """Read a configuration, and list its problems; an invalid setting has its default.

    `needs` names the tables whose environment variables must be set (None: all). In others a
    variable that is not set stays as it is written.
    """
    source = ConfigSource(name, text)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise source.syntax_error(str(error)) from error
    reader = _ConfigReader(source, environment, needs)
    config = reader.convert(Config, reader.interpolate(document, []), [])
    assert isinstance(config, Config)
    return msgspec.structs.replace(config, source=source), reader.problems


_INVALID = object()
"""In place of a value that is left out because of a problem."""


class _ConfigReader:
    """Converts the document of a file, and collects the problems in it."""

    def __init__(
        self, source: ConfigSource, environment: Mapping[str, str], needs: Collection[str] | None
    ) -> None:
        self._source = source
        self._environment = environment
        self._needs = needs
        self._unset: set[tuple[str, ...]] = set()
        """Keys with a variable that is not set."""
        self.problems: list[ConfigError] = []

    def interpolate(self, value: Any, path: list[str]) -> Any:
        """Replace `${NAME}` in every string by the environment variable of this name."""
        if isinstance(value, str):
            if re.fullmatch(r"\$[A-Za-z_]\w*", value):
                self._refuse_bare_variable(value[1:], path)
            return re.sub(r"\$\{(\w+)\}", lambda found: self._look_up(found[1], path), value)
        if isinstance(value, dict):
            return {key: self.interpolate(inner, [*path, key]) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.interpolate(inner, path) for inner in value]
        return value

    def _refuse_bare_variable(self, name: str, path: list[str]) -> None:
        """Report a value that is only `$NAME`: as a secret it would be one that everybody knows."""
        if self._is_needed(path):
            text = f"${name} is not replaced by an environment variable: write ${{{name}}}"
            self.problems.append(self._source.error_at(path, text))

    def _is_needed(self, path: list[str]) -> bool:
        """Whether a problem with a variable at this place matters."""
        return self._needs is None or path[0] in self._needs

    def _look_up(self, name: str, path: list[str]) -> str:
        found = self._environment.get(name)
        if found:
            return found
        self._unset.add(tuple(path))
        if self._is_needed(path):
            problem = "is empty" if found is not None else "is not set"
            advice = f"set it, or remove ${{{name}}}"
            text = f"the environment variable {name} {problem}; {advice}"
            self.problems.append(self._source.error_at(path, text))
        return f"${{{name}}}"

    def convert(self, kind: Any, value: Any, path: list[str]) -> Any:
        """Convert a value to a type, table by table, so that an error has an exact path."""
        if isinstance(value, dict):
            if isinstance(kind, type) and issubclass(kind, Struct):
                return kind(**self._convert_table(kind, value, path))
            if getattr(kind, "__origin__", None) is dict:
                return self._convert_values(dict.fromkeys(value, kind.__args__[1]), value, path)
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            problem, _, inside = str(error).partition(" - at `$")
            if tuple(path) not in self._unset:  # else the variable is the problem
                text = _describe(problem, kind)
                inside = inside.rstrip("`")
                self.problems.append(self._source.error_at(path, text, inside=inside))
            return _INVALID

    def _convert_table(
        self, kind: type[Struct], value: dict[str, Any], path: list[str]
    ) -> dict[str, Any]:
        types = {known.name: known.type for known in msgspec.structs.fields(kind)}
        if kind is Config:
            del types["source"], types["local"], types["chosen_model"]
        if kind is LimitConfig:  # a number is a bound of responses, a table the limits of a client
            tables = {key: each for key, each in value.items() if isinstance(each, dict)}
            bounds = {key: each for key, each in value.items() if key not in tables}
            clients = dict.fromkeys(tables, ClientLimitConfig)
            del types["clients"]
            converted = self._convert_known(types, bounds, path)
            return {**converted, "clients": self._convert_values(clients, tables, path)}
        return self._convert_known(types, value, path)

    def _convert_known(
        self, types: Mapping[str, Any], value: dict[str, Any], path: list[str]
    ) -> dict[str, Any]:
        """Convert the values of known keys; each other key is a problem."""
        for key in value:
            if key not in types:
                problem = f"unknown key; {suggest(key, types)}"
                self.problems.append(self._source.error_at([*path, key], problem))
        return self._convert_values(types, value, path)

    def _convert_values(
        self, types: Mapping[str, Any], value: dict[str, Any], path: list[str]
    ) -> dict[str, Any]:
        converted = {
            key: self.convert(types[key], each, [*path, key])
            for key, each in value.items()
            if key in types
        }
        return {key: each for key, each in converted.items() if each is not _INVALID}


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
