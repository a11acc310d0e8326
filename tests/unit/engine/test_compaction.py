"""Compaction before an answer: the answer continues from it, or from the whole history."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec import structs

from antiphon.config import ClientLimitConfig, CompactionConfig, Config, LimitConfig
from antiphon.core.diagnostic import Diagnostic
from antiphon.core.events import Event
from antiphon.core.history.capsule import Unopened
from antiphon.core.plan.planner import PlanInputs, Planner
from antiphon.core.request import Request
from antiphon.core.response import Response
from antiphon.dialects.responses.parse import parse_request
from antiphon.engine.compaction import check_compaction_model, compact_context
from antiphon.engine.routing import make_router
from antiphon.engine.run import Run
from antiphon.engine.services import Caller
from antiphon.errors import ConfigError, InvalidRequest, LimitExceeded
from antiphon.providers.registry import build_providers
from tests.support.applications import echo_config, open_application

LONG = "The port is 8123. " + "x" * 8000
HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": "Which port?"},
    {"role": "assistant", "content": LONG},
    {"role": "user", "content": "Go on."},
]
SMALL = [{"type": "compaction", "compact_threshold": 1000}]


@asynccontextmanager
async def open_run(model: str = "", **body: Any) -> AsyncIterator[Run]:
    config = structs.replace(echo_config(), compaction=CompactionConfig(model=model))
    async with open_application(config) as opened:
        document = {"model": "echo/echo", "input": HISTORY, "context_management": SMALL, **body}
        yield await opened.engine.create(parse_request(document), Caller("alice", "req_1"))


async def answer(**body: Any) -> tuple[Response, list[str]]:
    async with open_run(**body) as run, run:
        response = await run.response()
        return response, [each.code for each in run.diagnostics]


def text_of(response: Response) -> str:
    return response.output_text or ""


async def test_the_answer_continues_from_the_summary_and_shows_the_item() -> None:
    response, codes = await answer()
    item, _ = response.output
    assert isinstance(item, dict)
    assert (item["type"], item["encrypted_content"][:4]) == ("compaction", "ap2.")
    assert text_of(response).startswith("[Summary of the conversation so far.")
    assert "The port is 8123." in text_of(response)
    assert len(text_of(response)) < 4000
    assert codes == ["history.compaction.applied"]


async def test_a_client_that_may_have_one_response_at_a_time_gets_its_context_compacted() -> None:
    """The summary belongs to the request that was admitted; its tokens count towards the limits."""
    limits = ClientLimitConfig(max_streams=1, requests_per_minute=1, cost_per_day=1.0)
    config = structs.replace(echo_config(), limits=LimitConfig(clients={"*": limits}))
    async with open_application(config) as opened:
        body = {"model": "echo/echo", "input": HISTORY, "context_management": SMALL}
        caller = Caller("alice", "req_1")
        async with await opened.engine.create(parse_request(body), caller) as run:
            await run.response()
            codes = [each.code for each in run.diagnostics]
        assert codes == ["history.compaction.applied"]
        with pytest.raises(LimitExceeded):
            await opened.engine.services.accounting.admit("alice", "req_2")


async def test_the_summary_is_part_of_the_cost() -> None:
    compacted, _ = await answer()
    whole, _ = await answer(context_management=None)
    assert compacted.usage is not None
    assert whole.usage is not None
    assert compacted.usage.input_tokens > whole.usage.input_tokens


@pytest.mark.parametrize(
    "body",
    [
        {"context_management": [{"type": "compaction", "compact_threshold": 9000}]},
        {"context_management": [{"type": "compaction"}]},
        {"input": [{"role": "user", "content": LONG}]},
    ],
)
async def test_a_context_that_is_short_enough_is_not_compacted(body: dict[str, Any]) -> None:
    response, codes = await answer(**body)
    assert (len(response.output), codes) == (1, [])


@pytest.mark.parametrize("model", ["echo/error-500", "echo/cut", "echo/refuser"])
async def test_without_a_summary_the_whole_history_is_used(model: str) -> None:
    async with open_run(model=model) as run, run:
        response = await run.response()
        [note] = run.diagnostics
    assert text_of(response) == "Go on."
    assert note.code == "context.not_compacted"
    assert note.message.startswith("The context could not be compacted")


async def test_a_model_that_cannot_be_asked_leaves_the_history_as_it_is() -> None:
    async def refuse(request: Request) -> Run:
        raise InvalidRequest("At most 3 tools are supported.", param="tools")

    planner = Planner(Request(raw={}, model="m"), PlanInputs(history=HISTORY))
    note = await compact_context(planner, refuse, lambda text: Unopened.FOREIGN)
    assert isinstance(note, Diagnostic)
    assert "At most 3 tools" in note.message


async def test_a_streamed_answer_shows_the_compaction_first() -> None:
    async with open_run(stream=True) as run, run:
        await run.open()
        events: list[Event] = []
        while batch := await run.next_events():
            events += batch
    kinds = [type(event).__name__ for event in events]
    assert kinds[2:5] == ["ItemAdded", "HostedToolEvent", "ItemDone"]


# The model of `[compaction] model`


def check(model: str) -> None:
    config = Config(compaction=CompactionConfig(model=model))
    check_compaction_model(config, make_router(config, build_providers(config, {})))


def test_a_model_that_does_not_exist_is_an_error_of_the_configuration() -> None:
    with pytest.raises(ConfigError, match=r"compaction\.model: The model 'nobody/x'"):
        check("nobody/x")


@pytest.mark.parametrize("model", ["", "echo/echo"])
def test_no_model_and_a_known_one_are_accepted(model: str) -> None:
    assert check(model) is None  # type: ignore[func-returns-value]
