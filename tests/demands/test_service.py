"""Catalog, search, fallback, trace and chains: themes 15, 22, 23, 26, 31, 33, 34."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from antiphon.config import AttemptConfig, ProviderConfig, SearchConfig
from tests.support.checked_gateway import check_events, checked_gateway, final_response, text
from tests.support.commands import run
from tests.support.demand_scripts import scripts_in_turn
from tests.support.gateways import replaced, running, settings
from tests.support.upstream import DONE, HELLO_WORLD, chunk, send_frames, upstream, usage
from tests.support.web_sockets import ask, create_frame


async def test_theme_15_the_catalog_describes_each_model(tmp_path: Path) -> None:
    """Both shapes in one answer, from the provider's own data."""
    entry = ProviderConfig(kind="deepseek", base_url="http://127.0.0.1:1", api_keys=["k"])
    config = replaced(settings(tmp_path), providers={"deepseek": entry})
    async with running(config) as gateway:
        url = f"{gateway.base_url}/models?client_version=0.166.0"
        async with gateway.client.get(url) as response:
            document = await response.json()
    model = next(each for each in document["models"] if "deepseek" in each["slug"])
    assert model["slug"] in [each["id"] for each in document["data"]]
    assert model["context_window"] > 100_000
    assert model["apply_patch_tool_type"] == "freeform"
    assert [level["effort"] for level in model["supported_reasoning_levels"]]


def searching_model(query: str) -> Any:
    """A model that calls the declared search tool."""
    call = {"index": 0, "id": "s1", "function": {"name": "web_search", "arguments": query}}
    return send_frames((chunk({"tool_calls": [call]}), chunk({}, "tool_calls"), usage(), DONE))


async def test_theme_22_the_gateway_searches_for_models_without_web_search(tmp_path: Path) -> None:
    found = [{"title": "Tides", "url": "https://example.org/tides", "snippet": "High at noon."}]
    answers = tmp_path / "found.json"
    answers.write_text(json.dumps({"*": found}))
    frames = (chunk({"content": "High at noon [1]."}), chunk({}, "stop"), usage(), DONE)
    script = scripts_in_turn(searching_model('{"query":"tides"}'), send_frames(frames))
    async with upstream(script) as server:
        search = SearchConfig(backend="recorded", url=answers.as_uri())
        config = replaced(settings(tmp_path, server.url), search=search)
        async with running(config) as gateway:
            body = {"model": "m", "input": "When is high tide?", "tools": [{"type": "web_search"}]}
            response = final_response(check_events(await gateway.stream(body)))
    kinds = [item["type"] for item in response["output"]]
    assert "web_search_call" in kinds
    assert "function_call" not in kinds
    cited = response["output"][-1]["content"][0]["annotations"]
    assert [each["url"] for each in cited] == ["https://example.org/tides"]


async def test_theme_23_an_upstream_that_fails_in_band_is_failed_over(tmp_path: Path) -> None:
    """A 200 whose first event is an error leads to the fallback."""
    broken = (b'data: {"error":{"message":"overloaded","code":529}}\n\n', DONE)
    async with upstream(send_frames(broken)) as bad, upstream(send_frames(HELLO_WORLD)) as good:
        providers = {
            "bad": ProviderConfig(kind="chat", base_url=bad.url, api_keys=["k"]),
            "good": ProviderConfig(kind="chat", base_url=good.url, api_keys=["k"]),
        }
        config = replaced(
            settings(tmp_path),
            providers=providers,
            fallbacks={"bad/m": ["good/m"]},
            attempts=AttemptConfig(backoff_s=0),
        )
        async with running(config) as gateway:
            events = check_events(await gateway.stream({"model": "bad/m", "input": "Hi"}))
    assert text(final_response(events)) == "Hello, world"


async def test_theme_26_a_websocket_is_served_or_refused_at_once(tmp_path: Path) -> None:
    async with (
        checked_gateway(tmp_path, send_frames(HELLO_WORLD)) as setup,
        setup.gateway.client.ws_connect(f"{setup.gateway.base_url}/responses") as socket,
    ):
        frames = await ask(socket, create_frame(model="m"))
        assert text(frames[-1]["response"]) == "Hello, world"
    async with checked_gateway(tmp_path, send_frames(HELLO_WORLD), websocket=False) as setup:
        upgrade = {"connection": "Upgrade", "upgrade": "websocket"}
        url = f"{setup.gateway.base_url}/responses"
        async with setup.gateway.client.get(url, headers=upgrade) as response:
            assert response.status == 426


async def test_theme_31_a_chat_provider_serves_the_responses_api(tmp_path: Path) -> None:
    async with checked_gateway(tmp_path, send_frames(HELLO_WORLD)) as setup:
        events = await setup.stream()
        assert setup.upstream.requests[-1].path.endswith("/chat/completions")
    assert text(final_response(events)) == "Hello, world"


async def test_theme_33_a_trace_shows_the_outcome_of_a_request(tmp_path: Path) -> None:
    async with checked_gateway(tmp_path, send_frames(HELLO_WORLD)) as setup:
        events = await setup.stream(truncation="auto")
        name = final_response(events)["id"]
    shown = run(tmp_path, "trace", "show", name, "--config", str(traced(tmp_path))).stdout.decode()
    assert "param.ignored" in shown
    assert "up" in shown


def traced(tmp_path: Path) -> Path:
    path = tmp_path / "antiphon.toml"
    path.write_text(f'[trace]\npath = "{tmp_path / "trace.db"}"\n')
    return path


async def test_theme_34_a_response_can_be_continued_by_its_id(tmp_path: Path) -> None:
    async with checked_gateway(tmp_path, send_frames(HELLO_WORLD)) as setup:
        first = final_response(await setup.stream(input="Hi"))
        await setup.stream(input="And?", previous_response_id=first["id"])
        contents = [message["content"] for message in setup.last_body["messages"]]
    assert contents == ["Hi", "Hello, world", "And?"]
