"""Stored responses over HTTP: retrieve, stream, cancel, delete, and their input."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from antiphon.config import BackgroundConfig, Config
from antiphon.core.faults.fault import connection_fault
from antiphon.errors import StoreError, UpstreamError
from antiphon.server.http import HTTPResponse
from antiphon.store.run_log import RunStore
from antiphon.store.store import Store
from tests.support.applications import (
    LOCAL,
    GatedUpstream,
    OpenApplication,
    document_of,
    echo_config,
    error_of,
    open_application,
    read_stream,
    use_upstream,
)
from tests.support.gateways import events_of
from tests.support.loop_clock import loop_clock
from tests.support.stream_validator import check
from tests.support.tables import table
from tests.support.waiting import until

KEYS = {"alice": "sk-alice", "bob": "sk-bob"}


def as_client(name: str) -> dict[str, str]:
    return {**LOCAL, "authorization": f"Bearer {KEYS[name]}"}


@asynccontextmanager
async def gated(
    config: Config | None = None,
) -> AsyncIterator[tuple[OpenApplication, GatedUpstream]]:
    async with open_application(config) as opened:
        upstream = GatedUpstream()
        use_upstream(opened.engine, upstream)
        yield opened, upstream


def running_id(opened: OpenApplication) -> str:
    """The id of the only response that is being generated."""
    [response_id] = opened.application.process.live.runs
    return response_id


async def get(
    opened: OpenApplication, response_id: str, rest: str = "", headers: Mapping[str, str] = LOCAL
) -> HTTPResponse:
    return await opened.request("GET", f"/v1/responses/{response_id}{rest}", headers=headers)


async def submit(opened: OpenApplication, **request: Any) -> str:
    """Create a background response; return its id."""
    created = await opened.create(background=True, **request)
    document = document_of(created)
    assert (created.status, document["status"]) == (200, "queued")
    assert (document["background"], document["output"]) == (True, [])
    return str(document["id"])


async def wait_for(opened: OpenApplication, response_id: str, status: str) -> dict[str, Any]:
    for _ in range(2000):
        document: dict[str, Any] = document_of(await get(opened, response_id))
        if document["status"] == status:
            return document
        await asyncio.sleep(0.001)
    raise AssertionError(f"{response_id} is {document['status']}, not {status}")


async def wait_for_end(response: HTTPResponse) -> None:
    if not isinstance(response.body, bytes):
        await read_stream(response)
        response.body = b""


# Retrieve


async def test_a_response_is_retrieved_as_it_was_sent() -> None:
    async with open_application() as opened:
        sent = document_of(await opened.create(metadata={"a": "b"}))
        include = "?include[]=reasoning.encrypted_content"
        assert document_of(await get(opened, sent["id"], include)) == sent


async def test_a_response_that_is_not_stored_is_not_found() -> None:
    async with open_application() as opened:
        sent = document_of(await opened.create(store=False))
        for method, rest in [
            ("GET", ""),
            ("DELETE", ""),
            ("POST", "/cancel"),
            ("GET", "/input_items"),
        ]:
            response = await opened.request(method, f"/v1/responses/{sent['id']}{rest}")
            assert (response.status, error_of(response)["code"]) == (404, None)


async def test_a_streamed_response_is_in_progress_from_its_first_event() -> None:
    async with gated(echo_config(commit_after_s=0.01)) as (opened, upstream):
        response = await opened.create(stream=True)
        response_id = running_id(opened)
        document = document_of(await get(opened, response_id))
        assert (document["status"], document["output"]) == ("in_progress", [])
        upstream.gate.set()
        await read_stream(response)
        assert document_of(await get(opened, response_id))["status"] == "completed"


# Delete


async def test_a_deleted_response_is_gone() -> None:
    async with open_application() as opened:
        response_id = document_of(await opened.create())["id"]
        deleted = await opened.request("DELETE", f"/v1/responses/{response_id}")
        assert document_of(deleted) == {"id": response_id, "object": "response", "deleted": True}
        assert (await get(opened, response_id)).status == 404
        assert (await get(opened, response_id, "/input_items")).status == 404
        assert (await opened.create(previous_response_id=response_id)).status == 400
        assert (await opened.request("DELETE", f"/v1/responses/{response_id}")).status == 404


@pytest.mark.parametrize("background", [False, True])
async def test_deleting_a_response_ends_its_run(background: bool) -> None:
    async with gated(echo_config(commit_after_s=0.01)) as (opened, upstream):
        streaming = await opened.create(stream=True, background=background)
        await until(lambda: upstream.waiting, "the provider has the request")
        response_id = running_id(opened)
        assert (await opened.request("DELETE", f"/v1/responses/{response_id}")).status == 200
        is_ending = bool(opened.engine.active)
        found_at_once = await get(opened, response_id)
        if background:
            with pytest.raises(ConnectionAbortedError):
                await read_stream(streaming)
        else:
            events = events_of(await read_stream(streaming))
            assert events[-1]["response"]["status"] == "cancelled"
        await until(lambda: not opened.engine.active, "the run has ended")
        assert (upstream.waiting, (await get(opened, response_id)).status) == (0, 404)
        assert (is_ending, found_at_once.status) == (True, 404)


@pytest.mark.parametrize("is_queued", [False, True])
async def test_the_conversation_of_a_deleted_response_can_be_continued(is_queued: bool) -> None:
    config = replace(echo_config(), background=BackgroundConfig(max_running=1))
    async with gated(config) as (opened, upstream):
        created = await opened.request("POST", "/v1/conversations", b"{}")
        conversation_id = document_of(created)["id"]
        if is_queued:
            await submit(opened)
        response_id = await submit(opened, conversation=conversation_id)
        await opened.request("DELETE", f"/v1/responses/{response_id}")
        upstream.gate.set()
        following = await opened.create(conversation=conversation_id)
        assert (following.status, document_of(following)["status"]) == (200, "completed")


# Background


@pytest.mark.parametrize("stream", [False, True])
async def test_a_background_response_is_generated_without_its_client(stream: bool) -> None:
    async with gated() as (opened, upstream):
        if stream:
            response = await opened.create(background=True, stream=True)
            assert not isinstance(response.body, bytes)
            await until(lambda: opened.application.process.live.runs, "the run has begun")
            response_id = running_id(opened)
            await response.body.close()
        else:
            response_id = await submit(opened)
        upstream.gate.set()
        document = await wait_for(opened, response_id, "completed")
        assert document["output"][0]["content"][0]["text"] == "Hello"
        assert document["background"] is True
        assert not opened.engine.active


async def test_a_background_response_that_fails_says_so() -> None:
    async with gated() as (opened, upstream):
        upstream.error = UpstreamError(connection_fault("reset"))
        upstream.gate.set()
        response_id = await submit(opened)
        document = await wait_for(opened, response_id, "failed")
        assert document["error"]["code"] == "server_error"


async def test_background_needs_a_stored_response() -> None:
    async with open_application() as opened:
        response = await opened.create(background=True, store=False)
        assert (response.status, error_of(response)["param"]) == (400, "background")


async def test_at_most_so_many_run_and_the_others_wait_in_order() -> None:
    config = replace(echo_config(), background=BackgroundConfig(max_running=1))
    async with gated(config) as (opened, upstream):
        ids = [await submit(opened, input=text) for text in ("one", "two", "three")]
        await until(lambda: upstream.waiting == 1, "the first one runs")
        assert [document_of(await get(opened, id))["status"] for id in ids] == [
            "in_progress",
            "queued",
            "queued",
        ]
        upstream.gate.set()
        for response_id, text in zip(ids, ("one", "two", "three"), strict=True):
            document = await wait_for(opened, response_id, "completed")
            assert document["output_text"] == text


# Cancel


@pytest.mark.parametrize("stream", [False, True])
async def test_a_background_response_can_be_cancelled_twice(stream: bool) -> None:
    async with gated() as (opened, upstream):
        streaming = await opened.create(background=True, stream=stream)
        await until(lambda: upstream.waiting, "the provider has the request")
        response_id = running_id(opened)
        for _ in range(2):
            cancelled = await opened.request("POST", f"/v1/responses/{response_id}/cancel")
            document = document_of(cancelled)
            assert (cancelled.status, document["status"]) == (200, "cancelled")
            assert document["incomplete_details"] is None
        assert (upstream.waiting, len(opened.engine.active)) == (0, 0)
        if stream:
            events = events_of(await read_stream(streaming))
            assert events[-1]["type"] == "response.incomplete"
            assert events[-1]["response"] == document


async def test_a_queued_response_is_cancelled_before_it_runs() -> None:
    config = replace(echo_config(), background=BackgroundConfig(max_running=1))
    async with gated(config) as (opened, upstream):
        first, second = await submit(opened), await submit(opened)
        response = await opened.request("POST", f"/v1/responses/{second}/cancel")
        assert document_of(response)["status"] == "cancelled"
        upstream.gate.set()
        await wait_for(opened, first, "completed")
        assert document_of(await get(opened, second))["status"] == "cancelled"


class _ReadOnlyRuns:
    """Runs of a store that cannot write the end of one, as on a full disk."""

    def __init__(self, runs: RunStore) -> None:
        self._runs = runs
        self.attempts = 0

    async def finish(self, *arguments: Any, **options: Any) -> None:
        self.attempts += 1
        raise StoreError("The disk is full.")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runs, name)


class _ReadOnlyStore:
    def __init__(self, store: Store, runs: _ReadOnlyRuns) -> None:
        self._store = store
        self.runs = runs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def test_a_cancellation_is_answered_although_its_end_cannot_be_stored() -> None:
    async with gated() as (opened, upstream):
        services = opened.engine.services
        runs = _ReadOnlyRuns(services.store.runs)
        store: Any = _ReadOnlyStore(services.store, runs)
        opened.engine.services = dataclasses.replace(services, store=store)
        response_id = await submit(opened)
        await until(lambda: upstream.waiting, "the provider has the request")
        path = f"/v1/responses/{response_id}/cancel"
        with loop_clock() as clock:
            cancelling = asyncio.ensure_future(opened.request("POST", path))
            await until(lambda: runs.attempts, "its end is being stored")
            for _ in range(10):
                await clock.advance(1.0)
            assert cancelling.done()
        assert document_of(await cancelling)["status"] == "in_progress"
        assert not upstream.waiting


async def test_a_foreground_response_cannot_be_cancelled() -> None:
    async with gated(echo_config(commit_after_s=0.01)) as (opened, upstream):
        streaming = await opened.create(stream=True)
        response_id = running_id(opened)
        response = await opened.request("POST", f"/v1/responses/{response_id}/cancel")
        assert response.status == 400
        assert error_of(response)["message"].startswith("Cannot cancel a synchronous response")
        upstream.gate.set()
        await read_stream(streaming)
        response = await opened.request("POST", f"/v1/responses/{response_id}/cancel")
        assert response.status == 400


# Streams


async def test_a_stream_is_resumed_after_every_event() -> None:
    async with open_application() as opened:
        text = "some words to be repeated"
        whole = await read_stream(await opened.create(background=True, stream=True, input=text))
        events = events_of(whole)
        response_id = events[0]["response"]["id"]
        assert [event["sequence_number"] for event in events] == [*range(len(events))]
        for number in range(-1, len(events)):
            resumed = await get(opened, response_id, f"?stream=true&starting_after={number}")
            data = await read_stream(resumed)
            assert events_of(data) == events[number + 1 :]
            assert data.endswith(b"data: [DONE]\n\n")
        everything = await read_stream(await get(opened, response_id, "?stream=true"))
        assert everything == whole


async def test_only_a_response_that_was_streamed_in_the_background_can_be_streamed() -> None:
    async with open_application() as opened:
        foreground = document_of(await opened.create())["id"]
        background = await submit(opened)
        await wait_for(opened, background, "completed")
        for response_id in (foreground, background):
            response = await get(opened, response_id, "?stream=true")
            assert (response.status, error_of(response)["param"]) == (400, "stream")
        assert (await get(opened, "resp_unknown", "?stream=true")).status == 404


async def test_a_queued_response_that_is_not_streamed_cannot_be_streamed() -> None:
    config = replace(echo_config(), background=BackgroundConfig(max_running=1))
    async with gated(config) as (opened, upstream):
        for response_id in (await submit(opened), await submit(opened)):
            response = await get(opened, response_id, "?stream=true")
            assert (response.status, error_of(response)["param"]) == (400, "stream")
        upstream.gate.set()


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_the_stream_of_a_queued_response_begins_at_once(is_cancelled: bool) -> None:
    """Its client must know the id, or it could neither resume nor cancel it."""
    config = replace(echo_config(), background=BackgroundConfig(max_running=1))
    async with gated(config) as (opened, upstream):
        await submit(opened)
        streaming = await opened.create(background=True, stream=True)
        first: list[bytes] = []

        async def write(data: bytes) -> None:
            first.append(data)

        assert not isinstance(streaming.body, bytes)
        reading = asyncio.ensure_future(streaming.body.write_to(write))
        await until(lambda: first, "the stream has begun")
        created, queued = events_of(first[0])
        assert (created["type"], queued["type"]) == ("response.created", "response.queued")
        assert created["response"] == queued["response"]
        assert (queued["response"]["status"], queued["response"]["output"]) == ("queued", [])
        path = f"/v1/responses/{created['response']['id']}"
        if is_cancelled:
            await opened.request("POST", f"{path}/cancel")
        upstream.gate.set()
        await reading
        events = events_of(b"".join(first))
        if not is_cancelled:
            check(events)
        assert [event["sequence_number"] for event in events] == [*range(len(events))]
        assert events[-1]["response"]["status"] == ("cancelled" if is_cancelled else "completed")
        for number in (-1, 0, 1, 2, len(events) - 1):
            rest = f"{path}?stream=true&starting_after={number}"
            resumed = await read_stream(await opened.request("GET", rest))
            assert events_of(resumed) == events[number + 1 :]


async def test_a_stream_waits_for_a_response_that_is_being_generated() -> None:
    async with gated() as (opened, upstream):
        first = await opened.create(background=True, stream=True)
        await until(lambda: upstream.waiting, "the provider has the request")
        response_id = running_id(opened)
        second = await get(opened, response_id, "?stream=true&starting_after=0")
        reading = asyncio.ensure_future(read_stream(second))
        upstream.gate.set()
        whole = events_of(await read_stream(first))
        assert events_of(await reading) == whole[1:]


# Input items


async def test_the_input_is_listed_with_the_turns_before_it() -> None:
    async with open_application() as opened:
        first = document_of(await opened.create(input="one"))
        items = [{"role": "user", "content": "two"}, {"role": "user", "content": "three"}]
        second = document_of(await opened.create(input=items, previous_response_id=first["id"]))
        listed = document_of(await get(opened, second["id"], "/input_items?order=asc"))
        texts = [item["content"][0]["text"] for item in listed["data"]]
        assert texts == ["one", "one", "two", "three"]
        ids = [item["id"] for item in listed["data"]]
        assert len(set(ids)) == 4
        assert (listed["first_id"], listed["last_id"]) == (ids[0], ids[-1])
        assert listed["has_more"] is False
        reverse = document_of(await get(opened, second["id"], "/input_items"))
        assert [item["id"] for item in reverse["data"]] == ids[::-1]


async def test_the_input_begins_with_the_items_of_the_conversation_at_that_time() -> None:
    async with open_application() as opened:
        items = [{"role": "user", "content": "zero"}]
        body = json.dumps({"items": items}).encode()
        created = document_of(await opened.request("POST", "/v1/conversations", body))
        ids, texts = [], []
        for text in ("one", "two"):
            response = await opened.create(input=text, conversation=created["id"])
            ids.append(document_of(response)["id"])
        for response_id in ids:
            listed = document_of(await get(opened, response_id, "/input_items?order=asc"))
            texts.append([item["content"][0]["text"] for item in listed["data"]])
        assert texts == [["zero", "one"], ["zero", "one", "one", "two"]]
        await opened.request("DELETE", f"/v1/conversations/{created['id']}")
        listed = document_of(await get(opened, ids[1], "/input_items"))
        assert [item["content"][0]["text"] for item in listed["data"]] == ["two"]


async def test_an_item_that_is_deleted_from_the_conversation_takes_no_others_with_it() -> None:
    async with open_application() as opened:
        made = document_of(await opened.request("POST", "/v1/conversations", b"{}"))
        path = f"/v1/conversations/{made['id']}/items"
        for text in ("one", "two"):
            response = document_of(await opened.create(input=text, conversation=made["id"]))
        items = document_of(await opened.request("GET", f"{path}?order=asc"))["data"]
        await opened.request("DELETE", f"{path}/{items[1]['id']}")
        listed = document_of(await get(opened, response["id"], "/input_items?order=asc"))
        assert [item["content"][0]["text"] for item in listed["data"]] == ["one", "two"]


async def test_the_input_of_a_response_is_listed_when_the_one_before_it_is_deleted() -> None:
    async with open_application() as opened:
        first = document_of(await opened.create(input="one"))["id"]
        second = document_of(await opened.create(input="two", previous_response_id=first))["id"]
        await opened.request("DELETE", f"/v1/responses/{first}")
        listed = document_of(await get(opened, second, "/input_items"))
        assert [item["content"][0]["text"] for item in listed["data"]] == ["two"]


async def test_an_item_that_was_sent_twice_is_listed_once() -> None:
    """Else a client that pages by item ids would never come to an end."""
    async with open_application() as opened:
        a, b = [
            {"type": "message", "id": id, "role": "user", "content": id}
            for id in ("msg_a", "msg_b")
        ]
        response_id = document_of(await opened.create(input=[a, b, a]))["id"]
        listed = document_of(await get(opened, response_id, "/input_items?order=asc"))
        assert [item["id"] for item in listed["data"]] == ["msg_a", "msg_b"]


@pytest.mark.parametrize("is_included", [False, True])
async def test_encrypted_reasoning_is_listed_only_if_it_is_included(is_included: bool) -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "abc"}
    async with open_application() as opened:
        items = [reasoning, {"role": "user", "content": "Hello"}]
        response_id = document_of(await opened.create(input=items))["id"]
        rest = "&include[]=reasoning.encrypted_content" if is_included else ""
        listed = document_of(await get(opened, response_id, f"/input_items?order=asc{rest}"))
        assert ("encrypted_content" in listed["data"][0]) is is_included


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_the_input_is_listed_in_pages(order: str) -> None:
    async with open_application() as opened:
        items = [{"role": "user", "content": str(number)} for number in range(5)]
        response_id = document_of(await opened.create(input=items))["id"]
        texts, after = [], ""
        for has_more in (True, True, False):
            rest = f"/input_items?limit=2&order={order}{after}"
            page = document_of(await get(opened, response_id, rest))
            texts += [item["content"][0]["text"] for item in page["data"]]
            assert page["has_more"] is has_more
            after = f"&after={page['last_id']}"
        assert texts == [*map(str, range(5))][:: 1 if order == "asc" else -1]


@table(
    ("rest", "param"),
    [
        ("?stream=1", "stream"),
        ("?stream=true&starting_after=x", "starting_after"),
        ("?include[]=everything", "include"),
        ("/input_items?include=everything", "include"),
        ("/input_items?limit=0", "limit"),
        ("/input_items?limit=101", "limit"),
        ("/input_items?order=up", "order"),
        ("/input_items?after=msg_unknown", "after"),
    ],
)
async def test_a_bad_query_is_rejected(rest: str, param: str) -> None:
    async with open_application() as opened:
        response_id = document_of(await opened.create())["id"]
        response = await get(opened, response_id, rest)
        assert (response.status, error_of(response)["param"]) == (400, param)


# Tenancy


async def test_another_client_finds_nothing() -> None:
    async with gated(echo_config(api_keys=KEYS)) as (opened, upstream):
        created = await opened.create(as_client("alice"), background=True, stream=True)
        await until(lambda: upstream.waiting, "the provider has the request")
        response_id = running_id(opened)
        for _ in ("while it runs", "after its end"):
            for method, rest in [
                ("GET", ""),
                ("GET", "?stream=true"),
                ("GET", "/input_items"),
                ("POST", "/cancel"),
                ("DELETE", ""),
            ]:
                path = f"/v1/responses/{response_id}{rest}"
                response = await opened.request(method, path, headers=as_client("bob"))
                assert (response.status, error_of(response)["code"]) == (404, None), path
            upstream.gate.set()
            await wait_for_end(created)
        found = await get(opened, response_id, headers=as_client("alice"))
        assert document_of(found)["status"] == "completed"
