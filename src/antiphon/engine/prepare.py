"""Preparer: from a parsed request to a prepared one.

It resolves the model, loads the history, has media read and makes the plans. Everything that can be
rejected is rejected here; nothing is acquired before the run is entered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from msgspec import structs

from antiphon.core.compaction.request_summary import TRIGGER, SummaryTask, request_summary
from antiphon.core.history.capsule import Unseal
from antiphon.core.history.content import NO_DESCRIPTIONS, NO_TEXTS
from antiphon.core.history.read_items import has_only_messages
from antiphon.core.history.text_files import is_pdf
from antiphon.core.items import Document
from antiphon.core.mcp.thread import inherit_tools
from antiphon.core.plan.hosted_tools import HostedToolPolicy
from antiphon.core.plan.plan import Plan
from antiphon.core.plan.plan_summary import needs_compaction
from antiphon.core.plan.planner import Modes, PlanInputs, Planner, TargetName
from antiphon.core.request import Request
from antiphon.core.response import Response
from antiphon.dialects.responses.create_response import create_response
from antiphon.engine.compaction import compact_context
from antiphon.engine.history import (
    NO_HISTORY,
    History,
    load_history,
    name_session,
    restore_call_states,
)
from antiphon.engine.media.image_description import DescribeImages
from antiphon.engine.media.pdf_text import ReadPDFs
from antiphon.engine.routing import Router, Target
from antiphon.engine.run import Admit, Run, admit_always
from antiphon.engine.services import Caller, Prepared, Services
from antiphon.store.chain import TurnSource
from antiphon.store.item_references import resolve_references


class Preparer:
    """Prepares the requests of one configuration."""

    def __init__(
        self,
        router: Router,
        services: Services,
        *,
        describe_images: DescribeImages | None = None,
        read_pdfs: ReadPDFs | None = None,
    ) -> None:
        """`describe_images` and `read_pdfs` are for models that take no images or no PDF files;
        None: such a model gets a note in their place."""
        self.router = router
        self._services = services
        self._describe_images = describe_images
        self._read_pdfs = read_pdfs

    @property
    def describes_images(self) -> bool:
        return self._describe_images is not None

    async def create_run(
        self, request: Request, caller: Caller, *, admit: Admit | None = None
    ) -> Run:
        """Prepare a request and return its run, which has not begun. `admit`: see `Run`."""
        return Run(self._services, await self.prepare(request, caller), admit=admit)

    async def prepare(
        self,
        request: Request,
        caller: Caller,
        turns: TurnSource | None = None,
        *,
        response_id: str | None = None,
        created_at: int | None = None,
    ) -> Prepared:
        """Decide everything about a request; raises `InvalidRequest` if it cannot be served.

        `turns` is where its history is loaded from, if not from the store. `response_id` and
        `created_at` are those of a response that was accepted before, if any."""
        targets = self.router.targets(request.model)
        clock = self._services.runtime.monotonic
        began = clock()
        request, history = await self.load_history(request, caller, turns)
        items = history.items
        load_ms = (clock() - began) * 1000 if items else None
        planned_request = request
        task: SummaryTask | None = None
        if request.input and request.input[-1].get("type") == TRIGGER:
            planned_request, task = request_summary(request, items)
            targets = self._summary_targets(targets)
        unseal = partial(self._services.sealer.open, caller.client)
        inputs = await self._gather_inputs(request, history, targets, caller, unseal, task)
        planner = Planner(planned_request, inputs)
        plan_all = partial(planner.plan_all, targets)
        planned = await self._services.worker.run(plan_all) if request.is_large else plan_all()
        first_plan = planned.first_plan
        continues_conversation = request.conversation is not None and bool(items)
        response = self._create_response(request, first_plan, response_id, created_at)
        cache_key = request.prompt_cache_key
        session = caller.session or request.conversation or (cache_key and name_session(cache_key))
        prepared = Prepared(
            request=request,
            caller=caller,
            response=response,
            targets=planned.served,
            planner=planner,
            first_plan=first_plan,
            unseal=unseal,
            skipped=planned.skipped,
            load_ms=load_ms,
            conversation_end=items[-1]["id"] if continues_conversation else None,
            session=session or history.session or (response.id if request.store else None),
        )
        if request.context_management and task is None:
            prepared = self._prepare_compaction(prepared)
        return prepared

    async def load_history(
        self, request: Request, caller: Caller, turns: TurnSource | None = None
    ) -> tuple[Request, History]:
        """Resolve item references, and load the turns that the request continues."""
        turns = turns or self._services.store
        if not has_only_messages(request.input):
            request = await resolve_references(request, turns, caller.client)
            services = self._services
            request = await restore_call_states(
                request, services.store, services.sealer, caller.client
            )
        if request.previous_response_id is None and request.conversation is None:
            return request, NO_HISTORY
        conversations = self._services.store.conversations
        history = await load_history(request, conversations, turns, caller.client)
        if request.inherits_tools:
            tools = inherit_tools(request.tools, history.tools)
            request = structs.replace(request, tools=tools)
        if history.is_large:
            request = structs.replace(request, is_large=True)
        return request, history

    def _summary_targets(self, targets: tuple[Target, ...]) -> tuple[Target, ...]:
        """The targets that write summaries: those of the request, or of `[compaction] model`."""
        model = self._services.compaction_model
        return self.router.targets(model) if model else targets

    def _create_response(
        self, request: Request, plan: Plan, response_id: str | None, created_at: int | None
    ) -> Response:
        runtime = self._services.runtime
        return create_response(
            request,
            response_id=response_id or runtime.new_id("resp"),
            created_at=runtime.now() if created_at is None else created_at,
            used=plan.used,
        )

    def _prepare_compaction(self, prepared: Prepared) -> Prepared:
        """Have the context compacted first, if it is longer than `context_management` allows."""
        request = prepared.request
        planner = prepared.planner
        items = [*planner.inputs.history, *request.input]
        capabilities = prepared.targets[0].capabilities
        if not needs_compaction(request, items, prepared.first_plan, capabilities):
            return prepared
        caller = structs.replace(prepared.caller, request_id=self._services.runtime.new_id("req"))
        create_run = partial(self.create_run, caller=caller, admit=admit_always)
        compact = partial(compact_context, planner, create_run, prepared.unseal)
        return structs.replace(prepared, compact=compact)

    # What the plans are made of

    async def _gather_inputs(
        self,
        request: Request,
        history: History,
        targets: Sequence[Target],
        caller: Caller,
        unseal: Unseal,
        task: SummaryTask | None,
    ) -> PlanInputs:
        services = self._services
        items = [*history.items, *request.input]
        describe = self._describe_images  # for a first target that takes no images
        return PlanInputs(
            history=history.items,
            is_cut=history.is_cut,
            unseal=unseal,
            descriptions=await describe(items, targets[0]) if describe else NO_DESCRIPTIONS,
            file_texts=await self._read_files(items, targets, caller.client),
            hosted_tools=HostedToolPolicy(
                services.compatibility.hosted_tools,
                caller.profile.optional_tools,
                services.mcp,
            ),
            rejected=self._rejected_modes(targets),
            task=task,
        )

    async def _read_files(
        self, items: Sequence[Document], targets: Sequence[Target], client: str
    ) -> Mapping[str, str]:
        """Have PDF files read, if a target takes none."""
        if self._read_pdfs is None:
            return NO_TEXTS
        contents = _pdf_contents(items)
        if not contents or all(map(_takes_pdfs, targets)):
            return NO_TEXTS
        return await self._read_pdfs(contents, client)

    def _rejected_modes(self, targets: Sequence[Target]) -> Mapping[TargetName, Modes]:
        modes = self._services.rejected_modes
        if not modes.known:
            return {}
        now = self._services.runtime.monotonic()
        return {target.name: modes.of(target.name, now) for target in targets}


def _pdf_contents(items: Iterable[Document]) -> list[str]:
    """The content (`file_data`) of all PDF files in these items, each once."""
    contents: dict[str, None] = {}
    for item in items:
        for parts in (item.get("content"), item.get("output")):
            for part in parts if isinstance(parts, list) else ():
                data = part.get("file_data") if isinstance(part, dict) else None
                if isinstance(data, str) and is_pdf(data):
                    contents[data] = None
    return list(contents)


def _takes_pdfs(target: Target) -> bool:
    capabilities = target.capabilities
    return "file" in capabilities.inputs and capabilities.media.accepts_file_url("", ".pdf")
