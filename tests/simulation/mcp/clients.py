"""Clients that use MCP servers: in Responses with approvals, streamed, whole and in the background,
in Messages and in Chat Completions. The model and its provider may change at each turn."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.simulation.clients import READS, draw_behaviour
from tests.simulation.lifecycle.background import follow
from tests.simulation.lifecycle.records import BackgroundResponse, has_ended
from tests.simulation.mcp.plan import TOOLS, ServerPlan
from tests.simulation.mcp.records import AskedServer, Document, McpAsk, find_token, write_secret
from tests.simulation.plan import MODELS, TENANTS
from tests.simulation.records import Exchange, write_question
from tests.support.scripted_providers.session import TOOLS as OWN_TOOLS

if TYPE_CHECKING:
    from tests.simulation.world import World

_TURNS = 4
_ALL = frozenset(tool.name for tool in TOOLS)
_READ_ONLY = frozenset(tool.name for tool in TOOLS if tool.is_read_only)
_NATIVE = "responses"
"""The provider that calls servers itself."""

_ALLOWED: tuple[tuple[Any, frozenset[str] | None], ...] = (
    (None, None),
    (None, None),
    (["look"], frozenset({"look"})),
    (["look", "erase.all"], frozenset({"look", "erase.all"})),
    ({"tool_names": ["look", "write"]}, frozenset({"look", "write"})),
    ({"read_only": True}, _READ_ONLY),
)
"""`allowed_tools`, and what it allows."""
_APPROVALS: tuple[tuple[Any, frozenset[str]], ...] = (
    ("never", _ALL),
    ("never", _ALL),
    ("always", frozenset()),
    ({"never": {"tool_names": ["look"]}}, frozenset({"look"})),
    ({"never": {"read_only": True}}, _READ_ONLY),
    (
        {"always": {"tool_names": ["write"]}, "never": {"tool_names": ["write", "erase.all"]}},
        frozenset({"erase.all"}),
    ),
)
"""`require_approval`, and the tools that need none."""


def _draw_model(rng: random.Random) -> str:
    name = rng.choice([each for each in MODELS if each != _NATIVE])
    if rng.random() < 0.08:
        name = _NATIVE
    return f"safe-{name}" if rng.random() < 0.6 else f"{name}/{MODELS[name]}"


def _make_secret(world: World, tenant: str, server: ServerPlan) -> str:
    secret = write_secret(tenant, server.label)
    world.history.mcp.secrets[secret] = server.label
    return secret


# Responses


def _declare(world: World, rng: random.Random, tenant: str, server: ServerPlan) -> AskedServer:
    """One `mcp` tool of a request."""
    document: Document = {"type": "mcp", "server_label": server.label}
    secret = _make_secret(world, tenant, server) if rng.random() < 0.7 else ""
    if not server.is_configured:
        document["server_url"] = server.url
    if secret and server.is_configured and rng.random() < 0.7:
        document["headers"] = {"X-Client": secret}
    elif secret:
        document["authorization"] = secret
    allowed, names = rng.choice(_ALLOWED)
    if allowed is not None:
        document["allowed_tools"] = allowed
    is_default = rng.random() < 0.2
    default = "never" if world.config.mcp.require_approval == "never" else "always"
    approval, approved = rng.choice(_APPROVALS)
    if is_default:
        approved = _ALL if default == "never" else frozenset()
    else:
        document["require_approval"] = approval
    return AskedServer(server.label, document, secret, names, approved)


class _Thread:
    """A thread of one client: the response that it continues, or all of its items."""

    def __init__(self, world: World, rng: random.Random, tenant: str) -> None:
        self._world = world
        self._rng = rng
        self._tenant = tenant
        self._keeps_items = rng.random() < 0.4
        self._is_background = not self._keeps_items and rng.random() < 0.35
        self._declared = self._declare()
        self._begin()

    def _begin(self) -> None:
        self._previous = ""
        self._items: list[Document] = []
        self._waiting: list[Document] = []
        """Approval requests and calls that the next turn may answer."""

    def _declare(self) -> dict[str, AskedServer]:
        servers = self._world.plan.servers
        drawn = self._rng.sample(servers, self._rng.randint(1, len(servers)))
        return {each.label: _declare(self._world, self._rng, self._tenant, each) for each in drawn}

    async def ask(self) -> None:
        """Send the next request, and take its response."""
        rng = self._rng
        if rng.random() < 0.3:
            self._declared = self._declare()
        ask = McpAsk(self._declared)
        model = _draw_model(rng)
        ask.is_native = _NATIVE in model
        tools = [each.document for each in self._declared.values()]
        request: Document = {"model": model, "stream": rng.random() < 0.75, "tools": tools}
        if rng.random() < 0.25:
            request["tools"] = [*tools, *OWN_TOOLS]
        if rng.random() < 0.2:
            request["max_tool_calls"] = ask.max_calls = rng.choice((1, 2))
        if self._is_background:
            request |= {"background": True, "store": True}
        if self._previous:
            request["previous_response_id"] = self._previous
        exchange = self._world.new_exchange(self._tenant, request)
        new = [*self._answer(ask), {"role": "user", "content": write_question(exchange)}]
        exchange.request["input"] = [*self._items, *new]
        exchange.mcp = ask
        response = await self._perform(exchange)
        self._take(response, new)

    def _answer(self, ask: McpAsk) -> list[Document]:
        """Decide about calls that need an approval, and answer the client's own."""
        answers: list[Document] = []
        for item in self._waiting:
            if item["type"] != "mcp_approval_request":
                output = {"type": f"{item['type']}_output", "call_id": item["call_id"]}
                answers.append({**output, "output": "rain"})
                continue
            roll, token = self._rng.random(), find_token(item["arguments"])
            if roll < 0.15:
                continue
            approve = roll < 0.75
            (ask.approvals if approve else ask.denials).add(token)
            what = {"approval_request_id": item["id"], "approve": approve}
            answers.append({"type": "mcp_approval_response", **what})
            self._world.history.count(f"client {'approves' if approve else 'denies'} a call")
        return answers

    async def _perform(self, exchange: Exchange) -> Document | None:
        world, rng = self._world, self._rng
        address = rng.choice(world.plan.addresses)
        if not self._is_background:
            await world.perform(exchange, draw_behaviour(rng), address)
            return exchange.response
        await world.perform(exchange, draw_behaviour(rng), address)
        if not exchange.response_id:
            return None
        response = BackgroundResponse(exchange.response_id, exchange)
        world.lifecycle.background[response.id] = response
        await follow(world, rng, response)
        told = [exchange.response, *(each.response for each in response.visits)]
        return next((each for each in reversed(told) if each and has_ended(each)), None)

    def _take(self, response: Document | None, new: list[Document]) -> None:
        if response is None or response["status"] != "completed":
            if self._rng.random() < 0.5:  # else it asks again from where it was
                self._begin()
            return
        kinds = ("mcp_approval_request", "function_call", "custom_tool_call")
        self._waiting = [item for item in response["output"] if item["type"] in kinds]
        if self._keeps_items:
            self._items += [*new, *response["output"]]
        elif response["store"]:
            self._previous = response["id"]
        else:
            self._begin()


async def run_mcp_client(world: World, rng: random.Random) -> None:
    if not world.plan.servers:
        return
    thread = _Thread(world, rng, rng.choice([*TENANTS]))
    for _ in range(_TURNS):
        await asyncio.sleep(rng.uniform(0.0, 8.0))
        await thread.ask()


# Messages


async def run_mcp_messages_client(world: World, rng: random.Random) -> None:
    servers = [each for each in world.plan.servers if not each.is_configured]
    if not servers:
        return
    tenant = rng.choice([*TENANTS])
    declared = {each.label: _declare_entry(world, rng, tenant, each) for each in servers}
    messages: list[Document] = []
    for _ in range(_TURNS - 1):
        await asyncio.sleep(rng.uniform(0.0, 8.0))
        model = _draw_model(rng)
        settings = {"model": model, "stream": rng.random() < 0.75}
        exchange = world.new_exchange(tenant, settings, "messages")
        messages.append({"role": "user", "content": write_question(exchange)})
        exchange.request["messages"] = [*messages]
        exchange.request["mcp_servers"] = [each.document for each in declared.values()]
        exchange.agent = "Anthropic/Python 2.9.0"
        exchange.mcp = McpAsk(declared, is_native=_NATIVE in model or "anthropic" in model)
        address = rng.choice(world.plan.addresses)
        await world.perform(exchange, draw_behaviour(rng), address)
        reading = exchange.reading
        if reading.status == "completed" and reading.blocks and not reading.calls:
            messages.append({"role": "assistant", "content": reading.blocks})
        else:
            messages = []


def _declare_entry(
    world: World, rng: random.Random, tenant: str, server: ServerPlan
) -> AskedServer:
    """One entry of `mcp_servers`."""
    document: Document = {"type": "url", "name": server.label, "url": server.url}
    secret = _make_secret(world, tenant, server) if rng.random() < 0.7 else ""
    if secret:
        document["authorization_token"] = secret
    allowed = frozenset({"look", "erase.all"}) if rng.random() < 0.4 else None
    if allowed is not None:
        document["tool_configuration"] = {"enabled": True, "allowed_tools": sorted(allowed)}
    return AskedServer(server.label, document, secret, allowed, _ALL)


# Chat Completions


async def run_mcp_chat_client(world: World, rng: random.Random) -> None:
    """Ask with the tools of Responses; the format has no approvals, and shows the text alone."""
    if not world.plan.servers:
        return
    tenant = rng.choice([*TENANTS])
    drawn = [_declare(world, rng, tenant, each) for each in world.plan.servers]
    never = {"require_approval": "never"}
    declared = {
        each.label: replace(each, document={**each.document, **never}, approved=_ALL)
        for each in drawn
    }
    messages: list[Document] = []
    for _ in range(_TURNS - 1):
        await asyncio.sleep(rng.uniform(0.0, 8.0))
        model = _draw_model(rng)
        settings = {"model": model, "stream": rng.random() < 0.75}
        exchange = world.new_exchange(tenant, settings, "chat")
        messages.append({"role": "user", "content": write_question(exchange)})
        exchange.request["messages"] = [*messages]
        exchange.request["tools"] = [each.document for each in declared.values()]
        exchange.mcp = McpAsk(declared, is_native=_NATIVE in model)
        await world.perform(exchange, draw_behaviour(rng), rng.choice(world.plan.addresses))
        reading = exchange.reading
        if reading.status == "completed" and reading.text and not reading.calls:
            messages.append({"role": "assistant", "content": reading.text})
        else:
            messages = []


# Servers that work again


async def probe_servers(world: World) -> None:
    """Use every server when everything works again."""
    for server in world.plan.servers:
        document = {"type": "mcp", "server_label": server.label, "require_approval": "never"}
        if not server.is_configured:
            document["server_url"] = server.url
        request = {"model": "chat/m", "stream": True, "tools": [document]}
        exchange = world.new_exchange("alice", request)
        exchange.mcp = McpAsk({server.label: AskedServer(server.label, document, approved=_ALL)})
        exchange.probes = server.label
        await world.perform(exchange, READS, world.plan.addresses[0])
