"""Any request to the real server gets a valid answer.

A 5xx is a declared fault of an upstream, and the upstream here has none. The server runs in a
thread of its own, once for all examples, in front of providers of every kind.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import given
from hypothesis import strategies as st

from antiphon.config import ProviderConfig
from tests.property.test_request import DOCUMENTS, json_values, mutations, words
from tests.support import gateways
from tests.support.client_answers import TIMEOUT_S, Answer, check_answer
from tests.support.gateways import Running, running
from tests.support.upstream import HELLO_WORLD, Connection, ReceivedRequest, upstream, whole_answer

KINDS = ("chat", "deepseek", "minimax", "xiaomi", "zhipu")
# Refused at once, with the rest of the request unseen.
UNSERVED = ("background", "conversation", "previous_response_id", "prompt")


async def answer_anything(request: ReceivedRequest, connection: Connection) -> None:
    """A provider that accepts every request."""
    if request.body.get("stream"):
        await connection.head()
        for each in HELLO_WORLD:
            await connection.send(each)
    else:
        await connection.head(content_type="application/json")
        await connection.send(json.dumps(whole_answer("Hello")).encode())
    await connection.end()


@asynccontextmanager
async def served(directory: Path) -> AsyncIterator[Running]:
    async with upstream(answer_anything) as provider_server:
        entry = ProviderConfig(base_url=provider_server.url, api_keys=["sk-fuzz"])
        config = msgspec.structs.replace(
            gateways.settings(directory, provider_server.url),
            providers=dict.fromkeys(KINDS, entry),
            default_provider="chat",
        )
        async with running(config) as gateway:
            yield gateway


class Server:
    """The gateway in its own event loop, for synchronous tests."""

    def __init__(self, portal: BlockingPortal, gateway: Running) -> None:
        self._portal = portal
        self._gateway = gateway

    def post(self, data: bytes) -> Answer:
        """Post a request; check that the answer is valid, in time, and no server error."""
        answer = self._portal.call(self._post, data)
        check_answer(answer)
        assert answer.status < 500, (data, answer.body)
        assert not self._gateway.engine.active
        return answer

    async def _post(self, data: bytes) -> Answer:
        url = f"{self._gateway.base_url}/responses"
        headers = {"content-type": "application/json"}
        async with (
            asyncio.timeout(TIMEOUT_S),
            self._gateway.client.post(url, data=data, headers=headers) as response,
        ):
            return Answer(response.status, response.headers, await response.read())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with (
        start_blocking_portal("asyncio", {"use_uvloop": True}) as portal,
        portal.wrap_async_context_manager(served(tmp_path_factory.mktemp("fuzz"))) as gateway,
    ):
        yield Server(portal, gateway)


# Any model of a kind will do, but echo knows its own.
models = st.sampled_from(["echo/echo", "echo/reasoner", *(f"{kind}/m" for kind in KINDS)])


def with_valid_model(document: dict[str, Any], model: str, *, stream: bool) -> bytes:
    """The document as a request with a valid model."""
    served = {name: value for name, value in document.items() if name not in UNSERVED}
    return json.dumps({**served, "model": model, "stream": stream}).encode()


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_good_request_is_served_by_every_kind_of_provider(
    server: Server, kind: str, stream: bool
) -> None:
    for document in DOCUMENTS:
        answer = server.post(with_valid_model(document, f"{kind}/m", stream=stream))
        assert answer.status in (200, 400, 404), (document, answer.body)


@given(data=st.binary(max_size=400) | st.text(max_size=100).map(str.encode))
def test_any_bytes_are_answered(server: Server, data: bytes) -> None:
    assert server.post(data).status == 400


@given(document=json_values)
def test_any_json_is_answered(server: Server, document: Any) -> None:
    assert server.post(json.dumps(document).encode()).status in (200, 400, 404)


@given(document=st.dictionaries(words | st.text(), json_values), model=models, stream=st.booleans())
def test_any_object_is_answered(
    server: Server, document: dict[str, Any], model: str, stream: bool
) -> None:
    assert server.post(with_valid_model(document, model, stream=stream)).status < 500


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@given(mutation=mutations(), model=models)
def test_a_good_request_with_one_change_is_answered(
    server: Server, mutation: tuple[dict[str, Any], str], model: str, stream: bool
) -> None:
    document, _ = mutation
    assert server.post(with_valid_model(document, model, stream=stream)).status < 500


@given(
    document=st.sampled_from(DOCUMENTS),
    model=models,
    cut=st.floats(0, 1),
    noise=st.binary(max_size=4),
)
def test_a_good_request_with_noise_in_it_is_answered(
    server: Server, document: dict[str, Any], model: str, cut: float, noise: bytes
) -> None:
    whole_body = with_valid_model(document, model, stream=True)
    index = int(cut * len(whole_body))
    assert server.post(whole_body[:index] + noise + whole_body[index:]).status < 500


@given(mutation=mutations(), model=models, other=models)
def test_a_response_can_be_continued_by_any_provider(
    server: Server, mutation: tuple[dict[str, Any], str], model: str, other: str
) -> None:
    """No accepted history makes a later request of the thread fail."""
    document = {**mutation[0], "store": True}
    first = server.post(with_valid_model(document, model, stream=True))
    if first.status == 200:
        again = {"previous_response_id": first.response["id"], "model": other, "input": "And?"}
        second = server.post(json.dumps(again).encode())
        assert second.status == 200, second.body
