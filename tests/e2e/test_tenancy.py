"""Client keys divide the store: what belongs to one key is not found by another.

Each client key, by its name, owns the responses, items and capsules made for it. What an earlier
version stored or sealed has no owner, and every key can use it until it expires.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from antiphon.config import ProviderConfig
from antiphon.store.sqlite.file import DatabaseSchema, connect
from antiphon.store.sqlite.schema import SCHEMA
from tests.support.client_answers import Answer, post_request
from tests.support.gateways import Running, replaced, running, settings
from tests.support.scripted_providers.anthropic import ScriptedAnthropic
from tests.support.scripted_providers.session import (
    SESSION,
    Document,
    echo_items,
    request_body,
    result_items,
    user_items,
)
from tests.support.turns import turn
from tests.support.upstream import Connection, ReceivedRequest, Upstream, upstream

KEYS = {"alice": "sk-alice-0123456789", "bob": "sk-bob-9876543210"}
SCRIPTED = ScriptedAnthropic()
MODEL = "up/claude-sonnet-4-5"
SECRET = "The launch code is 0000."
HEADER = "antiphon-diagnostics"


@dataclass
class Tenants:
    """A gateway with client keys, in front of a provider that signs its reasoning."""

    gateway: Running
    upstream: Upstream
    keys: Mapping[str, str]

    async def ask(self, name: str, **body: Any) -> Answer:
        """Send a request with the key of this name; without keys, with none."""
        headers = {"authorization": f"Bearer {self.keys[name]}"} if self.keys else {}
        body = {"model": MODEL, "input": "Hello?", **body}
        return await post_request(self.gateway, body, **headers)

    def has_sent(self, text: str) -> bool:
        """Whether a text is in the last request to the provider."""
        return has_text(self.upstream.requests[-1], text)

    def has_sent_state(self) -> bool:
        return all(map(self.has_sent, SCRIPTED.states(SESSION[0])))


def has_text(request: ReceivedRequest, text: str) -> bool:
    return json.dumps(text)[1:-1] in request.raw.decode()


@asynccontextmanager
async def tenants(tmp_path: Path, keys: Mapping[str, str] = KEYS) -> AsyncIterator[Tenants]:
    async def script(request: ReceivedRequest, connection: Connection) -> None:
        await connection.head(content_type=SCRIPTED.content_type)
        await connection.send(SCRIPTED.stream_bytes(SESSION[0]))
        await connection.end()

    async with upstream(script) as server:
        entry = ProviderConfig(kind="anthropic", base_url=server.url, api_keys=["k"])
        config = replaced(
            settings(tmp_path, server.url, api_keys=dict(keys)), providers={"up": entry}
        )
        async with running(config) as gateway:
            yield Tenants(gateway, server, keys)


def without_id(answer: Answer, id: str) -> tuple[int, bytes]:
    """Status and body of an error, without the id it is about."""
    return answer.status, answer.body.replace(id.encode(), b"ID")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_of_another_key_is_answered_like_an_unknown_id(
    tmp_path: Path, stream: bool
) -> None:
    async with tenants(tmp_path) as gateway:
        id = (await gateway.ask("alice", input=SECRET)).response["id"]
        theirs = await gateway.ask("bob", previous_response_id=id, stream=stream)
        unknown = await gateway.ask("bob", previous_response_id="resp_0", stream=stream)
        assert theirs.error["code"] == "previous_response_not_found"
        assert without_id(theirs, id) == without_id(unknown, "resp_0")
        assert len(gateway.upstream.requests) == 1
        await gateway.ask("alice", previous_response_id=id, stream=stream)
        assert gateway.has_sent(SECRET)


def references(*ids: str) -> list[Document]:
    question = {"type": "message", "role": "user", "content": "What was it?"}
    return [*({"type": "item_reference", "id": id} for id in ids), question]


async def test_an_item_of_another_key_is_answered_like_an_unknown_id(tmp_path: Path) -> None:
    async with tenants(tmp_path) as gateway:
        said = {"type": "message", "role": "user", "content": SECRET, "id": "msg_mine"}
        output = (await gateway.ask("alice", input=[said])).response["output"]
        for id in ("msg_mine", *(item["id"] for item in output)):
            theirs = await gateway.ask("bob", input=references(id))
            unknown = await gateway.ask("bob", input=references("msg_0"))
            assert theirs.status == unknown.status
            assert theirs.headers.get(HEADER) == unknown.headers.get(HEADER)
        for request in gateway.upstream.requests[1:]:
            assert not has_text(request, SECRET)
            assert not has_text(request, "One moment.")
        await gateway.ask("alice", input=references("msg_mine", output[1]["id"]))
        assert gateway.has_sent(SECRET)
        assert gateway.has_sent("One moment.")


async def ask_with(gateway: Tenants, name: str, items: list[Document]) -> Answer:
    """Send a history that the client keeps."""
    return await gateway.ask(name, **request_body(MODEL, items, store=False))


async def first_turn(gateway: Tenants, name: str) -> list[Document]:
    """Return the items of a thread that the client keeps, with a capsule in its reasoning."""
    items = user_items(SESSION[0])
    output = (await ask_with(gateway, name, items)).response["output"]
    assert [item for item in output if "encrypted_content" in item]
    return [*items, *echo_items(output), *result_items(output, SESSION[0])]


async def test_a_capsule_of_another_key_is_not_opened(tmp_path: Path) -> None:
    async with tenants(tmp_path) as gateway:
        items = await first_turn(gateway, "alice")
        theirs = await ask_with(gateway, "bob", items)
        assert not gateway.has_sent_state()
        assert "capsule.unused:tampered" in theirs.headers[HEADER]
        own = await ask_with(gateway, "alice", items)
        assert gateway.has_sent_state()
        assert HEADER not in own.headers


async def test_a_new_secret_of_the_same_name_keeps_everything(tmp_path: Path) -> None:
    async with tenants(tmp_path) as gateway:
        items = await first_turn(gateway, "alice")
        stored = (await gateway.ask("alice", input=SECRET)).response
    async with tenants(tmp_path, {"alice": "sk-alice-rotated", "bob": KEYS["bob"]}) as gateway:
        await gateway.ask("alice", previous_response_id=stored["id"])
        assert gateway.has_sent(SECRET)
        await gateway.ask("alice", input=references(stored["output"][1]["id"]))
        assert gateway.has_sent("One moment.")
        await ask_with(gateway, "alice", items)
        assert gateway.has_sent_state()


async def test_without_keys_there_is_one_owner(tmp_path: Path) -> None:
    async with tenants(tmp_path, {}) as gateway:
        items = await first_turn(gateway, "anybody")
        stored = (await gateway.ask("anybody", input=SECRET)).response
        await gateway.ask("anybody", previous_response_id=stored["id"])
        assert gateway.has_sent(SECRET)
        await ask_with(gateway, "anybody", items)
        assert gateway.has_sent_state()


# What an earlier version stored or sealed

BEFORE = DatabaseSchema(SCHEMA.application_id, SCHEMA.migrations[:3])


def store_with_the_earlier_version(path: Path) -> None:
    said = {"type": "message", "role": "user", "content": SECRET}
    old = turn("resp_old", client="alice", input=(said,), expires_at=2**40)
    connection = connect(path, BEFORE, synchronous="FULL")
    row = (old.id, old.expires_at, old.client, msgspec.json.encode(old))
    connection.execute("INSERT INTO turn (id, expires_at, client, body) VALUES (?, ?, ?, ?)", row)
    connection.close()


async def test_a_response_stored_before_keys_divided_the_store_is_found_by_every_key(
    tmp_path: Path,
) -> None:
    store_with_the_earlier_version(tmp_path / "turns.db")
    async with tenants(tmp_path) as gateway:
        for name in KEYS:
            await gateway.ask(name, previous_response_id="resp_old")
            assert gateway.has_sent(SECRET)


async def test_what_continues_an_old_response_belongs_to_the_key_that_continued_it(
    tmp_path: Path,
) -> None:
    store_with_the_earlier_version(tmp_path / "turns.db")
    async with tenants(tmp_path) as gateway:
        mine = (await gateway.ask("bob", previous_response_id="resp_old")).response["id"]
        theirs = await gateway.ask("alice", previous_response_id=mine)
        assert theirs.error["code"] == "previous_response_not_found"


def seal_with_the_earlier_version(sealed: Mapping[str, Any], key: str) -> str:
    """Encrypt the content of a capsule in the form that had no owner."""
    secret = hashlib.sha256(b"antiphon capsule\0" + key.encode()).digest()
    packed = zlib.compress(msgspec.json.encode(sealed))
    data = AESGCM(secret).encrypt(bytes(12), packed, b"ap1.")
    return (
        "ap1."
        + base64.urlsafe_b64encode(hashlib.sha256(secret).digest()[:4] + bytes(12) + data).decode()
    )


async def test_a_capsule_sealed_before_keys_divided_the_store_is_opened_for_every_key(
    tmp_path: Path,
) -> None:
    async with tenants(tmp_path) as gateway:
        items = await first_turn(gateway, "alice")
        services = gateway.gateway.engine.services
        [place] = [at for at, item in enumerate(items) if "encrypted_content" in item]
        capsule = services.sealer.open("alice", items[place]["encrypted_content"])
        document = msgspec.to_builtins(capsule)
        old = seal_with_the_earlier_version(document, "a key that only tests use")
        items[place] = {**items[place], "encrypted_content": old}
        for name in KEYS:
            await ask_with(gateway, name, items)
            assert gateway.has_sent_state()
