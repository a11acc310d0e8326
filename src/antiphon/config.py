"""`antiphon.toml` → `Config`. A mistake names the file, the line, the key and the nearest good key.

Strings may hold `${NAME}`: the value comes from the environment, so a file needs no secrets.
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
Guard: TypeAlias = Literal["think", "think_open", "hermes", "qwen_xml", "kimi", "glm", "mistral"]
WebSearch: TypeAlias = Literal["native", "managed", "refuse", "ignore"]


def _silent(value: object) -> str:
    """What is shown of a value that holds secrets: a traceback or a log may end up anywhere."""
    return f"{type(value).__name__}(…)"


class ServerConfig(Struct, frozen=True, kw_only=True):
    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    port: Port = 8484
    """0 takes a free one."""
    api_keys: dict[str, Secret] = field(default_factory=dict)
    """Named keys of clients. Without any, only loopback is served."""
    max_body_bytes: Count = 64 * 1024 * 1024
    keepalive_s: Seconds = 15.0
    """How long a stream may be silent before the client hears a keep-alive event."""
    commit_after_s: Seconds = 15.0
    """How long an upstream may be silent before we answer 200 all the same."""
    shutdown_s: Annotated[float, Meta(ge=0, le=3600)] = 20.0
    """How long streams may go on after SIGTERM."""

    __repr__ = _silent


class TimeoutConfig(Struct, frozen=True, kw_only=True):
    """How long an upstream may take: to connect, to its first byte, between bytes, in all."""

    connect_s: Seconds = 10.0
    first_token_s: Seconds = 300.0
    idle_s: Seconds = 120.0
    total_s: Seconds = 3600.0


class ModelConfig(Struct, frozen=True, kw_only=True):
    """What is known better here than in the provider's own data: `Capabilities`, field by field."""

    context_window: Count | None = None
    max_output_tokens: Count | None = None
    inputs: list[Literal["text", "image", "file", "file_url", "audio"]] | None = None
    efforts: dict[str, str] | None = None
    """The requested effort → the provider's word for it; an empty word leaves it out."""
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
    guards: list[Guard] | None = None
    """What the model leaks into its text: tagged thought, or calls in one of these forms."""


class ProviderConfig(Struct, frozen=True, kw_only=True):
    kind: str = ""
    """Which provider's data to use; the entry's own name by default."""
    base_url: Address = ""
    api_keys: list[Secret] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    """Parameters of the address; an empty one leaves out the provider's own."""
    timeouts: TimeoutConfig = TimeoutConfig()
    web_search: WebSearch | None = None
    models: dict[str, ModelConfig] = field(default_factory=dict)
    """By the model's name; `*` is every model without an entry. Listed by `/v1/models`."""

    __repr__ = _silent


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
    """How often, and for how long, a request is tried before the client hears of a fault."""

    max_attempts: Count = 4
    max_s: Seconds = 360.0
    backoff_s: Annotated[float, Meta(ge=0)] = 0.5
    max_backoff_s: Annotated[float, Meta(ge=0)] = 8.0
    breaker_threshold: Count = 5
    """So many faults of a provider in a row, and it is left alone for a while."""
    breaker_rest_s: Seconds = 30.0
    reminders: bool = True
    """Whether a model that thought, and then fell silent, is asked once more to answer."""


class CapsuleConfig(Struct, frozen=True, kw_only=True):
    """Provider state that clients carry for us, sealed."""

    keys: list[Secret] = field(default_factory=list)
    """The first seals, all open: put a new one in front to rotate. By default a key is made and
    kept beside the store."""
    ttl_s: Count = 90 * 24 * 3600

    __repr__ = _silent


class SearchConfig(Struct, frozen=True, kw_only=True):
    """Where the gateway searches the web for models that cannot."""

    backend: Literal["", "searxng", "tavily", "brave", "zhipu", "recorded"] = ""
    """Empty: nowhere."""
    url: Address = ""
    """Of the server; the backend's own by default. For `recorded`, the `file:` of its answers."""
    api_key: str = ""
    max_results: Annotated[int, Meta(ge=1, le=20)] = 5
    timeout_s: Seconds = 10.0

    __repr__ = _silent


class VisionConfig(Struct, frozen=True, kw_only=True):
    """Who looks at images for models that cannot."""

    model: str = ""
    """A name that clients could ask for. Empty: a marker stands in for each image."""
    cache_entries: Count = 1000
    timeout_s: Seconds = 60.0


class ClientConfig(Struct, frozen=True, kw_only=True):
    """How clients of a kind are spoken to; what is not said here, their profile knows."""

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
    """A name or `provider/model` → what is asked next when it cannot answer, in this order."""
    attempts: AttemptConfig = AttemptConfig()
    store: StoreConfig = StoreConfig()
    trace: TraceConfig = TraceConfig()
    capsule: CapsuleConfig = CapsuleConfig()
    search: SearchConfig = SearchConfig()
    vision: VisionConfig = VisionConfig()
    clients: dict[str, ClientConfig] = field(default_factory=dict)
    """By the name of a profile (`codex` …); `*` is every client."""
    log: LogConfig = LogConfig()
    source: Source | None = None
    """Where it was read from, so that later checks can name the line, too. Not a key."""

    def mistake(self, path: Iterable[str], problem: str) -> ConfigError:
        """What to raise about the value at this path."""
        return (self.source or Source()).mistake([*path], problem)


# Where it is


def find_config(
    explicit: str | None, environment: Mapping[str, str], cwd: Path | None
) -> Path | None:
    """The file that was asked for, or the first that exists: here, if we may look there, then in
    the user's home."""
    asked = explicit or environment.get("ANTIPHON_CONFIG")
    if asked:
        return Path(asked)
    places = (*([cwd] if cwd else []), config_directory(environment))
    found = (place / "antiphon.toml" for place in places)
    return next((path for path in found if path.is_file()), None)


def config_directory(environment: Mapping[str, str]) -> Path:
    """Where a user's own configuration is."""
    return _directory(environment, "XDG_CONFIG_HOME", ".config")


def data_directory(environment: Mapping[str, str]) -> Path:
    """Where the store and the trace live unless configuration says otherwise."""
    return _directory(environment, "XDG_DATA_HOME", ".local/share")


def _directory(environment: Mapping[str, str], variable: str, default: str) -> Path:
    given = Path(environment.get(variable, ""))
    if not given.is_absolute():  # unset, or relative, which the XDG specification says to ignore
        given = Path(environment.get("HOME") or "~").expanduser() / default
    return given / "antiphon"


def load_config(path: Path, environment: Mapping[str, str]) -> Config:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: it is not UTF-8 text") from error
    return parse_config(text, environment, name=str(path))


def parse_config(text: str, environment: Mapping[str, str], *, name: str) -> Config:
    source = Source(name, text)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise source.syntax_error(str(error)) from error
    config = _built(Config, _interpolated(document, environment, source), [], source)
    assert isinstance(config, Config)
    return msgspec.structs.replace(config, source=source)


# What is wrong, and where


def hint(word: str, known: Iterable[str]) -> str:
    """What was probably meant by a word that is not known."""
    choices = list(known)
    near = difflib.get_close_matches(word, choices, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(choices)}"


class Source:
    """A file's text, to find the line where a key stands."""

    def __init__(self, name: str = "", text: str = "") -> None:
        self._name = name
        self._lines = text.splitlines()

    def mistake(self, path: list[str], problem: str, *, inside: str = "") -> ConfigError:
        """`inside` is the place within a value: `[1]` of a list."""
        number = self._line(path)
        line = f":{number}" if number is not None else ""
        where = f"{self._name}{line}: " if self._name else ""
        return ConfigError(f"{where}{'.'.join(map(_quoted, path))}{inside}: {problem}")

    def syntax_error(self, problem: str) -> ConfigError:
        place = re.search(r" \(at line (\d+), column \d+\)$", problem)
        line, words = (f":{place[1]}", problem[: place.start()]) if place else ("", problem)
        return ConfigError(f"{self._name}{line}: not valid TOML: {words}")

    def _line(self, path: list[str]) -> int | None:
        """The line of the key, or of the nearest table around it."""
        table: list[str] = []
        best, depth = None, 0
        for number, line in enumerate(self._lines, 1):
            if header := re.match(rf"\s*\[\[?({_KEYS})\]", line):
                found = table = _keys(header[1])
            elif entry := re.match(rf"\s*({_KEYS})=", line):
                found = table + _keys(entry[1])
            else:
                continue
            if len(found) > depth and path[: len(found)] == found:
                best, depth = number, len(found)
        return best


_KEY = r'"(?:[^"\\]|\\.)*"|\'[^\']*\'|[\w-]+'
_KEYS = rf"\s*(?:{_KEY})\s*(?:\.\s*(?:{_KEY})\s*)*"


def _keys(dotted: str) -> list[str]:
    """The keys of `a."b.c".d`."""
    return [key.strip("\"'") for key in re.findall(_KEY, dotted)]


def _quoted(key: str) -> str:
    return key if re.fullmatch(r"[\w-]+", key) else f'"{key}"'


def _interpolated(value: Any, environment: Mapping[str, str], source: Source) -> Any:
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
            raise source.mistake(path, f"the environment variable {name} {problem}")
        return found

    return walk(value, [])


def _built(kind: Any, value: Any, path: list[str], source: Source) -> Any:
    """The value as this type, table by table, so that a mistake has an exact place."""
    if isinstance(value, dict):
        if isinstance(kind, type) and issubclass(kind, Struct):
            return _table(kind, value, path, source)
        if getattr(kind, "__origin__", None) is dict:
            inner = kind.__args__[1]
            return {key: _built(inner, each, [*path, key], source) for key, each in value.items()}
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$")
        raise source.mistake(path, _plain(problem, kind), inside=place.rstrip("`")) from error


def _plain(problem: str, kind: Any) -> str:
    """The library's sentence in plain words; of several allowed ones, the nearest."""
    if enum := re.fullmatch(r"Invalid enum value '(.*)'", problem):
        return f"{enum[1]!r} is not allowed; {hint(enum[1], _literals(kind))}"
    words = problem.replace(" | null", "")
    words = re.sub(r"`str` matching regex .*", "a URL such as https://host/path", words)
    words = re.sub(r"`(\w+)`", lambda found: _TYPES.get(found[1], found[1]), words)
    words = re.sub(r"`([^`]*)`", r"\1", words)
    return words[:1].lower() + words[1:]


_TYPES = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "null": "nothing",
    "object": "a table",
    "str": "text",
}


def _literals(kind: Any) -> list[str]:
    """The words that a type allows, at any depth."""
    if get_origin(kind) is Literal:
        return [*get_args(kind)]
    return [word for inner in get_args(kind) for word in _literals(inner)]


def _table(kind: type[Struct], value: dict[str, Any], path: list[str], source: Source) -> Struct:
    types = {known.name: known.type for known in msgspec.structs.fields(kind)}
    types.pop("source", None)
    for key in value:
        if key not in types:
            raise source.mistake([*path, key], f"unknown key; {hint(key, types)}")
    return kind(
        **{key: _built(types[key], each, [*path, key], source) for key, each in value.items()}
    )
