"""From a parsed request to an exchange: resolve the model, load the chain, decide the plan."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from antiphon.core.capsule import Sealer
from antiphon.core.faults import shutdown_fault
from antiphon.core.machine import ResponseMachine
from antiphon.core.plan import Plan
from antiphon.core.planning import make_plan
from antiphon.engine.exchange import Exchange, Parts
from antiphon.engine.journey import Journey
from antiphon.engine.rim import Rim
from antiphon.engine.routing import Router, Target
from antiphon.engine.tracing import Tracer
from antiphon.engine.upstream import Upstream
from antiphon.errors import AntiphonError, InvalidRequest
from antiphon.pipeline.bridge import Bridge
from antiphon.pipeline.log import Entry
from antiphon.store.chain import history
from antiphon.store.store import Store, Turn
from antiphon.wire.echo import opened
from antiphon.wire.request import Request
from antiphon.wire.response import Response


@dataclass(frozen=True)
class Caller:
    """Who asks: the name of a client's key, and the id of this request of theirs."""

    client: str
    request_id: str


@dataclass
class Engine:
    """Long-lived wiring. One per process."""

    router: Router
    http: Upstream
    in_process: Upstream
    store: Store
    tracer: Tracer
    emit: Callable[[Entry], None]
    sealer: Sealer
    rim: Rim = field(default_factory=Rim)
    active: set[Exchange] = field(default_factory=set)
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while no exchange is under way."""

    def __post_init__(self) -> None:
        self.idle.set()

    async def prepare(self, request: Request, caller: Caller) -> Exchange:
        """Everything that can be refused is refused here, before a provider is asked."""
        target = self.router.resolve(request.model)
        _refuse_background(request)
        turns = await self._turns(request)
        plan = make_plan(
            request,
            history(turns),
            provider=target.provider.name,
            model=target.model,
            capabilities=target.provider.capabilities(target.model),
            issuer=target.provider.spec.name,
            unseal=self.sealer.open,
        )
        response = opened(request, response_id=self.rim.new_id("resp"), created_at=self.rim.now())
        exchange = self._exchange(request, target, plan, response, caller)
        self.active.add(exchange)
        self.idle.clear()
        return exchange

    async def _turns(self, request: Request) -> list[Turn]:
        if request.previous_response_id is None:
            return []
        return await self.store.chain(request.previous_response_id)

    def _exchange(
        self, request: Request, target: Target, plan: Plan, response: Response, caller: Caller
    ) -> Exchange:
        began = self.rim.monotonic()
        facts = _facts(request, plan, response, caller)
        trace = self.tracer.begin(
            facts, plan.diagnostics, lambda: (self.rim.monotonic() - began) * 1000
        )
        journey = Journey(self.emit, facts, plan, trace, store=request.store)

        async def save(finished: Response) -> bool:
            return await self._save(request, plan, finished, facts)

        def finished(exchange: Exchange) -> None:
            self.active.discard(exchange)
            if not self.active:
                self.idle.set()
            journey.finish()

        return Exchange(
            Parts(
                provider=target.provider,
                upstream=self.in_process if target.provider.spec.in_process else self.http,
                plan=plan,
                bridge=Bridge(self._machine(response, plan, target), target.provider.dialect),
                journey=journey,
                save=save,
                finished=finished,
                clock=self.rim.monotonic,
            )
        )

    def _machine(self, response: Response, plan: Plan, target: Target) -> ResponseMachine:
        return ResponseMachine(
            response,
            new_id=self.rim.new_id,
            now=self.rim.now,
            tools=plan.identities,
            seal=partial(self.sealer.seal, target.provider.spec.name, target.model),
            empty_arguments="{}",
        )

    async def _save(
        self, request: Request, plan: Plan, response: Response, facts: Mapping[str, Any]
    ) -> bool:
        """Whether the turn was kept. An answer that is good stays good without its memory."""
        document: dict[str, Any] = msgspec.to_builtins(response)
        turn = Turn(
            id=response.id,
            previous_response_id=request.previous_response_id,
            created_at=response.created_at,
            status=response.status,
            model=response.model,
            provider=plan.provider,
            input=request.input,
            output=tuple(document["output"]),
            response=document,
        )
        try:
            await self.store.save(turn)
        except AntiphonError as error:
            self.emit(Entry("store.save_failed", "error", {**facts, "reason": error.message}))
            return False
        return True

    def stop_all(self) -> None:
        """The process is going down: every answer still running ends with a terminal event."""
        for exchange in tuple(self.active):
            exchange.stop(shutdown_fault())

    async def close(self) -> None:
        await self.http.close()
        await self.in_process.close()
        await self.store.close()
        self.tracer.close()


def _facts(request: Request, plan: Plan, response: Response, caller: Caller) -> dict[str, Any]:
    """What may be told of a request: names and numbers, never what was said."""
    return {
        "request_id": caller.request_id,
        "response_id": response.id,
        "client": caller.client,
        "model": request.model,
        "provider": plan.provider,
        "provider_model": plan.model,
        "stream": request.stream,
    }


def _refuse_background(request: Request) -> None:
    if request.background:
        raise InvalidRequest(
            "Background runs are not served here; leave out `background` and stream instead.",
            param="background",
            code="unsupported_parameter",
        )
