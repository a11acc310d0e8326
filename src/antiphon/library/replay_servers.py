"""Replay of a response for which the gateway called MCP servers.

The recorded items of the response stand for the servers: each list and each call has the outcome
that its item has. The bytes of the provider are those of all requests, one after the other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from antiphon.core.client_profile import OTHER, PROFILES
from antiphon.core.events import Event
from antiphon.core.faults.fault import protocol_fault
from antiphon.core.filters.gateway_call import GatewayCall
from antiphon.core.history.capsule import Opened, Unopened
from antiphon.core.items import Document
from antiphon.core.mcp.items import APPROVAL_REQUEST, CALL, LIST, read_list
from antiphon.core.mcp.server_calls import ListToolsCall, ToolCallRequest
from antiphon.core.mcp.toolset import MCP
from antiphon.core.mcp.values import McpProblem, McpResult, McpServer, McpToolList
from antiphon.core.plan.hosted_tools import HostedToolPolicy
from antiphon.core.plan.next_round import FinishedRound, plan_next_round
from antiphon.core.plan.planner import ModelTarget, PlanInputs, Planner
from antiphon.core.request import Request
from antiphon.core.stream.numbered_ids import number_ids
from antiphon.core.stream.source import Source
from antiphon.core.translation.filters import make_filters
from antiphon.core.translation.next_step import READING, Calls, Round
from antiphon.core.translation.translation import Replanned, Translation, make_translation
from antiphon.dialects.responses.create_response import create_response
from antiphon.library.formats import Format, RenderedDocuments, find_format
from antiphon.library.translator import SEALED
from antiphon.providers.dialect_plugins import make_dialect
from antiphon.providers.spec import Spec
from antiphon.server.body import decode_body
from antiphon.stages.builtin import make_changing_stages
from antiphon.stages.pipeline import Batch, Pipeline

_ITEMS = frozenset({LIST, CALL, APPROVAL_REQUEST})
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")


class RecordedServers:
    """Servers as the items of a response have them; any server may be called."""

    def __init__(self, items: Iterable[Mapping[str, Any]]) -> None:
        self._items = [item for item in items if item.get("type") in _ITEMS]

    def find_refusal(self, server: McpServer) -> str:
        return ""

    def requires_approval(self, server: McpServer) -> bool:
        """Whether the operator wanted approvals where the request does not say."""
        return any(
            item["type"] == APPROVAL_REQUEST and item.get("server_label") == server.label
            for item in self._items
        )

    def outcome(self, call: GatewayCall) -> McpToolList | McpResult:
        """The outcome of a call; the item that has it is not used again."""
        if isinstance(call, ListToolsCall):
            item = self._take(LIST, call.server.label)
            return call.fail() if item is None else _read_list(item)
        assert isinstance(call, ToolCallRequest)
        item = self._take(CALL, call.server.label, call.tool)
        return call.fail() if item is None else _read_result(item)

    def _take(self, kind: str, label: str, tool: str | None = None) -> Mapping[str, Any] | None:
        for number, item in enumerate(self._items):
            if (item["type"], item.get("server_label"), item.get("name")) == (kind, label, tool):
                return self._items.pop(number)
        return None


def _read_list(item: Mapping[str, Any]) -> McpToolList:
    tools = read_list(item)
    if tools is None:
        return McpToolList(problem=McpProblem(type="http_error", message=str(item["error"])))
    return McpToolList(tools=tools)


def _read_result(item: Mapping[str, Any]) -> McpResult:
    error = item.get("error")
    if not error:
        return McpResult(text=str(item.get("output") or ""))
    if error.get("type") == "mcp_tool_execution_error":
        return McpResult(text=error["content"][0]["text"], is_error=True)
    problem = McpProblem(type=error["type"], message=error["message"], code=error["code"])
    return McpResult(problem=problem)


class ServerReplay:
    """One response, over all of its rounds."""

    def __init__(
        self,
        request: Mapping[str, Any],
        items: Iterable[Mapping[str, Any]],
        provider: Spec,
        model: str,
        *,
        client: str,
        format: Format,
    ) -> None:
        """As `replay`; `items` are those of the recorded response."""
        dialect = find_format(format)
        parsed = dialect.parse(decode_body(msgspec.json.encode(request)))
        self._profile = PROFILES.get(client, OTHER)
        self._new_id = number_ids()
        self._servers = RecordedServers(items)
        self._target = _make_target(provider, model)
        self._planner = _make_planner(parsed, self._servers)
        self._plan = self._planner.plan(self._target)
        self._source = _make_source(provider, self._target)
        self._translation = self._make_translation(parsed)
        self._pipeline = Pipeline(make_changing_stages(self._plan, self._profile))
        self._rendered = RenderedDocuments(dialect, parsed, self._profile)

    def _make_translation(self, request: Request) -> Translation:
        response = create_response(
            request, response_id=self._new_id("resp"), created_at=0, used=self._plan.used
        )
        translation = make_translation(
            self._plan,
            self._source,
            response,
            new_id=self._new_id,
            now=lambda: 0,
            profile=self._profile,
        )
        translation.note_request(self._plan)
        return translation

    def replay(self, parts: Iterable[bytes], *, is_whole: bool) -> list[Document]:
        """Return all events. A part is what the provider sent in one round, or in several that end
        with a mark."""
        translation = self._translation
        released: list[Document] = []
        if translation.opens_with_calls:
            released += self._release(translation.open_calls())
        feed = translation.feed_whole if is_whole else translation.feed
        for part in parts:
            before = translation.rounds
            for piece in split_bodies(part) if is_whole else _LINE.findall(part):
                if translation.next is READING:
                    released += self._release(feed(piece))
            if translation.next is READING and translation.rounds == before:
                released += self._release(translation.close())
        return released + self._render(self._end())

    def _end(self) -> list[Event]:
        """End a response whose last bytes are missing; nothing happens to any other."""
        if self._translation.next is not READING:
            return []
        return self._translation.fail(protocol_fault("the bytes of a further request are missing"))

    def _release(self, events: list[Event]) -> list[Document]:
        """Do what the response waits for, and render its events."""
        translation = self._translation
        while isinstance(translation.next, Calls | Round):
            wanted = translation.next
            if isinstance(wanted, Calls):
                events += translation.settle_call(self._servers.outcome(wanted.calls[0]))
            else:
                self._begin_round(wanted)
        return self._render(events)

    def _render(self, events: list[Event]) -> list[Document]:
        translation = self._translation
        fault = translation.machine.fault
        batch = self._pipeline.feed(Batch(events, fault, translation.path.refused))
        return self._rendered.feed(batch.events)

    def _begin_round(self, wanted: Round) -> None:
        translation = self._translation
        translation.begin_round()
        replanned = None
        if translation.opens_with_calls and translation.rounds == 1:
            self._planner = self._planner.continue_with(wanted.items, wanted.follow_up.steps)
            self._plan = self._planner.plan(self._target)
            filters = make_filters(self._plan, self._profile, self._new_id)
            replanned = Replanned(self._plan.identities, filters)
        else:
            finished = FinishedRound(wanted.items, wanted.follow_up)
            issuer = self._target.issuer
            self._plan = plan_next_round(self._plan, finished, issuer=issuer, unseal=_keep_closed)
        translation.read_from(self._source, replanned)
        translation.note_request(self._plan)


def _make_target(spec: Spec, model: str) -> ModelTarget:
    """A model that calls no server itself."""
    capabilities = spec.capabilities_of(model)
    hosted = capabilities.hosted_tools - {MCP}
    capabilities = msgspec.structs.replace(capabilities, hosted_tools=hosted)
    return ModelTarget(spec.name, model, capabilities, issuer=spec.name)


def _make_planner(request: Request, servers: RecordedServers) -> Planner:
    policy = HostedToolPolicy(unavailable="ignore", mcp=servers)
    return Planner(request, PlanInputs(unseal=_keep_closed, hosted_tools=policy))


def _make_source(spec: Spec, target: ModelTarget) -> Source:
    dialect = make_dialect(spec)
    return Source(
        dialect,
        guards=target.capabilities.guards,
        seal=lambda states, text: SEALED,
        describe=partial(dialect.describe, provider=spec.name),
    )


def _keep_closed(sealed: str) -> Opened:
    return Unopened.UNKNOWN_KEY


def split_bodies(data: bytes) -> Iterator[bytes]:
    """Split JSON documents that follow each other; a rest that is not JSON is the last one."""
    rest = data.decode("utf-8", "replace").lstrip()
    while rest:
        try:
            _, end = _DECODER.raw_decode(rest)
        except (ValueError, RecursionError):
            end = len(rest)
        yield rest[:end].encode()
        rest = rest[end:].lstrip()


_DECODER = json.JSONDecoder()
