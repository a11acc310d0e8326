"""Usage of prompt caches: what a provider read from its cache and wrote to it, in every format.

The sample of each dialect has ten input tokens, four of them read from the cache; Messages counts
the others apart. Where a provider reports what it wrote, these are three more.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from antiphon.config import ProviderConfig
from tests.e2e.test_chained_processes import (
    CONTENT_TYPES,
    MODELS,
    SAMPLES,
    Answers,
    send_sample,
)
from tests.support import native_answers as native
from tests.support.dialect_samples.aws_event_stream import event
from tests.support.format_judges import FORMATS
from tests.support.gateways import Running, replaced, running, settings
from tests.support.shared_gateway import UVLOOP
from tests.support.upstream import Connection, ReceivedRequest, Script, send_json, upstream

Document = dict[str, Any]
streamed_and_whole = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
NO_CACHE = {"ollama"}
"""Dialects that report nothing of a cache."""


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


class Caching(NamedTuple):
    answers: Answers
    gateway: Running


@pytest.fixture(scope="module")
async def caching(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Caching]:
    answers = Answers()
    path: Path = tmp_path_factory.mktemp("usage")
    async with upstream(answers) as server:
        providers = {
            kind: ProviderConfig(kind=kind, base_url=server.url, api_keys=["sk-up"])
            for kind in MODELS
        }
        config = replaced(settings(path, server.url), providers=providers, default_provider="chat")
        async with running(config) as gateway:
            yield Caching(answers, gateway)


class Counts(NamedTuple):
    """What a client is told: all input tokens, and how many of them were read and written."""

    all: int
    read: int
    written: int


async def count(
    caching: Caching, kind: str, script: Script, format: str, *, stream: bool
) -> Counts:
    caching.answers.script = script
    spoken, gateway = FORMATS[format], caching.gateway
    body = {"model": f"{kind}/{MODELS[kind]}", "stream": stream, **spoken.body}
    if format == "chat":
        body["stream_options"] = {"include_usage": True}
    async with gateway.client.post(gateway.base_url + spoken.path, json=body) as answer:
        data = await answer.read()
    assert answer.status == 200, data
    return read_counts(format, find_usage(data) if stream else json.loads(data)["usage"])


def find_usage(data: bytes) -> Document:
    """The last usage of a stream."""
    lines = [line[6:] for line in data.split(b"\n") if line.startswith(b"data: {")]
    documents = [json.loads(line) for line in lines]
    found = [each.get("usage") or each.get("response", {}).get("usage") for each in documents]
    usage: Document = [each for each in found if each][-1]
    return usage


def read_counts(format: str, usage: Document) -> Counts:
    if format == "messages":
        read, written = usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]
        return Counts(usage["input_tokens"] + read + written, read, written)
    prefix = "prompt" if format == "chat" else "input"
    details = usage[f"{prefix}_tokens_details"]
    all_tokens = usage[f"{prefix}_tokens"]
    return Counts(all_tokens, details["cached_tokens"], details["cache_write_tokens"])


@streamed_and_whole
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("kind", MODELS)
async def test_what_was_read_from_a_cache_is_reported(
    caching: Caching, kind: str, format: str, stream: bool
) -> None:
    script = send_sample(kind, stream=stream)
    found = await count(caching, kind, script, format, stream=stream)
    assert found == Counts(10, 0 if kind in NO_CACHE else 4, 0)


def add(usage: Document) -> tuple[bytes, bytes]:
    """The sample of Bedrock with another usage."""
    before = json.loads(native.BEDROCK_WHOLE)["usage"]
    begin = native.BEDROCK_STREAM.removesuffix(event("metadata", {"usage": before}))
    whole = {**json.loads(native.BEDROCK_WHOLE), "usage": {**before, **usage}}
    changed = event("metadata", {"usage": {**before, **usage}})
    return begin + changed, json.dumps(whole).encode()


def replaced_in(kind: str, before: bytes, after: bytes) -> tuple[bytes, bytes]:
    streamed, whole = SAMPLES[kind]
    assert before in streamed
    assert before in whole
    return streamed.replace(before, after), whole.replace(before, after)


WRITTEN = {
    "anthropic": replaced_in(
        "anthropic",
        b'"cache_read_input_tokens": 4',
        b'"cache_read_input_tokens": 4, "cache_creation_input_tokens": 3',
    ),
    "bedrock": add({"cacheWriteInputTokens": 3}),
    "chat": replaced_in(
        "chat", b'"cached_tokens": 4', b'"cached_tokens": 4, "cache_write_tokens": 3'
    ),
}
"""Samples of providers that report what they wrote; Chat Completions includes it in its sum."""


def send(kind: str, *, stream: bool) -> Script:
    streamed, whole = WRITTEN[kind]

    async def script(request: ReceivedRequest, connection: Connection) -> None:
        if not stream:
            await send_json(200, json.loads(whole))(request, connection)
            return
        await connection.head(content_type=CONTENT_TYPES.get(kind, "text/event-stream"))
        await connection.send(streamed)
        await connection.end()

    return script


@streamed_and_whole
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("kind", WRITTEN)
async def test_what_was_written_to_a_cache_is_reported(
    caching: Caching, kind: str, format: str, stream: bool
) -> None:
    found = await count(caching, kind, send(kind, stream=stream), format, stream=stream)
    assert found == Counts(10 if kind == "chat" else 13, 4, 3)
