"""The schema of `antiphon.toml`: one struct per table, with the default of every key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

from msgspec import Meta, Struct, field

from antiphon.config.source import ConfigSource
from antiphon.errors import ConfigError

Port: TypeAlias = Annotated[int, Meta(ge=0, le=65_535)]
Count: TypeAlias = Annotated[int, Meta(ge=1)]
Seconds: TypeAlias = Annotated[float, Meta(gt=0, le=7 * 24 * 3600)]
Dollars: TypeAlias = Annotated[float, Meta(ge=0)]
Secret: TypeAlias = Annotated[str, Meta(min_length=1)]
Address: TypeAlias = Annotated[str, Meta(pattern=r"^([a-z]+://\S*)?$")]
Origin: TypeAlias = Annotated[str, Meta(pattern=r"^(\*|[a-z][a-z0-9+.-]*://[^/\s]+)$")]
TextLeak: TypeAlias = Literal[
    "think", "think_open", "hermes", "qwen_xml", "kimi", "glm", "mistral", "dsml", "minimax"
]
HostedTool: TypeAlias = Literal["code_interpreter", "file_search", "image_generation", "mcp"]
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
    admin_key: str = ""
    """Key of the page at `/ui` and of `/metrics`. Without one, both are for this machine only."""
    max_body_bytes: Count = 64 * 1024 * 1024
    """Bytes of a request body after decompression."""
    max_body_values: Count = 500_000
    """JSON values in a request body."""
    max_body_depth: Annotated[int, Meta(ge=1, le=100)] = 100
    """Levels of objects and arrays in a request body."""
    max_text_bytes: Count = 10 * 1024 * 1024
    """Bytes of one string with escapes or non-ASCII characters in a request body."""
    max_input_items: Count = 50_000
    max_settings_bytes: Count = 8 * 1024 * 1024
    """Bytes of all fields of a request but `input`."""
    header_timeout_s: Seconds = 30.0
    """Seconds for the head of a request to arrive."""
    body_timeout_s: Seconds = 300.0
    """Seconds for the body of a request to arrive."""
    max_connections_per_address: Annotated[int, Meta(ge=0)] = 0
    """Open connections of one IP address; 0: any number."""
    keepalive_s: Seconds = 15.0
    """Seconds without output before a stream sends a keep-alive event."""
    commit_after_s: Seconds = 15.0
    """Seconds without output before a stream starts with status 200 regardless."""
    shutdown_s: Annotated[float, Meta(ge=0, le=3600)] = 20.0
    """Seconds that streams may continue after SIGTERM."""
    locale: Annotated[str, Meta(min_length=1)] = "en"
    """Language of fault descriptions for requests without a usable Accept-Language."""

    websocket: bool = True
    """Whether WebSockets to /v1/responses are accepted; clients are answered with 426 if not."""
    allowed_origins: list[Origin] = field(default_factory=list)
    """Origins of web pages that may open WebSockets, besides the gateway's own; `*`: all."""

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
    hosted_tools: list[HostedTool] | None = None
    """Hosted tools that the provider runs itself; only for a Responses API."""
    system_messages: Literal["anywhere", "after_user", "first"] | None = None
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
    """`sqlite:///…`, `postgresql://…` or `memory://`; SQLite under the user's data directory by
    default."""
    ttl_s: Count = 30 * 24 * 3600
    max_turn_bytes: Count = 16 * 1024 * 1024
    max_turns: Count | None = None
    max_chain: Count | None = None
    max_history_items: Count = 20_000
    """Items of the stored history that a request continues."""
    max_history_bytes: Count = 64 * 1024 * 1024
    """Bytes of the stored history that a request continues, as JSON."""
    wait_s: Seconds = 5.0
    """Seconds that a request waits for a PostgreSQL database that is away."""
    pool_size: Count = 8
    """Connections to PostgreSQL that one process keeps."""

    __repr__ = _hide_values


class BackgroundConfig(Struct, frozen=True, kw_only=True):
    """Responses with `background: true`."""

    max_running: Count = 64
    """Background responses that one process generates at a time; the others wait, and clients get
    free places in turn."""
    keep_s: Count = 3600
    """Seconds for which the events of a background response can be streamed after its end."""
    lease_s: Seconds = 10.0
    """Seconds without a sign of life after which the responses of a process are ended."""


class AttachConfig(Struct, frozen=True, kw_only=True):
    """Retried requests that join the response that their first connection has lost."""

    window_s: Seconds = 30.0
    """Seconds for which a response waits for its client to come back."""
    clients: list[Annotated[str, Meta(min_length=1)]] = field(
        default_factory=lambda: ["codex", "claude-code"]
    )
    """Profile names of the clients that may attach; `*` is every client, and `[]` none."""


class SharedConfig(Struct, frozen=True, kw_only=True):
    """The server over which gateways share what they learn of providers."""

    url: Address = ""
    """`redis://…`, `rediss://…` or `unix://…`. Empty: each process learns by itself."""
    prefix: Annotated[str, Meta(min_length=1)] = "antiphon"
    """Begins the name of every key and channel."""

    @property
    def address(self) -> str:
        """The URL without user, password and options, for the log."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @property
    def password(self) -> str:
        return urlsplit(self.url).password or ""

    __repr__ = _hide_values


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
    """Whether a model that sent only reasoning, and no text, gets one more request."""


class ClientLimitConfig(Struct, frozen=True, kw_only=True):
    """Limits of one client key. None is no limit."""

    requests_per_minute: Count | None = None
    tokens_per_minute: Count | None = None
    """Input and output tokens."""
    max_streams: Count | None = None
    """Responses that are generated at the same time."""
    cost_per_day: Dollars | None = None
    """US dollars per day (UTC)."""
    cost_per_month: Dollars | None = None


class PriceConfig(Struct, frozen=True, kw_only=True):
    """Price of a model in US dollars per million tokens. None: as listed, or unknown."""

    input: Dollars | None = None
    cached_input: Dollars | None = None
    cache_write: Dollars | None = None
    output: Dollars | None = None


class LimitConfig(Struct, frozen=True, kw_only=True):
    """The largest response of a provider that is accepted. Bytes count after decompression.

    In the file, a key of [limits] with a number is such a bound; a table `[limits.NAME]` has the
    limits of the client key with this name."""

    frame_bytes: Count = 16 * 1024 * 1024
    body_bytes: Count = 32 * 1024 * 1024
    stream_bytes: Count = 256 * 1024 * 1024
    text_chars: Count = 4 * 1024 * 1024
    reasoning_chars: Count = 4 * 1024 * 1024
    argument_chars: Count = 4 * 1024 * 1024
    calls: Count = 1024
    items: Count = 4096
    clients: dict[str, ClientLimitConfig] = field(default_factory=dict)
    """By the name of the client key; `*` applies to clients without a table. Not a key itself."""


class CapsuleConfig(Struct, frozen=True, kw_only=True):
    """Encryption of provider state that clients store (`encrypted_content`)."""

    keys: list[Secret] = field(default_factory=list)
    """The first key encrypts, all decrypt: insert a new one first to rotate. By default a key is
    generated and stored next to the store."""
    ttl_s: Count = 90 * 24 * 3600

    __repr__ = _hide_values


class SearchConfig(Struct, frozen=True, kw_only=True):
    """The search engine for models without web search of their own."""

    backend: Literal["", "searxng", "tavily", "brave", "zhipu", "recorded", "echo"] = ""
    """Empty: no web search."""
    url: Address = ""
    """URL of the engine; the backend's default if empty. For `recorded`, a `file:` URL."""
    api_key: str = ""
    max_results: Annotated[int, Meta(ge=1, le=20)] = 5
    timeout_s: Seconds = 10.0

    __repr__ = _hide_values


class McpServerConfig(Struct, frozen=True, kw_only=True):
    """An MCP server that clients use by its name, without knowing its URL and headers."""

    url: Address = ""
    headers: dict[str, Secret] = field(default_factory=dict)
    """Headers of every request to the server, such as its key. A client's header of the same name
    is left out."""
    require_approval: Literal["always", "never"] | None = None
    """As in [mcp], for requests that do not say; by default as there."""

    __repr__ = _hide_values


class McpConfig(Struct, frozen=True, kw_only=True):
    """MCP servers that the gateway calls for models. Nothing is called without a server here."""

    servers: dict[str, McpServerConfig] = field(default_factory=dict)
    """By the `server_label` of requests."""
    allow: list[Annotated[str, Meta(min_length=1)]] = field(default_factory=list)
    """URLs that requests may bring as `server_url`: one of these, or a path below it."""
    require_approval: Literal["always", "never"] = "always"
    """Whether calls need an approval in requests that do not say."""
    connect_timeout_s: Seconds = 10.0
    """Seconds to open a session with a server."""
    idle_timeout_s: Seconds = 60.0
    """Seconds without a result or a report of progress."""
    call_timeout_s: Seconds = 300.0
    """Seconds for one call in total, progress or not; also for one list of tools."""
    max_result_bytes: Count = 1024 * 1024
    """Bytes of text and images of one result."""
    max_result_parts: Count = 64
    """Texts, images and resources of one result."""
    max_tools: Count = 128
    """Tools of one server."""
    max_list_bytes: Count = 1024 * 1024
    """Bytes of the tools of one server, as JSON."""
    list_ttl_s: Seconds = 300.0
    """Seconds for which the tools of a server are remembered."""

    @property
    def enabled(self) -> bool:
        return bool(self.servers or self.allow)


class VisionConfig(Struct, frozen=True, kw_only=True):
    """The model that describes images for models without image input."""

    model: str = ""
    """A model name as in requests. Empty: each image is replaced by a placeholder."""
    cache_entries: Count = 1000
    timeout_s: Seconds = 60.0


class CompactionConfig(Struct, frozen=True, kw_only=True):
    """The model that compacts histories."""

    model: str = ""
    """A model name as in requests. Empty: the model of the request."""


class DiscoveryConfig(Struct, frozen=True, kw_only=True):
    """Models that the own lists of providers name, for `/v1/models` and `antiphon models`."""

    enabled: bool = True
    refresh_s: Seconds = 3600.0
    """Seconds after which a list is requested again, in the background."""
    local_servers: bool = True
    """Whether commands look for model servers on this machine when they start."""


class ClientConfig(Struct, frozen=True, kw_only=True):
    """Overrides of the profile of a kind of client."""

    refusals: Literal["refusal", "text"] | None = None
    permanent_errors: Literal["exact", "400"] | None = None
    keepalive: Literal["event", "comment"] | None = None
    small_model: Annotated[str, Meta(min_length=1)] | None = None
    """The model of the client's small requests, such as titles; for `antiphon claude`."""


class PipelineConfig(Struct, frozen=True, kw_only=True):
    """Stages of other packages that every response passes."""

    stages: list[Annotated[str, Meta(min_length=1)]] = field(default_factory=list)
    """Names of entry points of the group `antiphon.stages`, in the order of the stages."""


class CompatibilityConfig(Struct, frozen=True, kw_only=True):
    """Leniency towards requests that cannot be served in full."""

    hosted_tools: Literal["refuse", "ignore"] = "refuse"
    """A hosted tool that neither the provider nor the gateway can run: an error, or left out with a
    diagnostic."""


class LogConfig(Struct, frozen=True, kw_only=True):
    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "text", "json"] = "auto"


class MetricsConfig(Struct, frozen=True, kw_only=True):
    """Metrics for Prometheus at `/metrics`."""

    enabled: bool = True


class OtelConfig(Struct, frozen=True, kw_only=True):
    """Spans for OpenTelemetry; needs `antiphon[otel]`."""

    endpoint: Address = ""
    """URL of an OTLP receiver (HTTP), such as `http://localhost:4318`. Empty: no spans."""
    headers: dict[str, Secret] = field(default_factory=dict)
    """Headers of requests to the receiver, such as its key."""
    service_name: Annotated[str, Meta(min_length=1)] = "antiphon"

    __repr__ = _hide_values


class Config(Struct, frozen=True, kw_only=True):
    default_provider: str = ""
    providers_from_environment: bool = True
    """Whether API keys in the environment enable providers that the file does not name."""
    server: ServerConfig = ServerConfig()
    providers: dict[str, ProviderConfig] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)
    """Aliases: the name a client uses → `provider/model`. `*` is everything else."""
    fallbacks: dict[str, list[str]] = field(default_factory=dict)
    """A name or `provider/model` → the models to try when it fails, in this order."""
    attempts: AttemptConfig = AttemptConfig()
    limits: LimitConfig = LimitConfig()
    prices: dict[str, PriceConfig] = field(default_factory=dict)
    """By `provider/model`; `provider/*` applies to its other models."""
    store: StoreConfig = StoreConfig()
    background: BackgroundConfig = BackgroundConfig()
    attach: AttachConfig = AttachConfig()
    shared: SharedConfig = SharedConfig()
    trace: TraceConfig = TraceConfig()
    capsule: CapsuleConfig = CapsuleConfig()
    search: SearchConfig = SearchConfig()
    mcp: McpConfig = McpConfig()
    vision: VisionConfig = VisionConfig()
    compaction: CompactionConfig = CompactionConfig()
    discovery: DiscoveryConfig = DiscoveryConfig()
    clients: dict[str, ClientConfig] = field(default_factory=dict)
    """By profile name (`codex` …); `*` applies to every client."""
    pipeline: PipelineConfig = PipelineConfig()
    compatibility: CompatibilityConfig = CompatibilityConfig()
    log: LogConfig = LogConfig()
    metrics: MetricsConfig = MetricsConfig()
    otel: OtelConfig = OtelConfig()
    local: dict[str, ProviderConfig] = field(default_factory=dict)
    """Model servers that were found on this machine, with their models. Not a key."""
    chosen_model: str = ""
    """The default model that was chosen on the page. Not a key."""
    source: ConfigSource | None = None
    """The file it was read from, so that later checks can name the line. Not a key."""

    def error_at(self, path: Iterable[str], problem: str) -> ConfigError:
        """Make the error about the value at a path of keys."""
        return (self.source or ConfigSource()).error_at([*path], problem)
