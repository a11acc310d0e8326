"""A world: the gateway, its upstreams, clients, operator and disk, from one seed to its end."""

from __future__ import annotations

import asyncio
import hashlib
import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import aiohttp.connector
import msgspec
from msgspec.structs import replace

from tests.simulation.clients import (
    READS,
    Behaviour,
    ClientConnection,
    connect_client,
    draw_behaviour,
    encode_request,
)
from tests.simulation.disk import Disk, memory_directory
from tests.simulation.formats.clients import draw_format, run_thread
from tests.simulation.formats.reading import PATHS, Format
from tests.simulation.formats.threads import AGENTS, KeptTurn, ask_once
from tests.simulation.gateways import SimulatedGateway
from tests.simulation.lifecycle.actors import make_actors
from tests.simulation.lifecycle.background import audit_background
from tests.simulation.lifecycle.conversations import audit_conversations
from tests.simulation.lifecycle.records import Lifecycle
from tests.simulation.mcp.clients import probe_servers
from tests.simulation.mcp.servers import McpHost
from tests.simulation.plan import (
    ADDRESSES,
    DIVIDES_STORE,
    KEYS,
    MODELS,
    TENANTS,
    Plan,
    make_plan,
)
from tests.simulation.records import Exchange, History, write_question
from tests.simulation.upstreams import UpstreamHost
from tests.simulation.virtual_loop import Address, StuckError, VirtualLoop
from tests.support.scripted_providers.session import TOOLS

_LIMIT_S = 20_000.0
_THREAD_FORMATS: tuple[Format, ...] = ("messages", "chat", "responses")
_SESSIONS_S = 6.0  # within which the MCP sessions of a response end
_REST_S = 400.0  # longer than any key or circuit breaker rests


class World:
    """Everything of one seed. `main` runs it; the oracles read what it leaves."""

    def __init__(self, plan: Plan, directory: Path, *, use_corpus: bool) -> None:
        self.plan = plan
        self.config = plan.config
        self.history = History()
        self.loop = VirtualLoop(_LIMIT_S)
        self.disk = Disk(self.derive("disk"), directory)
        self.gateways: list[SimulatedGateway] = []
        self.running: dict[Address, SimulatedGateway] = {}
        """The newest process at each address."""
        self.lifecycle = Lifecycle()
        self.kept_turns: list[KeptTurn] = []
        """Turns in the histories that clients keep themselves."""
        self.hosts: dict[str, UpstreamHost] = {}
        self.servers: dict[str, McpHost] = {}
        """The MCP servers, by label."""
        self.stuck = ""
        self.longest_save_s = 0.01
        self.stopped: set[str] = set()
        """Processes that the operator has ended before the end of the world."""
        self.stalled_s: dict[str, float] = {}
        """For how long the disk of a process stood still."""
        self.leaks: list[str] = []
        """What was left when the gateway was idle, and after its end."""
        self._use_corpus = use_corpus
        network = self.derive("network")
        self.loop.latency = lambda: plan.latency_s * network.random()
        self.loop.executor_delay = lambda: 0.001 * network.random()
        self._set_up_disk(self.derive("disk faults"))

    def derive(self, name: str) -> random.Random:
        """Make a generator of its own for a part of the world."""
        return random.Random(f"{name} {self.plan.seed}")

    def _set_up_disk(self, rng: random.Random) -> None:
        if self.plan.disk == "slow":
            self.disk.delay = lambda: rng.choice((0.01, 0.5, 3.0))
            self.longest_save_s = 3.0
        elif self.plan.disk == "failing":
            self.disk.fail_at = {rng.randrange(60) for _ in range(6)}
        else:
            self.disk.delay = lambda: 0.002 * rng.random() + 0.001

    @property
    def may_lose_leases(self) -> bool:
        """Whether a process may be unable to renew its lease although it works."""
        return bool(self.stalled_s) or self.plan.disk == "full"

    @property
    def total_s(self) -> float:
        """The total time of a response: the same at every provider."""
        return next(iter(self.config.providers.values())).timeouts.total_s

    def note(self, actor: str, what: str) -> None:
        self.history.lines.append((self.loop.time(), actor, what))

    # The course of the world

    def run(self) -> None:
        with _virtual_pool_clock(self.loop):
            try:
                self.loop.run_until_complete(self.main())
            except StuckError as error:
                self.stuck = str(error)
            finally:
                self._dispose()

    async def main(self) -> None:
        for name, address in ADDRESSES.items():
            self._add_host(name, address)
        self._add_servers()
        for address in self.plan.addresses:
            await self._start_gateway(address)
        actors = [self._converse(number) for number in range(self.plan.conversations)]
        actors += [*make_actors(self), self._stall()]
        await asyncio.gather(*actors, self._operate(), self._disturb())
        await self._recover()
        self.stopped |= {each.process.name for each in self.gateways if each.is_stopping}
        if self.servers:
            await asyncio.sleep(_SESSIONS_S)
        await self._wait_until_idle()
        self._check_idle()
        for gateway in self.running.values():
            await gateway.terminate()
        await asyncio.sleep(1.0)  # for what is in flight on the network
        self._check_ended()

    def _add_host(self, name: str, address: tuple[str, int]) -> None:
        rng = self.derive(name)
        self.hosts[name] = UpstreamHost(
            self.loop,
            self.history,
            rng,
            name,
            address,
            fault_rate=self.plan.fault_rate * rng.choice((0.3, 1.0, 1.0)),
            idle_s=self.config.providers[name].timeouts.idle_s,
            use_corpus=self._use_corpus,
            pauses_in_background=self.plan.pauses_in_background,
        )

    def _add_servers(self) -> None:
        for plan in self.plan.servers:
            rng = self.derive(f"MCP {plan.label}")
            host = McpHost(self.loop, self.history, rng, plan, self.config.mcp)
            self.servers[plan.label] = host
            if plan.operator_secret:
                self.history.mcp.secrets[plan.operator_secret] = plan.label

    async def _start_gateway(self, address: Address) -> None:
        name = f"gateway {len(self.gateways) + 1}"
        server = replace(self.config.server, port=address[1])
        config = replace(self.config, server=server)
        gateway = SimulatedGateway(
            name, self.loop, config, self.disk, self.history, self.derive(name)
        )
        self.gateways.append(gateway)
        self.running[address] = gateway
        await gateway.start()
        self.note(name, "accepts connections")

    # The operator and the environment

    async def _operate(self) -> None:
        if self.plan.operator == "none":
            return
        await asyncio.sleep(self.plan.operator_at_s)
        rng = self.derive("operator")
        gateway = await self.lifecycle.find_busy(self, rng)
        address = next(each for each, found in self.running.items() if found is gateway)
        self.note("operator", f"{self.plan.operator} {gateway.process.name}")
        self.history.count(f"gateway: {self.plan.operator}")
        if self.plan.operator == "kill":
            self.lifecycle.note_kill(self, gateway)
            await gateway.kill(is_alone=self.plan.processes == 1)
            await asyncio.sleep(rng.choice((0.0, 0.5, 20.0)))
            await self._start_gateway(address)
            return
        ending = asyncio.ensure_future(gateway.terminate())
        if rng.random() < 0.5:  # the next process starts while the last one finishes its streams
            await asyncio.sleep(0.1)
            await self._start_gateway(address)
            await ending
        else:
            await ending
            await self._start_gateway(address)

    async def _stall(self) -> None:
        """Let the disk of a process stand still until others take its runs over."""
        if self.plan.stall_at_s is not None:
            await asyncio.sleep(self.plan.stall_at_s)
            gateway = await self.lifecycle.find_busy(self, self.derive("stall"))
            self.note("environment", f"the disk of {gateway.process.name} stands still")
            self.history.count("disk stands still")
            stall_s = 3 * self.config.background.lease_s
            self.stalled_s[gateway.process.name] = stall_s
            gateway.stall(stall_s)

    async def _disturb(self) -> None:
        """Take a provider down for a while, let keys recover, fill the disk."""
        rng = self.derive("disturbances")
        for _ in range(4):
            await asyncio.sleep(rng.uniform(1.0, 12.0))
            host = rng.choice([*self.hosts.values()])
            host.is_down = True
            self.disk.is_full = self.plan.disk == "full"
            self.note("environment", f"{host.name} is down, disk full: {self.disk.is_full}")
            await asyncio.sleep(rng.uniform(0.5, 8.0))
            host.is_down = self.disk.is_full = False
            rng.choice([*self.hosts.values()]).dead_keys.clear()

    async def _recover(self) -> None:
        """Let everything heal and rest, then use every provider again."""
        for host in self.hosts.values():
            host.heal()
        for server in self.servers.values():
            server.heal()
        self.disk.fail_at.clear()
        await asyncio.sleep(_REST_S)
        rng = self.derive("probes")
        for name in self.hosts:
            request = {"model": f"safe-{name}", "stream": True}
            exchange = self.new_exchange("alice", request, draw_format(rng))
            exchange.is_probe = True
            await self.perform(exchange, READS, self.plan.addresses[0])
        await probe_servers(self)
        await audit_background(self)
        await audit_conversations(self)

    # Clients

    def new_exchange(
        self, tenant: str, request: dict[str, object], format: Format = "responses"
    ) -> Exchange:
        """Record a request that asks a question of its own, with these settings."""
        number = len(self.history.exchanges)
        exchange = Exchange(
            number=number,
            tenant=tenant,
            process="",
            request={},
            began=self.loop.time(),
            path=PATHS[format],
            agent=AGENTS[format][number % len(AGENTS[format])],
            question=number,
        )
        exchange.request = ask_once(format, write_question(exchange), request)
        self.history.exchanges.append(exchange)
        return exchange

    async def _converse(self, number: int) -> None:
        rng = self.derive(f"conversation {number}")
        tenant = rng.choice([*TENANTS])
        await asyncio.sleep(rng.uniform(0.0, 10.0))
        if (format := _THREAD_FORMATS[number % len(_THREAD_FORMATS)]) != "responses":
            await run_thread(self, rng, tenant, format)
            return
        previous: str | None = None
        for _ in range(self.plan.turns):
            exchange = self.new_exchange(tenant, draw_request(rng, previous))
            self._use_foreign_response(rng, exchange)
            behaviour, address = draw_behaviour(rng), rng.choice(self.plan.addresses)
            await self.perform(exchange, behaviour, address, eager=rng.random() < 0.5)
            response = exchange.response
            if response is not None and response["store"] and rng.random() < 0.8:
                previous = response["id"]
            if rng.random() < 0.6:
                await asyncio.sleep(rng.choice((0.0, 0.01, 1.0, 8.0)))

    def _use_foreign_response(self, rng: random.Random, exchange: Exchange) -> None:
        """Sometimes continue a response of another client, where the store must refuse it."""
        foreign = [
            each.stored["id"]
            for each in self.history.exchanges[-20:]
            if each.stored and each.tenant != exchange.tenant
        ]
        if DIVIDES_STORE and foreign and rng.random() < 0.1:
            exchange.knows_foreign = True
            exchange.request["previous_response_id"] = rng.choice(foreign)
            self.history.count("client continues a response of another")

    async def perform(
        self, exchange: Exchange, behaviour: Behaviour, address: Address, *, eager: bool = False
    ) -> None:
        """Send one request; return with its terminal event (`eager`) or at its end."""
        exchange.behaviour = behaviour.name
        if behaviour is not READS:
            self.history.count(f"client {behaviour.name}")
        connection = ClientConnection(self.loop, self.disk, exchange, behaviour)
        if not await connect_client(self.loop, address, connection, exchange):
            await asyncio.sleep(1.0)
            return
        connection.send(encode_request(exchange, KEYS[exchange.tenant]))
        await (connection.told if eager else connection.ended)
        what = exchange.request.get("model") or f"{exchange.method} {exchange.path}"
        self.note(exchange.tenant, f"{exchange.number}: {what} → {exchange.result}")

    # What is left

    async def _wait_until_idle(self) -> None:
        """Wait until each gateway has held nothing at some moment; note what one holds all the
        time. Looking for queued responses takes their places for a moment."""
        busy = [*self.running.values()]
        for _ in range(200):
            busy = [gateway for gateway in busy if gateway.find_held()]
            if not busy:
                return
            await asyncio.sleep(0.1)
        self.leaks += [held for gateway in busy for held in gateway.find_held()]

    def _check_idle(self) -> None:
        """Note what idle gateways still hold."""
        self.leaks += self.lifecycle.find_leaks(self)
        for label, server in self.servers.items():
            if server.open_connections:
                self.leaks.append(f"{label}: {server.open_connections} connections of no response")
        exchanges = self.history.exchanges
        for gateway in self.running.values():
            probed = {
                call.provider
                for call in self.history.calls
                if call.process == gateway.process.name and exchanges[call.exchange].is_probe
            }
            self._check_idle_gateway(gateway, probed)

    def _check_idle_gateway(self, gateway: SimulatedGateway, probed: set[str]) -> None:
        services = gateway.services
        if len(services.active):
            self.leaks.append(f"{len(services.active)} active runs")
        for name, health in services.health._health.items():
            busy = {key: count for key, count in health.keyring.active.items() if count}
            if busy:
                self.leaks.append(f"{name}: keys in use: {sorted(busy.values())}")
            if health.breaker.in_trial:
                self.leaks.append(f"{name}: the trial of the circuit breaker is not released")
            if name in probed and not health.breaker.is_closed:
                self.leaks.append(f"{name}: the circuit is open although the provider answers")

    def _check_ended(self) -> None:
        """Note what the processes have left behind."""
        for gateway in self.gateways:
            process = gateway.process
            if process.is_dead:
                continue
            found = [
                *(f"task {task.get_coro()!r}" for task in process.tasks),
                *(f"timer {timer}" for timer in self.loop.timers_of(process)),
                *("socket" for _ in process.open_transports()),
            ]
            self.leaks += [f"{process.name}: {each}" for each in found]
        for name, number in self._count_connections().items():
            if number:
                self.leaks.append(f"{name}: {number} open connections")
        self.leaks += [f"unhandled: {each}" for each in self.loop.unhandled]

    def _count_connections(self) -> dict[str, int]:
        """The open connections of each provider and MCP server."""
        counts = {name: host.open_connections for name, host in self.hosts.items()}
        return counts | {label: host.open_connections for label, host in self.servers.items()}

    def _dispose(self) -> None:
        """Cancel what a stuck world has left, and close the loop."""
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        if tasks:
            with suppress(StuckError):
                self.loop.run_until_complete(asyncio.wait(tasks, timeout=60.0))
        self.loop.close()

    def digest(self) -> str:
        """Return a hash of everything that was sent, received, logged and traced."""
        found = hashlib.sha256()
        for exchange in (*self.history.exchanges, *self.history.visits):
            found.update(b"%d %b" % (exchange.status, bytes(exchange.body)))
            found.update(repr((exchange.headers, exchange.outcome, exchange.ended)).encode())
        for call in self.history.calls:
            found.update(repr((call.provider, call.key, call.began, call.lost_at)).encode())
            found.update(call.body)
        for request in self.history.mcp.requests:
            found.update(repr(request).encode())
        for _, entry in self.history.log:
            found.update(msgspec.json.encode(entry))
        for gateway in self.gateways:
            for row in gateway.trace.rows:
                found.update(row.body)
        return found.hexdigest()


def draw_request(rng: random.Random, previous: str | None) -> dict[str, object]:
    name = rng.choice([*MODELS])
    model = f"safe-{name}" if rng.random() < 0.6 else f"{name}/{MODELS[name]}"
    request: dict[str, object] = {"model": model, "stream": rng.random() < 0.85}
    if rng.random() < 0.25:
        request["store"] = False
    if rng.random() < 0.3:
        request["tools"] = TOOLS
    if previous is not None and rng.random() < 0.7:
        request["previous_response_id"] = previous
    return request


@contextmanager
def _virtual_pool_clock(loop: VirtualLoop) -> Iterator[None]:
    """Show virtual time to the connection pool of the HTTP client, which reads the system clock."""
    pool = vars(aiohttp.connector)
    real = pool["monotonic"]
    pool["monotonic"] = loop.time
    try:
        yield
    finally:
        pool["monotonic"] = real


@contextmanager
def simulated(seed: int, *, use_corpus: bool = False) -> Iterator[World]:
    """Run the world of a seed; it can be read within the block."""
    directory = Path(tempfile.mkdtemp(prefix="antiphon-world-", dir=memory_directory()))
    try:
        world = World(make_plan(seed), directory, use_corpus=use_corpus)
        world.run()
        yield world
        world.disk.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
