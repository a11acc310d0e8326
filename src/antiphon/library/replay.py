"""Replay of recorded provider bytes as the events of a client's format.

Given the client's request, a replay makes the same plan, filters and checks as the gateway, so its
events are those that the client received: tools have their own types, and the output contract is
checked. Given the native request to the provider, only its model and the names of its tools are
known. Ids come from counters and times are 0, so the same recording always gives the same events.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from msgspec import structs

from antiphon.core.capabilities import Capabilities
from antiphon.core.client_profile import OTHER
from antiphon.core.events import Event
from antiphon.core.items import Document
from antiphon.core.plan.hosted_tools import family
from antiphon.core.plan.parse_tool import DECLARED_TYPES
from antiphon.core.response import Response
from antiphon.core.stream.machine import ResponseMachine
from antiphon.core.stream.numbered_ids import number_ids
from antiphon.core.stream.source import Source
from antiphon.core.tools.identity import ToolIdentity, ToolIdentityMap
from antiphon.core.translation.translation import Translation
from antiphon.dialects.dialect import Dialect, Framer
from antiphon.dialects.responses.render import event_to_dict
from antiphon.framing.ndjson import NDJSONDecoder
from antiphon.providers.dialect_plugins import find_dialect
from antiphon.providers.registry import known_specs
from antiphon.providers.spec import Spec

if TYPE_CHECKING:
    from antiphon.library.formats import Format

_LOOKED_AT = 8192  # bytes
_SPACE = re.compile(rb"\s+")
_MARKS: tuple[tuple[str, re.Pattern[bytes]], ...] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("bedrock", rb'^\x00\x00..\x00\x00|"stopReason":'),
        ("responses", rb'"type":"response\.|"object":"response"'),
        ("anthropic", rb'"type":"message_start"|"type":"content_block_|"type":"message"[,}]'),
        ("cohere", rb'"type":"message-start"|"type":"content-|"type":"tool-|"billed_units":'),
        ("chat", rb'"choices":'),
        ("gemini", rb'"candidates":|"promptFeedback":'),
        ("ollama", rb'"done":(true|false)'),
    )
)
"""The first that is found counts. White space is taken out before."""
_DEFAULT = "chat"


def replay(
    data: bytes,
    *,
    dialect: str = "chat",
    request: Mapping[str, Any] | None = None,
    cuts: Iterable[int] = (),
    capabilities: Capabilities | None = None,
    client: str = OTHER.name,
    format: Format = "responses",
    output: Sequence[Mapping[str, Any]] = (),
    rounds: Iterable[int] = (),
) -> list[Document]:
    """Convert a recording to the events that a client would receive, as plain dicts.

    `data` is a stream or a complete JSON body. `format` is the format of the client. `request` is
    the client's request (in Responses it has an `input`), or the native request to the provider.
    `cuts` are the byte offsets of chunk boundaries. With a client's request, `client` is the name
    of the client's profile, and `capabilities` are those of the model; by default those in the data
    of the provider that `model` names (`PROVIDER/MODEL`), with the hosted tools of the request.

    `output` are the items of the recorded response: if the gateway called MCP servers for it, its
    lists and calls get the outcomes that these items have, and `data` is what the provider sent to
    all requests, one after the other. `rounds` are the byte offsets at which the later ones begin;
    they are needed for formats whose streams have no mark at their end.

    Not reproduced: the history before `previous_response_id`; what followed the first request of a
    response that took several (searches and corrections by the gateway) without MCP servers; how a
    connection broke, as the bytes do not say it; and the HTTP status of a failure before any
    output, which is a `response.failed` here.

    Raises `InvalidRequest` for a client's request that the gateway would reject.
    """
    request = request or {}
    spoken = find_dialect(dialect)
    if "input" in request or (request and format != "responses"):
        if _called_servers(output, dialect):
            spec, model = _find_provider(request, dialect, capabilities)
            is_whole = _is_complete_body(data, spoken.framer())
            from antiphon.library.replay_servers import ServerReplay  # late, as the translator

            servers = ServerReplay(request, output, spec, model, client=client, format=format)
            return servers.replay(_split_at(data, rounds), is_whole=is_whole)
        return _translate(data, dialect, request, cuts, capabilities, client, format)
    events = _replay_stream(data, spoken, request, cuts)
    if format == "responses":
        return [event_to_dict(event, number) for number, event in enumerate(events)]
    from antiphon.library.formats import render_documents  # late, as the translator

    return render_documents(events, format)


def _called_servers(output: Sequence[Mapping[str, Any]], dialect: str) -> bool:
    """Whether the gateway called MCP servers for a response with these items. A provider of
    Responses may have done it itself."""
    return dialect != "responses" and any(
        str(item.get("type")).startswith("mcp_") for item in output
    )


def detect_dialect(data: bytes) -> str:
    """Return the name of the dialect that a stream or a body looks like; without any mark, chat."""
    head = _SPACE.sub(b"", data[:_LOOKED_AT])
    return next((name for name, mark in _MARKS if mark.search(head)), _DEFAULT)


def _translate(
    data: bytes,
    dialect: str,
    request: Mapping[str, Any],
    cuts: Iterable[int],
    capabilities: Capabilities | None,
    client: str,
    format: Format,
) -> list[Document]:
    # Imported late: it loads cryptography and grammars.
    from antiphon.library.translator import ReplayTranslator

    spec, model = _find_provider(request, dialect, capabilities)
    translator = ReplayTranslator(request, provider=spec, model=model, client=client, format=format)
    if _is_complete_body(data, find_dialect(dialect).framer()):
        return translator.feed_whole(data)
    events = [event for chunk in _split_at(data, cuts) for event in translator.feed(chunk)]
    return events + translator.close()


def _find_provider(
    request: Mapping[str, Any], dialect: str, capabilities: Capabilities | None
) -> tuple[Spec, str]:
    """Find the provider that `model` names, and its own name of the model."""
    name, slash, model = str(request.get("model") or "").partition("/")
    if not slash:  # a name of the gateway's own, or of the provider that was recorded
        name, model = dialect, name
    spec = known_specs().get(name)
    if spec is None or spec.dialect != dialect:
        spec = Spec(name=name, title=name, dialect=dialect)
    if capabilities is None:
        capabilities = _with_hosted_tools(spec.capabilities_of(model), request)
    return structs.replace(spec, capabilities=capabilities, models=()), model


def _with_hosted_tools(capabilities: Capabilities, request: Mapping[str, Any]) -> Capabilities:
    """Return the capabilities of a model that ran the hosted tools of a recorded request."""
    tools = request.get("tools")
    kinds = {
        family(tool["type"])
        for tool in (tools if isinstance(tools, list) else ())
        if isinstance(tool, dict) and isinstance(tool.get("type"), str)
    }
    search = capabilities.web_search
    return structs.replace(
        capabilities,
        hosted_tools=capabilities.hosted_tools | (kinds - DECLARED_TYPES),
        web_search="native" if search == "none" and "web_search" in kinds else search,
    )


def _replay_stream(
    data: bytes, dialect: Dialect, request: Mapping[str, Any], cuts: Iterable[int]
) -> list[Event]:
    new_id = number_ids()
    response = Response(id=new_id("resp"), created_at=0, model=_model_of(request))
    machine = ResponseMachine(
        response, new_id=new_id, now=lambda: 0, tools=_read_declared_tools(request)
    )
    return _feed(Translation(machine, Source(dialect)), data, dialect.framer(), cuts)


def _feed(
    translation: Translation, data: bytes, framer: Framer, cuts: Iterable[int]
) -> list[Event]:
    if _is_complete_body(data, framer):
        return translation.feed_whole(data)
    events: list[Event] = []
    for chunk in _split_at(data, cuts):
        events += translation.feed(chunk)
    return events + translation.close()


def _model_of(request: Mapping[str, Any]) -> str:
    model = request.get("model")
    return model if isinstance(model, str) else ""


def _is_complete_body(data: bytes, framer: Framer) -> bool:
    """Whether the data is one JSON document; of newline-delimited JSON, a single line."""
    if isinstance(framer, NDJSONDecoder):
        return len(framer.feed(data) + framer.close()) <= 1
    return data.lstrip()[:1] in (b"{", b"[")


def _split_at(data: bytes, cuts: Iterable[int]) -> Iterator[bytes]:
    offsets = sorted({min(max(cut, 0), len(data)) for cut in cuts} | {0, len(data)})
    for begin, end in pairwise(offsets):
        yield data[begin:end]


def _read_declared_tools(request: Mapping[str, Any]) -> ToolIdentityMap:
    """Read the functions that a recorded native request declares."""
    tools = request.get("tools")
    names: dict[str, None] = {}
    for tool in tools if isinstance(tools, list) else ():
        match tool:
            case (
                {"function": {"name": str(name)}}
                | {"custom": {"name": str(name)}}
                | {"name": str(name), "input_schema": _}
                | {"type": "function", "name": str(name)}
            ):
                names[name] = None
    return ToolIdentityMap(ToolIdentity(name, name) for name in names)
