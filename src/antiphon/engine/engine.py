"""Engine: from a parsed request to an inert run.

`create` resolves the model, loads the history and decides the plans. Everything that can be
rejected is rejected here; nothing is acquired before the run is entered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from antiphon.core.faults.fault import shutdown_fault
from antiphon.core.history.capsule import Unseal
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
        unseal = partial(services.sealer.open, caller.client)
        plan = partial(_plan, request, items, descriptions, unseal)
        plans = {targets[0].name: plan(targets[0])}
        for target in targets[1:]:
            with suppress(InvalidRequest):  # then this target is no fallback
                plans[target.name] = plan(target)
        runtime = services.runtime
        response = create_response(
            request, response_id=runtime.new_id("resp"), created_at=runtime.now()
        )
        planned = tuple(target for target in targets if target.name in plans)
        return Run(services, PreparedRequest(request, caller, response, planned, plans, unseal))

    async def _load_history(
        self, request: Request, caller: Caller
    ) -> tuple[Request, Sequence[Document]]:
        """Resolve item references, and load the turns before `previous_response_id`."""
        store = self.services.store
        if not has_only_messages(request.input):
            request = await resolve_references(request, store, caller.client)
        if request.previous_response_id is None:
            return request, ()
        turns = await store.chain(request.previous_response_id, client=caller.client)
        return request, build_history(turns)

    def stop_all(self) -> None:
        """End every active run with a terminal event: the process is shutting down."""
        self.active.stop(shutdown_fault())

    async def close(self) -> None:
        services = self.services
        await services.http.close()
        await services.in_process.close()
        await services.store.close()
        services.tracer.close()


def _plan(
    request: Request,
    items: Sequence[Document],
    descriptions: Mapping[str, str],
    unseal: Unseal,
    target: Target,
) -> Plan:
    return make_plan(
        request,
        items,
        provider=target.provider.name,
        model=target.model,
        capabilities=target.capabilities,
        issuer=target.provider.issuer,
        unseal=unseal,
        descriptions=descriptions,
    )


def _reject_background(request: Request) -> None:
    if request.background:
        raise InvalidRequest(
            "`background` is not supported: leave it out, and use `stream` for a long answer.",
            param="background",
            code="unsupported_parameter",
        )
