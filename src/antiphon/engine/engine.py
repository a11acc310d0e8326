"""From a parsed request to an exchange: resolve the model, load the chain, decide the plan."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from antiphon.config import AttemptConfig
from antiphon.core.client_profile import OTHER, Profile
from antiphon.core.faults.fault import shutdown_fault
from antiphon.core.filters.order import make_filters
from antiphon.core.history.capsule import Sealer
from antiphon.core.plan.plan import Plan
from antiphon.core.planning.make_plan import make_plan
from antiphon.core.stream.machine import ResponseMachine
from antiphon.engine.attempts import Attempts
from antiphon.engine.breaker import Breaker
from antiphon.engine.course import Course, Health
from antiphon.engine.exchange import Exchange, Parts
from antiphon.engine.image_description import Look, see_nothing
from antiphon.engine.journey import Journey
from antiphon.engine.keyring import Keyring
from antiphon.engine.rejected_parameters import RejectedParameters
from antiphon.engine.routing import Router, Target
from antiphon.engine.runtime import Runtime
from antiphon.engine.searches import Search, find_nothing
from antiphon.engine.tracing import Tracer
from antiphon.engine.upstream import Upstream
from antiphon.errors import AntiphonError, InvalidRequest
from antiphon.pipeline.bridge import Bridge
from antiphon.pipeline.log import Entry
from antiphon.providers.registry import Provider
from antiphon.store.chain import history
from antiphon.store.item_references import resolved
from antiphon.store.store import Document, Store, Turn
from antiphon.wire.request import Request
from antiphon.wire.response import Response
from antiphon.wire.response_from_request import opened


@dataclass(frozen=True)
class Caller:
    """Who asks: the name of a client's key, and the id of this request of theirs."""

    client: str
    request_id: str
    profile: Profile = OTHER


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
    search: Search = find_nothing
    look: Look = see_nothing
    policy: AttemptConfig = field(default_factory=AttemptConfig)
    lessons: RejectedParameters = field(default_factory=RejectedParameters)
    rim: Runtime = field(default_factory=Runtime)
    active: set[Exchange] = field(default_factory=set)
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while no exchange is under way."""

    _health: dict[str, Health] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.idle.set()

    async def prepare(self, request: Request, caller: Caller) -> Exchange:
        """Everything that can be refused is refused here, before a provider is asked."""
        targets = self.router.targets(request.model)
        _refuse_background(request)
        request = await resolved(request, self.store, caller.client)
        items = history(await self._turns(request))
        seen = await self.look([*items, *request.input], targets[0])
        plans = {targets[0].name: self._plan(request, items, seen, targets[0])}
        for target in targets[1:]:
            with contextlib.suppress(InvalidRequest):  # then this one is no fallback
                plans[target.name] = self._plan(request, items, seen, target)
        response = opened(request, response_id=self.rim.new_id("resp"), created_at=self.rim.now())
        attempts = Attempts(
            course=self._course([target for target in targets if target.name in plans]),
            lessons=self.lessons,
            plans=plans,
            bridge=partial(self._bridge, response, caller.profile),
            upstream=self._upstream,
            unseal=self.sealer.open,
            stream=request.stream,
        )
        exchange = self._exchange(request, response, caller, attempts)
        self.active.add(exchange)
        self.idle.clear()
        return exchange

    async def _turns(self, request: Request) -> list[Turn]:
        if request.previous_response_id is None:
            return []
        return await self.store.chain(request.previous_response_id)

    def _plan(
        self, request: Request, items: Sequence[Document], seen: Mapping[str, str], target: Target
    ) -> Plan:
        return make_plan(
            request,
            items,
            provider=target.provider.name,
            model=target.model,
            capabilities=target.capabilities,
            issuer=target.provider.issuer,
            unseal=self.sealer.open,
            descriptions=seen,
        )

    def _course(self, targets: Sequence[Target]) -> Course:
        clock = self.rim.monotonic
        return Course(targets, self._health_of, self.policy, clock, self.rim.random)

    def _health_of(self, provider: Provider) -> Health:
        """What is known of a provider, kept from its first request on."""
        known = self._health.get(provider.name)
        if known is None:
            clock, policy = self.rim.monotonic, self.policy
            breaker = Breaker(
                clock, threshold=policy.breaker_threshold, rest_s=policy.breaker_rest_s
            )
            known = Health(Keyring(provider.api_keys, clock), breaker)
            self._health[provider.name] = known
        return known

    def _exchange(
        self, request: Request, response: Response, caller: Caller, attempts: Attempts
    ) -> Exchange:
        began = self.rim.monotonic()
        plan = next(iter(attempts.plans.values()))
        facts = _facts(request, plan, response, caller)
        trace = self.tracer.begin(facts, lambda: (self.rim.monotonic() - began) * 1000)
        if self.tracer.keeps_payloads:
            trace.request.feed(msgspec.json.encode(request.raw))
        journey = Journey(
            self.emit, facts, plan, trace, profile=caller.profile, store=request.store
        )

        async def save(finished: Response) -> bool:
            return await self._save(request, finished, facts)

        def finished(exchange: Exchange) -> None:
            self.active.discard(exchange)
            if not self.active:
                self.idle.set()
            journey.finish()

        return Exchange(
            Parts(
                attempts=attempts,
                journey=journey,
                save=save,
                finished=finished,
                rim=self.rim,
                search=self.search,
            )
        )

    def _upstream(self, provider: Provider) -> Upstream:
        return self.in_process if provider.spec.in_process else self.http

    def _bridge(
        self,
        response: Response,
        profile: Profile,
        plan: Plan,
        target: Target,
        begun: Bridge | None,
    ) -> Bridge:
        """What reads the answer of this target: `begun`, if it is to go on with an answer."""
        seal = partial(self.sealer.seal, target.provider.issuer, target.model)
        guards = target.capabilities.guards
        if begun is not None:
            begun.use_dialect(target.provider.dialect, guards, seal)
            return begun
        reasoning = {**(response.reasoning or {}), "effort": plan.effective_effort}
        machine = ResponseMachine(
            msgspec.structs.replace(response, reasoning=reasoning),
            new_id=self.rim.new_id,
            now=self.rim.now,
            tools=plan.identities,
            seal=seal,
            empty_arguments="{}",
        )
        reminders = self.policy.reminders
        filters = make_filters(plan, profile, self.rim.new_id, reminders=reminders)
        return Bridge(machine, target.provider.dialect, filters, guards=guards)

    async def _save(self, request: Request, response: Response, facts: Mapping[str, Any]) -> bool:
        """Whether the turn was kept. An answer that is good stays good without its memory."""
        document: dict[str, Any] = msgspec.to_builtins(response)
        turn = Turn(
            id=response.id,
            previous_response_id=request.previous_response_id,
            created_at=response.created_at,
            status=response.status,
            model=response.model,
            provider=facts["provider"],
            client=facts["client"],
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
