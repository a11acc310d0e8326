"""Event loop with virtual time and in-memory connections: one thread, no system calls, no waiting.

Time stands still while callbacks run and jumps to the next timer when none is ready. It moves on a
grid of 2⁻²⁰ s and deadlines are rounded up to it, so that no timer fires early by a rounding error.
Whatever a process of the simulation creates (tasks, timers, connections) belongs to it, because
`PROCESS` is part of the context in which everything runs.
"""

from __future__ import annotations

import asyncio
import math
import os
import socket
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar

from tests.simulation.memory_transport import MemorySocket, MemoryTransport, connect_pair

T = TypeVar("T")
Address = tuple[str, int]
GRID = float(2**20)
EPOCH = 1_800_000_000
"""Unix time at virtual time 0."""


class StuckError(Exception):
    """Nothing is scheduled any more, or the world does not come to its end."""


class Process:
    """One simulated operating system process: its tasks and connections."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.transports: list[MemoryTransport] = []
        self.listeners: list[MemoryServer] = []
        self.is_dead = False

    def open_transports(self) -> list[MemoryTransport]:
        return [each for each in self.transports if not each.is_lost]

    def kill(self) -> None:
        """End it as SIGKILL does: the peers see resets, and nothing of it acts any more.

        Its tasks are cancelled with every connection cut, so that no clean-up reaches anybody."""
        self.is_dead = True
        for listener in self.listeners:
            listener.close()
        for transport in self.open_transports():
            transport.sever()
        for task in [*self.tasks]:
            task.cancel()


PROCESS: ContextVar[Process | None] = ContextVar("PROCESS", default=None)


class Host:
    """Something that can be connected to."""

    def accept_delay(self) -> float | None:
        """Return after how many seconds a connection is accepted; None is never.

        Raises `OSError` if it is refused."""
        return 0.0

    def make_protocol(self) -> asyncio.BaseProtocol:
        raise NotImplementedError

    def context(self) -> Context:
        """Return the context in which its protocols run."""
        return copy_context()

    def latency(self) -> float | None:
        """Return the latency of a connection to it; None: that of the network."""
        return None


class MemoryServer(Host):
    """A listening port of a process."""

    def __init__(
        self, loop: VirtualLoop, address: Address, factory: Callable[[], asyncio.BaseProtocol]
    ) -> None:
        self._loop = loop
        self._address = address
        self._factory = factory
        self._context = copy_context()
        self.sockets: tuple[socket.socket, ...] = ()
        if (process := PROCESS.get()) is not None:
            process.listeners.append(self)

    def make_protocol(self) -> asyncio.BaseProtocol:
        return self._factory()

    def context(self) -> Context:
        return self._context.copy()

    def close(self) -> None:
        if self._loop.hosts.get(self._address) is self:
            del self._loop.hosts[self._address]

    async def wait_closed(self) -> None:
        return


class VirtualLoop(asyncio.BaseEventLoop):
    def __init__(self, limit_s: float) -> None:
        """`limit_s` is the virtual time at which a world is taken for stuck."""
        super().__init__()
        self.hosts: dict[Address, Host] = {}
        self.latency: Callable[[], float] = lambda: 0.0
        """Draws the latency of a new connection."""
        self.executor_delay: Callable[[], float] = lambda: 0.0
        """Draws how long a call in a thread takes."""
        self.unhandled: list[str] = []
        self._limit_s = limit_s
        self._time = 0.0
        self._ports = 40_000
        self._connecting: dict[socket.socket, Address] = {}
        self._silent = os.pipe()
        """Nothing is ever written to it: its reading end stands for a connection without data."""
        self._selector = self
        self._scheduled: list[asyncio.TimerHandle]  # set by the base class
        self.set_task_factory(_make_task)
        self.set_exception_handler(lambda _, context: self.unhandled.append(_explain(context)))

    # Time

    def time(self) -> float:
        return self._time

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        rounded = math.ceil(when * GRID) / GRID
        return super().call_at(rounded, callback, *args, context=context)

    def select(self, timeout: float | None) -> list[Any]:
        """Advance the time to the next timer, in place of waiting for sockets."""
        if timeout is None:
            raise StuckError("nothing is scheduled, and something is still awaited")
        if timeout > 0:
            self._time = self._scheduled[0].when()
            if self._time > self._limit_s:
                raise StuckError(f"not finished after {self._limit_s:.0f} virtual seconds")
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        return

    def _write_to_self(self) -> None:
        return

    def timers_of(self, process: Process) -> list[str]:
        """Describe the pending timers of a process."""
        pending: list[Any] = [handle for handle in self._scheduled if not handle.cancelled()]
        return [
            repr(handle._callback) for handle in pending if handle._context.get(PROCESS) is process
        ]

    def close(self) -> None:
        if not self.is_closed():
            for descriptor in self._silent:
                os.close(descriptor)
        super().close()

    # Threads

    def run_in_executor(  # type: ignore[override]
        self, executor: object, function: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Run a function of another thread on this one, a moment later."""
        future: asyncio.Future[T] = self.create_future()

        def run() -> None:
            if future.done():
                return
            try:
                future.set_result(function(*args))
            except Exception as error:
                future.set_exception(error)

        self.call_later(self.executor_delay(), run)
        return future

    # Connections

    async def create_server(  # type: ignore[override]
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        **options: Any,
    ) -> MemoryServer:
        if (host, port) in self.hosts:
            raise OSError(98, "address already in use")
        server = MemoryServer(self, (host, port), factory)
        self.hosts[host, port] = server
        return server

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        await self._reach(address[:2])
        self._connecting[sock] = address[:2]

    async def create_connection(  # type: ignore[override]
        self,
        factory: Callable[[], asyncio.BaseProtocol],
        host: str = "",
        port: int = 0,
        *,
        sock: socket.socket | None = None,
        **options: Any,
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        """Connect to an address, or use a socket that has been connected."""
        protocol = factory()
        if sock is None:
            address = (host, port)
            await self._reach(address)
            transport = self._connect(protocol, address)
            transport.socket = MemorySocket(transport, self._silent[0])
            return transport, protocol
        address = self._connecting.pop(sock)
        sock.close()
        return self._connect(protocol, address), protocol

    async def connect(self, address: Address, protocol: asyncio.Protocol) -> MemoryTransport:
        """Connect an actor of the world."""
        await self._reach(address)
        return self._connect(protocol, address)

    async def _reach(self, address: Address) -> None:
        host = self.hosts.get(address)
        if host is None:
            raise ConnectionRefusedError(111, "connection refused")
        delay_s = host.accept_delay()
        if delay_s is None:
            await self.create_future()
        else:
            await asyncio.sleep(delay_s)

    def _connect(self, protocol: asyncio.BaseProtocol, address: Address) -> MemoryTransport:
        host = self.hosts.get(address)
        if host is None:
            raise ConnectionRefusedError(111, "connection refused")
        self._ports += 1
        near = ("127.0.0.1", self._ports)
        context = host.context()
        there = context.run(host.make_protocol)
        latency_s = host.latency()
        ours, theirs = connect_pair(
            self,
            (protocol, copy_context(), near),
            (there, context, address),
            self.latency() if latency_s is None else latency_s,
        )
        for transport, process in ((ours, PROCESS.get()), (theirs, context.get(PROCESS))):
            if process is not None:
                process.transports.append(transport)
                transport.process_name = process.name
        return ours


def _make_task(
    loop: asyncio.AbstractEventLoop,
    coroutine: Coroutine[Any, Any, T] | Generator[Any, None, T],
    context: Context | None = None,
) -> asyncio.Task[T]:
    """Make a task and register it with its process."""
    task: asyncio.Task[T] = asyncio.Task(coroutine, loop=loop, context=context)
    process = PROCESS.get() if context is None else context.get(PROCESS)
    if process is not None:
        process.tasks[task] = None
        task.add_done_callback(process.tasks.pop)
    return task


def _explain(context: dict[str, Any]) -> str:
    error = context.get("exception")
    return f"{context['message']}: {error!r}" if error is not None else str(context["message"])
