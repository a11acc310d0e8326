"""Configuration: `antiphon.toml` is read into a `Config`."""

from __future__ import annotations

from antiphon.config.load import (
    config_directory,
    data_directory,
    find_config,
    load_config,
    parse_config,
)
from antiphon.config.schema import (
    Address,
    AttemptConfig,
    CapsuleConfig,
    ClientConfig,
    Config,
    Count,
    LogConfig,
    ModelConfig,
    Port,
    ProviderConfig,
    SearchConfig,
    Seconds,
    Secret,
    ServerConfig,
    StoreConfig,
    TextLeak,
    TimeoutConfig,
    TraceConfig,
    VisionConfig,
    WebSearch,
)
from antiphon.config.source import ConfigSource, suggest

__all__ = [
    "Address",
    "AttemptConfig",
    "CapsuleConfig",
    "ClientConfig",
    "Config",
    "ConfigSource",
    "Count",
    "LogConfig",
    "ModelConfig",
    "Port",
    "ProviderConfig",
    "SearchConfig",
    "Seconds",
    "Secret",
    "ServerConfig",
    "StoreConfig",
    "TextLeak",
    "TimeoutConfig",
    "TraceConfig",
    "VisionConfig",
    "WebSearch",
    "config_directory",
    "data_directory",
    "find_config",
    "load_config",
    "parse_config",
    "suggest",
]
