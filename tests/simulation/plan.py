"""The plan of a world: everything that is decided by its seed before it begins."""

from __future__ import annotations

import random
from dataclasses import dataclass
from inspect import signature

from antiphon.config import (
    AttemptConfig,
    CapsuleConfig,
    Config,
    ProviderConfig,
    ServerConfig,
    StoreConfig,
    TimeoutConfig,
    TraceConfig,
)
from antiphon.store.sqlite import SQLiteStore
from tests.simulation.answers import DIALECTS
from tests.simulation.virtual_loop import Address

GATEWAY: Address = ("127.0.0.1", 8484)
TENANTS = {"alice": "sk-client-alice-0001", "bob": "sk-client-bob-0002"}
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
ADDRESSES: dict[str, Address] = {
    name: (f"10.0.0.{number}", 80) for number, name in enumerate(DIALECTS, 1)
}


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


def list_keys(name: str) -> list[str]:
    """The API keys of a provider: two, so that one can rest. Bedrock signs with one of its keys."""
    if name == "bedrock":
        return ["AKIDSIM000000001:bedrock-secret-0001", "bedrock-key-secret-0002"]
    return [f"{name}-key-secret-0001", f"{name}-key-secret-0002"]


def key_name(key: str) -> str:
    """The part of a key that a request shows."""
    return key.partition(":")[0]


def make_plan(seed: int) -> Plan:
    rng = random.Random(f"plan {seed}")
    return Plan(
        seed=seed,
        config=_make_config(rng),
        conversations=rng.choice((6, 8, 10)),
        turns=rng.choice((4, 5, 6)),
        fault_rate=rng.choice((0.5, 0.7, 0.9)),
        operator=rng.choice(("none", "none", "terminate", "kill")),
        operator_at_s=rng.uniform(1.0, 40.0),
        disk=rng.choice(("good", "good", "slow", "failing", "full")),
        latency_s=rng.choice((0.0, 0.001, 0.02)),
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
            api_keys=dict(TENANTS),
            keepalive_s=rng.choice((2.0, 15.0)),
            commit_after_s=rng.choice((1.0, 4.0, 15.0)),
            shutdown_s=rng.choice((0.0, 3.0, 10.0)),
        ),
        providers={name: _make_provider(name, timeouts) for name in DIALECTS},
        models={f"safe-{name}": f"{name}/{MODELS[name]}" for name in DIALECTS},
        fallbacks={f"safe-{name}": [following[f"{name}/{MODELS[name]}"]] for name in DIALECTS},
        attempts=AttemptConfig(
            max_attempts=rng.choice((1, 2, 4)),
            max_s=60.0,
            breaker_threshold=rng.choice((2, 5)),
            breaker_rest_s=rng.choice((5.0, 30.0)),
            reminders=rng.random() < 0.5,
        ),
        store=StoreConfig(url="memory://"),
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
