"""Configuration: `antiphon.toml` is read into a `Config`.

An error names the file, the line and the key, and suggests the nearest valid key or value.
`${NAME}` in a string is replaced by an environment variable, so that the file needs no secrets.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_origin

import msgspec
from msgspec import Meta, Struct, field

from antiphon.errors import ConfigError

Port: TypeAlias = Annotated[int, Meta(ge=0, le=65_535)]
Count: TypeAlias = Annotated[int, Meta(ge=1)]
Seconds: TypeAlias = Annotated[float, Meta(gt=0, le=7 * 24 * 3600)]
Secret: TypeAlias = Annotated[str, Meta(min_length=1)]
Address: TypeAlias = Annotated[str, Meta(pattern=r"^([a-z]+://\S*)?$")]
TextLeak: TypeAlias = Literal["think", "think_open", "hermes", "qwen_xml", "kimi", "glm", "mistral"]
WebSearch: TypeAlias = Literal["native", "managed", "refuse", "ignore"]


def _hide_values(value: object) -> str:
    """The repr of a struct with secrets, which must not appear in tracebacks or logs."""
    return f"{type(value).__name__}(…)"


class ServerConfig(Struct, frozen=True, kw_only=True):
    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    port: Port = 8484
    """0 selects a free port."""
    api_keys: dict[str, Secret] = field(default_factory=dict)
    """Clients' keys by name. Without any, the server accepts only loopback addresses."""
    max_body_bytes: Count = 64 * 1024 * 1024
    keepalive_s: Seconds = 15.0
    """Seconds without output before a stream sends a keep-alive event."""
    commit_after_s: Seconds = 15.0
    """Seconds without output before a stream starts with status 200 regardless."""
    shutdown_s: Annotated[float, Meta(ge=0, le=3600)] = 20.0
    """Seconds that streams may continue after SIGTERM."""
    locale: Annotated[str, Meta(min_length=1)] = "en"
    """Language of fault descriptions for requests without a usable Accept-Language."""

    __repr__ = _hide_values


class TimeoutConfig(Struct, frozen=True, kw_only=True):
    """Timeouts of a provider: to connect, to the first byte, between bytes, in total."""

    connect_s: Seconds = 10.0
    first_token_s: Seconds = 300.0
    idle_s: Seconds = 120.0
    total_s: Seconds = 3600.0


class ModelConfig(Struct, frozen=True, kw_only=True):
    """Overrides of a model's `Capabilities`, field by field."""

    context_window: Count | None = None
    max_output_tokens: Count | None = None
    inputs: list[Literal["text", "image", "file", "file_url", "audio"]] | None = None
    efforts: dict[str, str] | None = None
    """The requested effort → the provider's value; an empty value omits the parameter."""
    thinks_by_default: bool | None = None
    fixed_by_thinking: list[str] | None = None
    forced_choice_stops_thinking: bool | None = None
    ranges: dict[str, tuple[float, float]] | None = None
    conflicting_parameters: dict[str, str] | None = None
    formats: list[Literal["text", "json_object", "json_schema"]] | None = None
    formats_beside_tools: bool | None = None
    parameters: list[str] | None = None
    tool_choice: list[Literal["auto", "none", "required", "function"]] | None = None
    tools: bool | None = None
    max_tools: Count | None = None
    strict_tools: bool | None = None
    strict_together: bool | None = None
    closed_objects: bool | None = None
    tool_output_images: bool | None = None
    replay_reasoning: Literal["never", "tool_turns", "always"] | None = None
    developer_role: bool | None = None
    guards: list[TextLeak] | None = None
    """Formats in which the model leaks reasoning or tool calls into its text."""


class ProviderConfig(Struct, frozen=True, kw_only=True):
    kind: str = ""
    """Provider data to use; by default the provider with the name of the entry."""
    base_url: Address = ""
    api_keys: list[Secret] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    """Query parameters of the URL; an empty value removes the provider's default."""
    timeouts: TimeoutConfig = TimeoutConfig()
    web_search: WebSearch | None = None
    models: dict[str, ModelConfig] = field(default_factory=dict)
    """By model name; `*` applies to models without an entry. Listed by `/v1/models`."""

    __repr__ = _hide_values


class StoreConfig(Struct, frozen=True, kw_only=True):
    url: Address = ""
    """`sqlite:///…` or `memory://`; SQLite under the user's data directory by default."""
    ttl_s: Count = 30 * 24 * 3600
    max_turn_bytes: Count = 16 * 1024 * 1024
    max_turns: Count | None = None
    max_chain: Count | None = None


class TraceConfig(Struct, frozen=True, kw_only=True):
    enabled: bool = True
    path: str = ""
    payloads: bool = False
    payload_max_bytes: Count = 1024 * 1024
    max_age_s: Count = 7 * 24 * 3600
    max_bytes: Count = 512 * 1024 * 1024


class AttemptConfig(Struct, frozen=True, kw_only=True):
    """Retries of a request before the client receives a fault."""

    max_attempts: Count = 4
    max_s: Seconds = 360.0
    backoff_s: Annotated[float, Meta(ge=0)] = 0.5
    max_backoff_s: Annotated[float, Meta(ge=0)] = 8.0
    breaker_threshold: Count = 5
    """Consecutive faults of a provider that open its circuit breaker."""
    breaker_rest_s: Seconds = 30.0
    reminders: bool = True
    """Whether a model that sent only reasoning, and no answer, gets one more request."""


class CapsuleConfig(Struct, frozen=True, kw_only=True):
    """Encryption of provider state that clients store (`encrypted_content`)."""

    keys: list[Secret] = field(default_factory=list)
    """The first key encrypts, all decrypt: insert a new one first to rotate. By default a key is
    generated and stored next to the store."""
    ttl_s: Count = 90 * 24 * 3600

    __repr__ = _hide_values


class SearchConfig(Struct, frozen=True, kw_only=True):
    """The search engine for models without web search of their own."""

    backend: Literal["", "searxng", "tavily", "brave", "zhipu", "recorded"] = ""
    """Empty: no web search."""
    url: Address = ""
    """URL of the engine; the backend's default if empty. For `recorded`, a `file:` URL."""
    api_key: str = ""
    max_results: Annotated[int, Meta(ge=1, le=20)] = 5
    timeout_s: Seconds = 10.0

    __repr__ = _hide_values


class VisionConfig(Struct, frozen=True, kw_only=True):
    """The model that describes images for models without image input."""

    model: str = ""
    """A model name as in requests. Empty: each image is replaced by a placeholder."""
    cache_entries: Count = 1000
    timeout_s: Seconds = 60.0


class ClientConfig(Struct, frozen=True, kw_only=True):
    """Overrides of the profile of a kind of client."""

    refusals: Literal["refusal", "text"] | None = None
    permanent_errors: Literal["exact", "400"] | None = None
    keepalive: Literal["event", "comment"] | None = None


class LogConfig(Struct, frozen=True, kw_only=True):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "text", "json"] = "auto"


class Config(Struct, frozen=True, kw_only=True):
    default_provider: str = ""
    server: ServerConfig = ServerConfig()
    providers: dict[str, ProviderConfig] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)
    """Aliases: the name a client uses → `provider/model`. `*` is everything else."""
    fallbacks: dict[str, list[str]] = field(default_factory=dict)
    """A name or `provider/model` → the models to try when it fails, in this order."""
    attempts: AttemptConfig = AttemptConfig()
    store: StoreConfig = StoreConfig()
    trace: TraceConfig = TraceConfig()
    capsule: CapsuleConfig = CapsuleConfig()
    search: SearchConfig = SearchConfig()
    vision: VisionConfig = VisionConfig()
    clients: dict[str, ClientConfig] = field(default_factory=dict)
    """By profile name (`codex` …); `*` applies to every client."""
    log: LogConfig = LogConfig()
    source: ConfigSource | None = None
    """The file it was read from, so that later checks can name the line. Not a key."""

    def error_at(self, path: Iterable[str], problem: str) -> ConfigError:
        """Make the error about the value at a path of keys."""
        return (self.source or ConfigSource()).error_at([*path], problem)


# --- files ----------------------------------------------------------------------------------------


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


# --- errors ---------------------------------------------------------------------------------------


def suggest(value: str, known: Iterable[str]) -> str:
    """Suggest the known value nearest to an unknown one, or list all of them."""
    near = difflib.get_close_matches(value, choices := list(known), n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(choices)}"


class ConfigSource:
    """Name and text of a configuration file, to find the line of a key."""

    def __init__(self, name: str = "", text: str = "") -> None:
        self._name = name
        self._lines = text.splitlines()

    def error_at(self, path: list[str], problem: str, *, inside: str = "") -> ConfigError:
        """Make the error about a key; `inside` locates it within the value: `[1]` of a list."""
        line = f":{number}" if (number := self._find_line(path)) else ""
        location = f"{self._name}{line}: " if self._name else ""
        return ConfigError(f"{location}{'.'.join(map(_quote_key, path))}{inside}: {problem}")

    def syntax_error(self, problem: str) -> ConfigError:
        found = re.search(r" \(at line (\d+), column \d+\)$", problem)
        line, reason = (f":{found[1]}", problem[: found.start()]) if found else ("", problem)
        return ConfigError(f"{self._name}{line}: not valid TOML: {reason}")

    def _find_line(self, path: list[str]) -> int | None:
        """Find the line of a key, or of the innermost table around it."""
        table: list[str] = []
        best, depth = None, 0
        for number, line in enumerate(self._lines, 1):
            if header := re.match(rf"\s*\[\[?({_KEYS})\]", line):
                found = table = _split_key(header[1])
            elif entry := re.match(rf"\s*({_KEYS})=", line):
                found = table + _split_key(entry[1])
            else:
                continue
            if len(found) > depth and path[: len(found)] == found:
                best, depth = number, len(found)
        return best


_KEY = r'"(?:[^"\\]|\\.)*"|\'[^\']*\'|[\w-]+'
_KEYS = rf"\s*(?:{_KEY})\s*(?:\.\s*(?:{_KEY})\s*)*"


def _split_key(dotted: str) -> list[str]:
    """Split a dotted key: `a."b.c".d`."""
    return [key.strip("\"'") for key in re.findall(_KEY, dotted)]


def _quote_key(key: str) -> str:
    return key if re.fullmatch(r"[\w-]+", key) else f'"{key}"'


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
