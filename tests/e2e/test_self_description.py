"""Health, model lists and the diagnostics header."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from openai.pagination import SyncPage
from openai.types import Model

from tests.support.client_answers import post_request, send_raw
from tests.support.gateways import Running
from tests.support.shared_gateway import UVLOOP, SharedGateway, open_shared_gateway
from tests.support.upstream import HELLO_WORLD, send_frames


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


@pytest.fixture(scope="module")
async def shared_gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SharedGateway]:
    async with open_shared_gateway(tmp_path_factory.mktemp("stage")) as shared_gateway:
        yield shared_gateway


@pytest.fixture
def gateway(shared_gateway: SharedGateway) -> Running:
    return shared_gateway.gateway


# Health


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/health", {"status": "ok", "ready": True}),
        ("/health/live", {"status": "ok", "ready": True}),
        ("/health/ready", {"status": "ok"}),
    ],
)
async def test_health_endpoints_need_no_key(gateway: Running, path: str, expected: Any) -> None:
    answer = await send_raw(gateway, "GET", path, host="gateway.example")
    assert (answer.status, answer.document) == (200, expected)
    assert (await send_raw(gateway, "HEAD", path)).status == 200


# Models

# What Codex demands of an entry: name → the types it takes.
CODEX_FIELDS: Mapping[str, type | tuple[type, ...]] = {
    "slug": str,
    "display_name": str,
    "supported_reasoning_levels": list,
    "shell_type": str,
    "visibility": str,
    "supported_in_api": bool,
    "priority": int,
    "support_verbosity": bool,
    "truncation_policy": dict,
    "experimental_supported_tools": list,
    "base_instructions": str,
}


async def test_the_models_are_listed_as_openai_lists_them(gateway: Running) -> None:
    answer = await send_raw(gateway, "GET", "/v1/models?client_version=0.166.0")
    page = SyncPage[Model].model_validate(answer.document, strict=True)
    models = [Model.model_validate(each, strict=True) for each in answer.document["data"]]
    assert "echo/echo" in {model.id for model in page.data}
    assert all(model.owned_by for model in models)


async def test_the_models_are_listed_as_codex_wants_them(gateway: Running) -> None:
    answer = await send_raw(gateway, "GET", "/v1/models")
    entries = answer.document["models"]
    assert [entry["slug"] for entry in entries] == [each["id"] for each in answer.document["data"]]
    for entry in entries:
        for name, kind in CODEX_FIELDS.items():
            assert isinstance(entry[name], kind), name
        assert entry["shell_type"] in ("unified_exec", "disabled")
        assert entry["visibility"] in ("list", "hide", "none")
        assert entry["truncation_policy"]["mode"] in ("bytes", "tokens")
        assert isinstance(entry["truncation_policy"]["limit"], int)
        for level in entry["supported_reasoning_levels"]:
            assert set(level) == {"effort", "description"}


async def test_an_unchanged_model_list_is_a_304(gateway: Running) -> None:
    async with gateway.client.get(f"{gateway.base_url}/models") as first:
        tag = first.headers["etag"]
    for known, status in ((tag, 304), (f'"other", {tag}', 304), ('"other"', 200)):
        headers = {"if-none-match": known}
        async with gateway.client.get(f"{gateway.base_url}/models", headers=headers) as again:
            assert (again.status, again.headers["etag"]) == (status, tag)


async def test_every_listed_model_can_be_asked_for(gateway: Running) -> None:
    answer = await send_raw(gateway, "GET", "/v1/models")
    for entry in answer.document["data"]:
        reply = await post_request(gateway, {"model": entry["id"], "input": "Hello?"})
        assert reply.status != 404, entry


# Diagnostics


async def test_diagnostics_are_listed_in_a_header(shared_gateway: SharedGateway) -> None:
    body = {"moon_phase": "full", "top_logprobs": 3, "truncation": "auto", "service_tier": "flex"}
    answer = await shared_gateway.post_request(send_frames(HELLO_WORLD), stream=True, **body)
    assert answer.response["status"] == "completed"
    count, _, codes = answer.headers["antiphon-diagnostics"].partition("; codes=")
    actual = codes.split(",")
    assert int(count) >= len(actual) >= 2
    assert "param.unknown:moon_phase" in actual


async def test_without_diagnostics_there_is_no_header(shared_gateway: SharedGateway) -> None:
    answer = await shared_gateway.post_request(send_frames(HELLO_WORLD), stream=True)
    assert "antiphon-diagnostics" not in answer.headers


async def test_parameter_names_cannot_inject_into_the_diagnostics_header(
    shared_gateway: SharedGateway,
) -> None:
    names = ["a\r\nset-cookie: x=1", "\u202e\x00\x7f", "x" * 5000, "p;q,r=s", "é"]
    odd = dict.fromkeys(names, 1) | {f"unknown_{number}": 1 for number in range(300)}
    answer = await shared_gateway.post_request(send_frames(HELLO_WORLD), stream=True, **odd)
    header = answer.headers["antiphon-diagnostics"]
    assert header.startswith("21; codes=")  # twenty by name, and one that counts the others
    assert len(header) <= 1024
    assert header.isascii()
    assert "set-cookie" not in answer.headers
