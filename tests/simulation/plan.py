"""The plan of a world: everything that is decided by its seed before it begins."""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass
from inspect import signature

from msgspec.structs import replace

from antiphon.config import (
    AttachConfig,
    AttemptConfig,
    BackgroundConfig,
    CapsuleConfig,
    ClientLimitConfig,
    Config,
    LimitConfig,
    ProviderConfig,
    ServerConfig,
    StoreConfig,
    TimeoutConfig,
    TraceConfig,
)
from antiphon.store.sqlite.store import SQLiteStore
from tests.simulation.answers import DIALECTS
from tests.simulation.mcp.plan import ServerPlan, add_servers, draw_servers
from tests.simulation.virtual_loop import Address

GATEWAY: Address = ("127.0.0.1", 8484)
SECOND_GATEWAY: Address = ("127.0.0.1", 8485)
TENANTS = {"alice": "sk-client-alice-0001", "bob": "sk-client-bob-0002"}
LIMITED = "carol"
"""A client whose requests are limited."""
QUEUEING = ("dora", "emil")
"""A client with many background responses, and one with a single one behind them."""
KEYS = {
    **TENANTS,
    LIMITED: "sk-client-carol-0003",
    **dict(zip(QUEUEING, ("sk-client-dora-0004", "sk-client-emil-0005"), strict=True)),
}
DIVIDES_STORE = "client" in signature(SQLiteStore.chain).parameters
"""Whether stored responses belong to the client that made them."""
MODELS = {
    "chat": "m",
    "anthropic": "claude-haiku-4-5",
    "bedrock": "amazon.nova-lite",
    "gemini": "gemini-2.5-flash",
    "ollama": "qwen3",
    "cohere": "command-a-03-2025",
    "responses": "m",
}
MOVING = "moving"
"""The name of a model that each configuration gives to another provider."""
FIRST_PROVIDER = "chat"
ADDRESSES: dict[str, Address] = {
    name: (f"10.0.0.{number}", 80) for number, name in enumerate(DIALECTS, 1)
}

MAX_HISTORY_ITEMS = 100
"""More than the threads of plain clients have."""
_PAUSES_RATE = 0.4


@dataclass(frozen=True)
class Plan:
    seed: int
    config: Config
    conversations: int
    turns: int
    fault_rate: float
    operator: str
    """`none`, `terminate` or `kill`."""
    operator_at_s: float
    disk: str
    """`good`, `slow`, `failing` or `full`."""
    latency_s: float
    processes: int
    """One gateway, or two on the same database."""
    stall_at_s: float | None
    """When the disk of a process stands still for longer than its lease."""
    pauses_in_background: bool
    """Whether streams of background responses have reasoning, and a pause some time after it."""

    servers: tuple[ServerPlan, ...] = ()
    """The MCP servers."""

    @property
    def addresses(self) -> tuple[Address, ...]:
        return (GATEWAY, SECOND_GATEWAY)[: self.processes]


def list_keys(name: str) -> list[str]:
    """The API keys of a provider: two, so that one can rest. Bedrock signs with one of its keys."""
    if name == "bedrock":
        return ["AKIDSIM000000001:bedrock-secret-0001", "bedrock-key-secret-0002"]
    return [f"{name}-key-secret-0001", f"{name}-key-secret-0002"]


def key_name(key: str) -> str:
    """The part of a key that a request shows."""
    return key.partition(":")[0]


def make_plan(seed: int) -> Plan:
    rng, lifecycle = random.Random(f"plan {seed}"), random.Random(f"lifecycle {seed}")
    plan = Plan(
        seed=seed,
        config=_make_config(rng),
        conversations=rng.choice((6, 8, 10)),
        turns=rng.choice((4, 5, 6)),
        fault_rate=rng.choice((0.5, 0.7, 0.9)),
        operator=rng.choice(("none", "none", "terminate", "kill")),
        operator_at_s=rng.uniform(1.0, 40.0),
        disk=rng.choice(("good", "good", "slow", "failing", "full")),
        latency_s=rng.choice((0.0, 0.001, 0.02)),
        processes=lifecycle.choice((1, 2)),
        stall_at_s=lifecycle.uniform(2.0, 30.0) if lifecycle.random() < 0.25 else None,
        pauses_in_background=random.Random(f"pauses {seed}").random() < _PAUSES_RATE,
    )
    config = _add_limits(random.Random(f"limits {seed}"), _add_lifecycle(lifecycle, plan))
    servers = draw_servers(seed)
    config = add_servers(seed, config, servers)
    return dataclasses.replace(plan, config=config, servers=servers)


def _add_limits(rng: random.Random, config: Config) -> Config:
    limits = ClientLimitConfig(
        requests_per_minute=rng.choice((None, 3, 8)),
        tokens_per_minute=rng.choice((None, None, 60)),
        max_streams=rng.choice((None, 1, 3)),
    )
    return replace(config, limits=LimitConfig(clients={LIMITED: limits}))


def _add_lifecycle(rng: random.Random, plan: Plan) -> Config:
    lease_s = 10.0 if plan.disk == "slow" else rng.choice((3.0, 10.0))  # longer than a save
    return replace(
        plan.config,
        background=BackgroundConfig(max_running=rng.choice((1, 2, 8)), lease_s=lease_s),
        attach=AttachConfig(window_s=rng.choice((3.0, 20.0))),
    )


def _make_config(rng: random.Random) -> Config:
    timeouts = TimeoutConfig(
        connect_s=3.0,
        first_token_s=rng.choice((5.0, 12.0)),
        idle_s=rng.choice((3.0, 8.0)),
        total_s=rng.choice((20.0, 45.0)),
    )
    names = [f"{name}/{MODELS[name]}" for name in DIALECTS]
    following = dict(zip(names, [*names[1:], names[0]], strict=True))
    return Config(
        default_provider="chat",
        server=ServerConfig(
            host=GATEWAY[0],
            port=GATEWAY[1],
            api_keys=dict(KEYS),
            keepalive_s=rng.choice((2.0, 15.0)),
            commit_after_s=rng.choice((1.0, 4.0, 15.0)),
            shutdown_s=rng.choice((0.0, 3.0, 10.0)),
        ),
        providers={name: _make_provider(name, timeouts) for name in DIALECTS},
        models={
            **{f"safe-{name}": f"{name}/{MODELS[name]}" for name in DIALECTS},
            MOVING: f"{FIRST_PROVIDER}/{MODELS[FIRST_PROVIDER]}",
        },
        fallbacks={f"safe-{name}": [following[f"{name}/{MODELS[name]}"]] for name in DIALECTS},
        attempts=AttemptConfig(
            max_attempts=rng.choice((1, 2, 4)),
            max_s=60.0,
            breaker_threshold=rng.choice((2, 5)),
            breaker_rest_s=rng.choice((5.0, 30.0)),
            reminders=rng.random() < 0.5,
        ),
        store=StoreConfig(url="memory://", max_history_items=MAX_HISTORY_ITEMS),
        attach=AttachConfig(clients=[]),  # no client of the simulation sends a request again
        trace=TraceConfig(enabled=False),
        capsule=CapsuleConfig(keys=["a key that only the simulation uses"]),
    )


def _make_provider(name: str, timeouts: TimeoutConfig) -> ProviderConfig:
    host, port = ADDRESSES[name]
    return ProviderConfig(
        kind=name,
        base_url=f"http://{host}:{port}",
        api_keys=list_keys(name),
        timeouts=timeouts,
    )
