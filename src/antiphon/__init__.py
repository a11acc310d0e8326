"""Antiphon: a gateway and library that turns the stream of any provider into Responses events.

Three ways to use it from Python, each described in docs/library.md:

- `Gateway` (and `BlockingGateway`, `run`) asks any configured model, in this process. `open` and
  `open_blocking` are other names of the two classes.
- `openai_http_client`, `anthropic_http_client`, `asgi_app` and `aiohttp_app` serve the API to the
  SDKs of OpenAI and Anthropic or to a web framework, in this process.
- `Translator` translates requests and responses, and leaves the HTTP to the caller. The parts under
  it are public as well: `ResponseMachine`, the deltas, tool restoration, contracts, faults, SSE.

`Stage` is the class of a stage of one's own in the pipeline (docs/extend.md).

Importing the package loads nothing but this file: each name is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from antiphon.config import Config
    from antiphon.core.deltas import (
        Delta,
        Failure,
        Finish,
        Reasoning,
        Refusal,
        Text,
        ToolCall,
        Usage,
        parse_delta,
    )
    from antiphon.core.faults.classify import classify
    from antiphon.core.faults.fault import ProviderFault
    from antiphon.core.stream.finish import map_finish_reason
    from antiphon.core.stream.machine import ResponseMachine
    from antiphon.core.stream.phase import Phase
    from antiphon.core.structured_output.contract import OutputContract
    from antiphon.core.tools.identity import ToolIdentity, ToolIdentityMap
    from antiphon.core.tools.restore import ProviderCall, restore_tool_call
    from antiphon.dialects.responses.render import SSEEncoder, event_to_dict
    from antiphon.errors import (
        AntiphonError,
        AuthenticationFailed,
        BridgeError,
        ConfigError,
        ContentBlocked,
        ContextTooLong,
        InvalidRequest,
        ModelNotFound,
        ProviderTimeout,
        ProviderUnavailable,
        QuotaExceeded,
        RateLimited,
        RequestRejected,
        UpstreamError,
    )
    from antiphon.framing.sse import SSEDecoder
    from antiphon.library.aiohttp_app import aiohttp_app
    from antiphon.library.asgi import asgi_app
    from antiphon.library.blocking import BlockingGateway, BlockingStream, run
    from antiphon.library.blocking import BlockingGateway as open_blocking
    from antiphon.library.formats import render
    from antiphon.library.gateway import Gateway, output_text
    from antiphon.library.gateway import Gateway as open
    from antiphon.library.http_clients import anthropic_http_client, openai_http_client
    from antiphon.library.replay import replay
    from antiphon.library.response_stream import ResponseStream
    from antiphon.library.translator import OutboundRequest, Translator
    from antiphon.stages.pipeline import Batch, Stage

__version__ = "0.1.0"

# The module of each public name; a name after a colon is the name in that module.
_MODULES = {
    "antiphon.config": "Config",
    "antiphon.core.faults.classify": "classify",
    "antiphon.core.faults.fault": "ProviderFault",
    "antiphon.core.deltas": (
        "Delta Failure Finish Reasoning Refusal Text ToolCall Usage parse_delta"
    ),
    "antiphon.core.stream.finish": "map_finish_reason",
    "antiphon.core.stream.machine": "ResponseMachine",
    "antiphon.core.stream.phase": "Phase",
    "antiphon.core.structured_output.contract": "OutputContract",
    "antiphon.core.tools.identity": "ToolIdentity ToolIdentityMap",
    "antiphon.core.tools.restore": "ProviderCall restore_tool_call",
    "antiphon.errors": (
        "AntiphonError AuthenticationFailed BridgeError ConfigError ContentBlocked ContextTooLong"
        " InvalidRequest ModelNotFound ProviderTimeout ProviderUnavailable QuotaExceeded"
        " RateLimited RequestRejected UpstreamError"
    ),
    "antiphon.library.aiohttp_app": "aiohttp_app",
    "antiphon.library.asgi": "asgi_app",
    "antiphon.library.blocking": (
        "BlockingGateway BlockingStream open_blocking:BlockingGateway run"
    ),
    "antiphon.library.formats": "render",
    "antiphon.library.gateway": "Gateway open:Gateway output_text",
    "antiphon.library.http_clients": "anthropic_http_client openai_http_client",
    "antiphon.library.replay": "replay",
    "antiphon.library.response_stream": "ResponseStream",
    "antiphon.library.translator": "OutboundRequest Translator",
    "antiphon.stages.pipeline": "Batch Stage",
    "antiphon.dialects.responses.render": "SSEEncoder event_to_dict",
    "antiphon.framing.sse": "SSEDecoder",
}
_NAMES = {
    name: (module, attribute or name)
    for module, names in _MODULES.items()
    for name, _, attribute in (each.partition(":") for each in names.split())
}

__all__ = [
    "AntiphonError",
    "AuthenticationFailed",
    "Batch",
    "BlockingGateway",
    "BlockingStream",
    "BridgeError",
    "Config",
    "ConfigError",
    "ContentBlocked",
    "ContextTooLong",
    "Delta",
    "Failure",
    "Finish",
    "Gateway",
    "InvalidRequest",
    "ModelNotFound",
    "OutboundRequest",
    "OutputContract",
    "Phase",
    "ProviderCall",
    "ProviderFault",
    "ProviderTimeout",
    "ProviderUnavailable",
    "QuotaExceeded",
    "RateLimited",
    "Reasoning",
    "Refusal",
    "RequestRejected",
    "ResponseMachine",
    "ResponseStream",
    "SSEDecoder",
    "SSEEncoder",
    "Stage",
    "Text",
    "ToolCall",
    "ToolIdentity",
    "ToolIdentityMap",
    "Translator",
    "UpstreamError",
    "Usage",
    "__version__",
    "aiohttp_app",
    "anthropic_http_client",
    "asgi_app",
    "classify",
    "event_to_dict",
    "map_finish_reason",
    "open",
    "open_blocking",
    "openai_http_client",
    "output_text",
    "parse_delta",
    "render",
    "replay",
    "restore_tool_call",
    "run",
]


# Names that need the packages of an extra.
_EXTRAS = {"anthropic_http_client": "anthropic", "openai_http_client": "openai"}


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'antiphon' has no attribute {name!r}")
    module, attribute = _NAMES[name]
    try:
        loaded = import_module(module)
    except ModuleNotFoundError as error:
        if name not in _EXTRAS:
            raise
        raise ImportError(
            f"antiphon.{name} needs the package {error.name!r}. Install antiphon with the extra"
            f" {_EXTRAS[name]!r}: pip install '.[{_EXTRAS[name]}]' in its source directory."
        ) from error
    value = globals()[name] = getattr(loaded, attribute)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
