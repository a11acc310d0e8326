"""Model servers on this machine: found at their addresses, with what they say of their models."""

from __future__ import annotations

import asyncio
import time

from antiphon.config import Config, DiscoveryConfig, ModelConfig, ProviderConfig
from antiphon.engine.discovery.local_servers import (
    PATIENCE_S,
    SWITCH,
    add_local_servers,
    is_searched,
    read_ollama_host,
)
from antiphon.engine.routing import make_router
from antiphon.providers.registry import build_providers
from tests.support.local_servers import local_server
from tests.support.model_lists import ListServer, list_server
from tests.support.tables import table

NOWHERE = "http://127.0.0.1:1"


def at(**urls: str) -> Config:
    """A configuration with these addresses; the other servers are nowhere."""
    nowhere = dict.fromkeys(("ollama", "lmstudio", "vllm", "llamacpp"), NOWHERE)
    addresses = {**nowhere, **urls}
    return Config(providers={name: ProviderConfig(base_url=url) for name, url in addresses.items()})


async def test_ollama_is_found_with_the_capabilities_that_it_reports() -> None:
    with local_server("ollama") as url:
        config = at()
        del config.providers["ollama"]
        found = await add_local_servers(config, {"OLLAMA_HOST": url.removeprefix("http://")})
    assert [*found.local] == ["ollama"]
    providers = build_providers(found, {})
    assert providers["ollama"].base_url == url
    assert providers["ollama"].models() == ["qwen3:8b", "gemma3:4b"]  # no model for embeddings
    qwen, gemma = map(providers["ollama"].capabilities, ("qwen3:8b", "gemma3:4b"))
    assert (qwen.context_window, qwen.tools, sorted(qwen.inputs)) == (40960, True, ["text"])
    assert (gemma.context_window, gemma.tools) == (131072, False)
    assert sorted(gemma.inputs) == ["image", "text"]
    assert (bool(qwen.efforts), dict(gemma.efforts)) == (True, {})
    router = make_router(found, providers)
    assert router.resolve("gemma3:4b").name == ("ollama", "gemma3:4b")


async def test_lm_studio_is_found_without_its_embedding_models() -> None:
    with local_server("lmstudio") as url:
        found = await add_local_servers(at(lmstudio=f"{url}/v1"), {})
    models = found.local["lmstudio"].models
    assert models == {
        "qwen/qwen3-4b": ModelConfig(context_window=8192, inputs=["text"], tools=True),
        "qwen2-vl-7b": ModelConfig(context_window=32768, inputs=["text", "image"]),
    }


async def test_vllm_and_llama_cpp_are_known_by_the_owner_of_their_models() -> None:
    with local_server("vllm") as vllm, local_server("llamacpp") as llamacpp:
        config = at(vllm=f"{vllm}/v1", llamacpp=f"{llamacpp}/v1")
        found = (await add_local_servers(config, {})).local
        swapped = at(vllm=f"{llamacpp}/v1", llamacpp=f"{vllm}/v1")
        assert (await add_local_servers(swapped, {})).local == {}
    assert found["vllm"].models["meta-llama/Llama-3.1-8B-Instruct"].context_window == 131072
    assert [*found["llamacpp"].models] == ["gpt-oss-20b-mxfp4.gguf"]


async def test_another_program_at_a_usual_port_is_not_taken_for_a_model_server() -> None:
    with local_server("other") as url:
        config = at(ollama=url, lmstudio=url, vllm=f"{url}/v1", llamacpp=f"{url}/v1")
        found = await add_local_servers(config, {})
    assert {*found.local} <= {"lmstudio"}  # which was configured: its OpenAI list is read
    assert "vllm" not in found.local


async def test_a_server_that_does_not_answer_is_waited_for_only_briefly() -> None:
    async with list_server(ListServer(b"", gate=asyncio.Event())) as server:
        began = time.monotonic()
        found = await add_local_servers(at(ollama=server.url), {})
        assert time.monotonic() - began < 4 * PATIENCE_S
        assert server.gate is not None
        server.gate.set()
    assert found.local == {}


async def test_what_the_file_says_of_a_model_has_precedence() -> None:
    with local_server("ollama") as url:
        entry = ProviderConfig(base_url=url, models={"qwen3:8b": ModelConfig(context_window=8000)})
        config = at()
        config.providers["ollama"] = entry
        found = await add_local_servers(config, {})
    provider = build_providers(found, {})["ollama"]
    assert provider.capabilities("qwen3:8b").context_window == 8000
    assert provider.capabilities("gemma3:4b").context_window == 131072


def test_the_search_can_be_switched_off() -> None:
    assert is_searched(Config(), {})
    assert not is_searched(Config(discovery=DiscoveryConfig(local_servers=False)), {})
    assert not is_searched(Config(providers_from_environment=False), {})
    assert not is_searched(Config(), {SWITCH: "off"})


@table(
    ("value", "url"),
    [
        ("", ""),
        ("gpu-box", "http://gpu-box:11434"),
        ("127.0.0.1:9999", "http://127.0.0.1:9999"),
        (":9999", "http://127.0.0.1:9999"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("https://ollama.example/base/", "https://ollama.example:443/base"),
        ("http://[::1]:7000", "http://[::1]:7000"),
        ("host:port", ""),
    ],
)
def test_ollama_host_is_read_as_ollama_does(value: str, url: str) -> None:
    assert read_ollama_host(value) == url
