"""Engine: from a parsed request to an inert run.

`create` resolves the model, loads the history and decides the plans. Everything that can be
rejected is rejected here; nothing is acquired before the run is entered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from msgspec import structs

from antiphon.core.faults.fault import shutdown_fault
from antiphon.core.history.content import NO_DESCRIPTIONS
from antiphon.core.history.read_items import has_only_messages
from antiphon.core.plan.plan import Plan
from antiphon.core.planning.make_plan import make_plan
from antiphon.engine.image_description import DescribeImages
from antiphon.engine.routing import Router, Target
from antiphon.engine.run import Run
from antiphon.engine.services import ActiveRuns, Caller, PreparedRequest, Services
from antiphon.errors import InvalidRequest
from antiphon.store.chain import build_history
from antiphon.store.item_references import resolve_references
from antiphon.wire.items import Document
from antiphon.wire.request import Request
from antiphon.wire.response_from_request import create_response

_LARGE_HISTORY = 300  # stored items; a longer history is planned in the worker thread


@dataclass
class Engine:
    """Creates runs. One per process."""

    router: Router
    services: Services
    describe_images: DescribeImages | None = None
    """Describes images for models that take none; None where no model is configured for it."""

    @property
    def active(self) -> ActiveRuns:
        return self.services.active

    async def create(self, request: Request, caller: Caller) -> Run:
        """Decide everything about a request and return its run, which has not begun."""
        services = self.services
        targets = self.router.targets(request.model)
        _reject_background(request)
        request, items = await self._load_history(request, caller)
        descriptions = NO_DESCRIPTIONS
        if self.describe_images is not None:
            descriptions = await self.describe_images([*items, *request.input], targets[0])
        decide = partial(self._make_plans, request, items, descriptions, targets)
        plans = await services.worker.run(decide) if request.is_large else decide()
        runtime = services.runtime
        response = create_response(
            request, response_id=runtime.new_id("resp"), created_at=runtime.now()
        )
        planned = tuple(target for target in targets if target.name in plans)
        return Run(services, PreparedRequest(request, caller, response, planned, plans))

    async def _load_history(
        self, request: Request, caller: Caller
    ) -> tuple[Request, Sequence[Document]]:
        """Resolve item references, and load the turns before `previous_response_id`."""
        store = self.services.store
        if not has_only_messages(request.input):
            request = await resolve_references(request, store, caller.client)
        if request.previous_response_id is None:
            return request, ()
        items = build_history(await store.chain(request.previous_response_id))
        if len(items) > _LARGE_HISTORY:
            request = structs.replace(request, is_large=True)
        return request, items

    def _make_plans(
        self,
        request: Request,
        items: Sequence[Document],
        descriptions: Mapping[str, str],
        targets: Sequence[Target],
    ) -> dict[tuple[str, str], Plan]:
        """Make a plan for each target, by the names of provider and model."""
        plans = {targets[0].name: self._plan(request, items, descriptions, targets[0])}
        for target in targets[1:]:
            with suppress(InvalidRequest):  # then this target is no fallback
                plans[target.name] = self._plan(request, items, descriptions, target)
        return plans

    def _plan(
        self,
        request: Request,
        items: Sequence[Document],
        descriptions: Mapping[str, str],
        target: Target,
    ) -> Plan:
        plan = make_plan(
            request,
            items,
            provider=target.provider.name,
            model=target.model,
            capabilities=target.capabilities,
            issuer=target.provider.issuer,
            unseal=self.services.sealer.open,
            descriptions=descriptions,
        )
        return structs.replace(plan, is_large=True) if request.is_large else plan

    def stop_all(self) -> None:
        """End every active run with a terminal event: the process is shutting down."""
        self.active.stop(shutdown_fault())

    async def close(self) -> None:
        services = self.services
        await services.http.close()
        await services.in_process.close()
        await services.store.close()
        services.tracer.close()
        services.worker.close()


def _reject_background(request: Request) -> None:
    if request.background:
        raise InvalidRequest(
            "`background` is not supported: leave it out, and use `stream` for a long answer.",
            param="background",
            code="unsupported_parameter",
        )
