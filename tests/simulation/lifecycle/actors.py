"""The actors beside the plain clients: of background responses, retries, conversations, WebSockets,
limits, reloads, bounds and MCP servers."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from tests.simulation.bounds.client import run_long_thread, run_queueing_clients
from tests.simulation.lifecycle.background import run_background_client
from tests.simulation.lifecycle.conversations import run_conversation_client
from tests.simulation.lifecycle.retries import run_retrying_client
from tests.simulation.lifecycle.socket_client import run_socket_client
from tests.simulation.limits.client import run_limited_client
from tests.simulation.mcp.clients import (
    run_mcp_chat_client,
    run_mcp_client,
    run_mcp_messages_client,
)
from tests.simulation.reloads.actors import run_moving_client, run_reloading_operator

if TYPE_CHECKING:
    from tests.simulation.world import World

_ACTORS = (
    *[run_background_client] * 3,
    *[run_retrying_client] * 2,
    *[run_conversation_client] * 2,
    *[run_socket_client] * 2,
    run_limited_client,
    run_reloading_operator,
    *[run_moving_client] * 2,
    run_long_thread,
    run_queueing_clients,
    *[run_mcp_client] * 4,
    *[run_mcp_messages_client] * 2,
    run_mcp_chat_client,
)


def make_actors(world: World) -> list[Coroutine[Any, Any, None]]:
    return [run(world, world.derive(f"lifecycle {n}")) for n, run in enumerate(_ACTORS)]
