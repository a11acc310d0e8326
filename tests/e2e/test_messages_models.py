"""The models of the gateway in the shape of Anthropic's API, read by its official client."""

from __future__ import annotations

from pathlib import Path

import anthropic
import pytest

from antiphon.config import ModelConfig, ProviderConfig
from tests.support.gateways import Running, replaced, running, settings

UP = ProviderConfig(
    kind="chat",
    base_url="http://127.0.0.1:9/v1",
    api_keys=["k"],
    models={"claude-like": ModelConfig(context_window=9000), "other": ModelConfig()},
)
VERSION = {"anthropic-version": "2023-06-01"}


def client_of(gateway: Running) -> anthropic.AsyncAnthropic:
    url = gateway.base_url.removesuffix("/v1")
    return anthropic.AsyncAnthropic(base_url=url, api_key="sk", max_retries=0)


async def test_the_client_lists_page_by_page_and_retrieves(tmp_path: Path) -> None:
    config = replaced(settings(tmp_path), providers={"up": UP}, models={"claude-x": "up/other"})
    async with running(config) as gateway, client_of(gateway) as client:
        every = [model.id async for model in client.models.list()]
        paged = [model.id async for model in client.models.list(limit=1)]
        before = await client.models.list(before_id=every[2], limit=1)
        model = await client.models.retrieve("up/claude-like")
        with pytest.raises(anthropic.NotFoundError) as missing:
            await client.models.retrieve("nobody/x")
        with pytest.raises(anthropic.BadRequestError, match="There is no model 'zz'"):
            await client.models.list(after_id="zz")
    assert {"claude-x", "up/claude-like", "up/other"} <= {*every}
    assert paged == every
    assert ([each.id for each in before.data], before.has_more) == ([every[1]], True)
    assert (model.type, model.id, model.max_input_tokens) == ("model", "up/claude-like", 9000)
    assert missing.value.type == "not_found_error"


async def test_claude_code_gets_names_that_it_takes_and_may_use_them(tmp_path: Path) -> None:
    config = replaced(settings(tmp_path), models={"claude-x": "echo/echo"})
    async with running(config) as gateway:
        headers = {**VERSION, "user-agent": "claude-code/2.1.326"}
        url = f"{gateway.base_url}/models?limit=1000"
        async with gateway.client.get(url, headers=headers) as answer:
            names = [entry["id"] for entry in (await answer.json())["data"]]
        assert {"claude-x", "claude-via-echo/echo"} <= {*names}
        assert all(name.startswith(("claude", "anthropic")) for name in names)
        messages = [{"role": "user", "content": "hi"}]
        body = {"model": "claude-via-echo/echo", "max_tokens": 9, "messages": messages}
        url = f"{gateway.base_url}/messages"
        async with gateway.client.post(url, json=body, headers=VERSION) as answer:
            message = await answer.json()
    assert (answer.status, message["model"]) == (200, "claude-via-echo/echo")


async def test_a_path_that_is_not_served_is_an_error_of_the_same_format(tmp_path: Path) -> None:
    async with running(settings(tmp_path)) as gateway, client_of(gateway) as client:
        with pytest.raises(anthropic.NotFoundError) as missing:
            await client.messages.batches.list()
    assert missing.value.type == "not_found_error"
