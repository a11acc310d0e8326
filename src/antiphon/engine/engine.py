"""Engine: from a parsed request to an inert run.

`create` resolves the model, loads the history and decides the plans. Everything that can be
rejected is rejected here; nothing is acquired before the run is entered.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias

from msgspec import structs

from antiphon.config import Config
from antiphon.core.compaction.request_summary import (
    TRIGGER,
    SummaryTask,
    request_summary,
    with_trigger,
)
from antiphon.core.faults.fault import shutdown_fault
from antiphon.core.history.capsule import Unseal
from antiphon.core.history.content import NO_DESCRIPTIONS, NO_TEXTS
from antiphon.core.history.known_calls import reject_unknown_calls
from antiphon.core.history.read_items import has_only_messages
from antiphon.core.history.text_files import is_pdf
from antiphon.core.plan.plan import Plan
from antiphon.core.planning.hosted_tools import HostedToolPolicy
from antiphon.core.planning.make_plan import make_plan
from antiphon.core.planning.plan_summary import needs_compaction, plan_summary
from antiphon.engine.compaction.context import ContextCompaction
from antiphon.engine.media.image_description import DescribeImages
from antiphon.engine.media.pdf_text import ReadPDFs
from antiphon.engine.routing import Router, Target
from antiphon.engine.run import Run
from antiphon.engine.services import ActiveRuns, Caller, PreparedRequest, Services
from antiphon.errors import InvalidRequest
from antiphon.store.chain import TurnSource, build_history, without_truncated_calls
from antiphon.store.conversation import conversation_not_found, load_items_before
from antiphon.store.item_references import resolve_references
from antiphon.wire.items import Document
from antiphon.wire.request import Request
from antiphon.wire.response_from_request import create_response

_LARGE_HISTORY = 300  # stored items; a longer history is planned in the worker thread


Discover: TypeAlias = Callable[[], list[str]]


class PlanInputs(NamedTuple):
    """What a plan is made of besides the request and the target."""

    history: Sequence[Document]
    descriptions: Mapping[str, str]
    file_texts: Mapping[str, str]
    hosted_tools: HostedToolPolicy
    unseal: Unseal
    rejected: Mapping[tuple[str, str], frozenset[str]]
    """Output formats and tool choices that a target is known to reject."""
    task: SummaryTask | None = None
    """The request asks for a summary of its history."""


@dataclass
class Engine:
    """Creates runs. One per configuration: a request uses the one that it began with."""

    router: Router
    services: Services
    describe_images: DescribeImages | None = None
    """Describes images for models that take none; None where no model is configured for it."""
    read_pdfs: ReadPDFs | None = None
    """Reads PDF files for models that take none; None where no PDF reader is installed."""
    discovered: Discover | None = None
    """Returns the names of discovered models, and refreshes them; None where that is switched
    off."""
    reconfigure: Callable[[Config], Engine] | None = None
    """Makes the engine of another configuration, beside this one; raises `ConfigError`. None where
    the configuration cannot change."""
    before_reload: Callable[[Config], Awaitable[None]] | None = None
    """Reads from the store what the engine of another configuration must know."""

    @property
    def active(self) -> ActiveRuns:
        return self.services.active

    async def create(
        self,
        request: Request,
        caller: Caller,
        *,
        response_id: str | None = None,
        created_at: int | None = None,
    ) -> Run:
        """Decide everything about a request and return its run, which has not begun.

        `response_id` and `created_at` are those of a response that was accepted before, if any."""
        prepared = await self.prepare(request, caller)
        if response_id is not None:
            began = prepared.response.created_at if created_at is None else created_at
            response = structs.replace(prepared.response, id=response_id, created_at=began)
            prepared = structs.replace(prepared, response=response)
        return Run(self.services, prepared)

    async def prepare(
        self, request: Request, caller: Caller, turns: TurnSource | None = None
    ) -> PreparedRequest:
        """Decide everything about a request; raises `InvalidRequest` if it cannot be served.

        `turns` is where its history is loaded from, if not from the store."""
        services = self.services
        targets = self.router.targets(request.model)
        began = services.runtime.monotonic()
        request, items = await self._load_history(request, caller, turns)
        load_ms = (services.runtime.monotonic() - began) * 1000 if items else None
        asked, task = request, None
        if request.input and request.input[-1].get("type") == TRIGGER:
            asked, task = request_summary(request, items)
            targets = self._summary_targets(targets)
        inputs = await self._gather_inputs(request, items, targets, caller, task)
        decide = partial(_make_plans, asked, inputs, targets)
        plans, skipped = await services.worker.run(decide) if request.is_large else decide()
        runtime = services.runtime
        response = create_response(
            request,
            response_id=runtime.new_id("resp"),
            created_at=runtime.now(),
            used=plans[targets[0].name].used,
        )
        planned = tuple(target for target in targets if target.name in plans)
        replan = partial(_plan, asked, inputs)
        made = request, caller, response, planned, plans, inputs.unseal, replan
        end = items[-1]["id"] if request.conversation is not None and items else None
        prepared = PreparedRequest(*made, skipped=skipped, load_ms=load_ms, conversation_end=end)
        if request.context_management and task is None:
            prepared = self._prepare_compaction(prepared, inputs)
        return prepared

    async def create_compaction(
        self, request: Request, caller: Caller
    ) -> tuple[Run, Sequence[Document]]:
        """Return the run that compacts the history of a request, and the items of this history."""
        request, items = await self._load_history(request, caller, None)
        summary = with_trigger(request, items)
        return await self.create(summary, caller), summary.input[:-1]

    async def _gather_inputs(
        self,
        request: Request,
        items: Sequence[Document],
        targets: Sequence[Target],
        caller: Caller,
        task: SummaryTask | None,
    ) -> PlanInputs:
        media = await self._read_media([*items, *request.input], targets)
        unseal = partial(self.services.sealer.open, caller.client)
        rejected = self._rejected_modes(targets)
        return PlanInputs(items, *media, self._tool_policy(caller), unseal, rejected, task)

    def _summary_targets(self, targets: list[Target]) -> list[Target]:
        """The targets that write summaries: those of the request, or of `[compaction] model`."""
        model = self.services.compaction_model
        return self.router.targets(model) if model else targets

    def _prepare_compaction(self, prepared: PreparedRequest, inputs: PlanInputs) -> PreparedRequest:
        """Have the context compacted first, if it is longer than `context_management` allows."""
        first, items = prepared.targets[0], [*inputs.history, *prepared.request.input]
        plan = prepared.plans[first.name]
        if not needs_compaction(prepared.request, items, plan, first.capabilities):
            return prepared
        caller = structs.replace(prepared.caller, request_id=self.services.runtime.new_id("req"))
        compaction = ContextCompaction(
            request=prepared.request,
            history=inputs.history,
            targets=prepared.targets,
            plans=prepared.plans,
            make_plan=lambda request, target, rejected: _plan(request, inputs, target, rejected),
            create_run=lambda request: self.create(request, caller),
            unseal=inputs.unseal,
        )
        return structs.replace(prepared, replan=compaction.replan, compact=compaction.compact)

    async def _load_history(
        self, request: Request, caller: Caller, turns: TurnSource | None
    ) -> tuple[Request, Sequence[Document]]:
        """Resolve item references, and load the turns before `previous_response_id`."""
        turns = turns or self.services.store
        if not has_only_messages(request.input):
            request = await resolve_references(request, turns, caller.client)
        if request.previous_response_id is None and request.conversation is None:
            return request, ()
        items = await self._load_stored_items(request, caller.client, turns)
        if len(items) > _LARGE_HISTORY:
            request = structs.replace(request, is_large=True)
        return request, items

    async def _load_stored_items(
        self, request: Request, client: str, turns: TurnSource
    ) -> list[Document]:
        """Load what the request continues: a chain of responses, or a conversation."""
        if request.conversation is not None:
            conversations = self.services.store.conversations
            page = await conversations.list_items(request.conversation, client=client)
            if page is None:
                raise conversation_not_found(request.conversation)
            reject_unknown_calls(page.items, request.input)
            return without_truncated_calls(page.items)
        assert request.previous_response_id is not None
        chain = await turns.chain(request.previous_response_id, client=client)
        before = await load_items_before(self.services.store.conversations, chain[0], client=client)
        stored = (item for turn in chain for item in (*turn.input, *turn.output))
        reject_unknown_calls((*before, *stored), request.input)
        return [*without_truncated_calls(before), *build_history(chain)]

    async def _read_media(
        self, items: Sequence[Document], targets: Sequence[Target]
    ) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Have images described and PDF files read, for models that take none."""
        descriptions, file_texts = NO_DESCRIPTIONS, NO_TEXTS
        if self.describe_images is not None:
            descriptions = await self.describe_images(items, targets[0])
        contents = _pdf_contents(items) if self.read_pdfs is not None else []
        if self.read_pdfs is not None and contents and not all(map(_takes_pdfs, targets)):
            file_texts = await self.read_pdfs(contents)
        return descriptions, file_texts

    def _tool_policy(self, caller: Caller) -> HostedToolPolicy:
        unavailable = self.services.compatibility.hosted_tools
        return HostedToolPolicy(unavailable, caller.profile.optional_tools)

    def _rejected_modes(
        self, targets: Sequence[Target]
    ) -> Mapping[tuple[str, str], frozenset[str]]:
        modes = self.services.rejected_modes
        if not modes.known:
            return {}
        now = self.services.runtime.monotonic()
        return {target.name: modes.of(target.name, now) for target in targets}

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


def _pdf_contents(items: Iterable[Document]) -> list[str]:
    """The content (`file_data`) of all PDF files in these items, each once."""
    contents = (
        part["file_data"]
        for item in items
        for field in ("content", "output")
        if isinstance(parts := item.get(field), list)
        for part in parts
        if isinstance(part, Mapping) and isinstance(part.get("file_data"), str)
    )
    return [*dict.fromkeys(filter(is_pdf, contents))]


def _takes_pdfs(target: Target) -> bool:
    capabilities = target.capabilities
    return "file" in capabilities.inputs and capabilities.media.accepts_file_url("", ".pdf")


def _make_plans(
    request: Request, inputs: PlanInputs, targets: Sequence[Target]
) -> tuple[dict[tuple[str, str], Plan], list[tuple[Target, str]]]:
    """Make a plan for each target; the second list has fallbacks that cannot serve the request."""
    rejected, first = inputs.rejected, targets[0]
    plans = {first.name: _plan(request, inputs, first, rejected.get(first.name))}
    skipped: list[tuple[Target, str]] = []
    for target in targets[1:]:
        try:
            modes = rejected.get(target.name)
            plans[target.name] = _plan(request, inputs, target, modes)
        except InvalidRequest as error:
            reason = f"it cannot serve this request: {error.param} ({error.wire_code})"
            skipped.append((target, reason))
    return plans, skipped


def _plan(
    request: Request, inputs: PlanInputs, target: Target, rejected: frozenset[str] | None = None
) -> Plan:
    """Make the plan for a target, without the output formats and tool choices that it rejects."""
    capabilities = target.capabilities
    plan = make_plan(
        request,
        inputs.history,
        provider=target.provider.name,
        model=target.model,
        capabilities=capabilities.without(rejected) if rejected else capabilities,
        issuer=target.provider.issuer,
        unseal=inputs.unseal,
        descriptions=inputs.descriptions,
        file_texts=inputs.file_texts,
        hosted_tools=inputs.hosted_tools,
    )
    if inputs.task is not None:
        plan = plan_summary(plan, inputs.task)
    return structs.replace(plan, is_large=True) if request.is_large else plan
