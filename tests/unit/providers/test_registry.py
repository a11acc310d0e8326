"""Providers with their configuration: keys, URLs, headers, overrides and search."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.config import Config, ModelConfig, ProviderConfig, SearchConfig
from antiphon.core.capabilities import Capabilities
from antiphon.core.plan.plan import Outbound
from antiphon.dialects.bedrock.sigv4 import sign
from antiphon.errors import ConfigError
from antiphon.providers.registry import SPECS, build_providers
from tests.support.outbound_requests import configured, encode_request, make_request_plan
from tests.support.tables import table

AT = "20150830T123600Z"
OUTBOUND = Outbound(path="/model/m/converse", headers={"accept": "application/json"}, body=b"{}")
CHAT = ProviderConfig(kind="chat", base_url="http://localhost:8000/v1/")


def test_without_configuration_a_key_in_the_environment_enables_a_provider() -> None:
    keys = {"MIMO_API_KEY": "x", "DEEPSEEK_API_KEY": "d", "ZHIPU_API_KEY": ""}
    found = build_providers(Config(), keys)
    assert list(found) == ["deepseek", "xiaomi", "echo"]
    assert found["xiaomi"].api_keys == ("x",)


def test_without_any_key_only_echo_is_enabled() -> None:
    assert list(build_providers(Config(), {})) == ["echo"]


def test_configured_providers_come_before_those_of_the_environment() -> None:
    config = Config(providers={"local": CHAT})
    assert list(build_providers(config, {"DEEPSEEK_API_KEY": "d"})) == ["local", "deepseek", "echo"]


def test_a_configured_provider_is_not_replaced_by_the_one_of_the_environment() -> None:
    entry = ProviderConfig(base_url="http://127.0.0.1:1", api_keys=["f"])
    found = build_providers(Config(providers={"deepseek": entry}), {"DEEPSEEK_API_KEY": "d"})
    assert (found["deepseek"].base_url, found["deepseek"].api_keys) == (
        "http://127.0.0.1:1",
        ("f",),
    )


def test_a_setting_turns_the_providers_of_the_environment_off() -> None:
    config = Config(providers={"local": CHAT}, providers_from_environment=False)
    assert list(build_providers(config, {"DEEPSEEK_API_KEY": "d"})) == ["local", "echo"]


def test_a_configured_provider_without_a_key_takes_it_from_the_environment() -> None:
    entries = {
        "deepseek": ProviderConfig(),
        "other": ProviderConfig(kind="deepseek", api_keys=["o"]),
    }
    found = build_providers(Config(providers=entries), {"DEEPSEEK_API_KEY": "d"})
    assert (found["deepseek"].api_keys, found["other"].api_keys) == (("d",), ("o",))


def test_a_self_hosted_server_needs_no_key() -> None:
    local = build_providers(Config(providers={"local": CHAT}), {})["local"]
    assert local.base_url == "http://localhost:8000/v1"
    assert local.authorization("", OUTBOUND, lambda: AT) == {}
    assert local.authorization("k", OUTBOUND, lambda: AT) == {"authorization": "Bearer k"}


@table("name", [name for name, spec in SPECS.items() if not spec.needs_key])
def test_a_self_hosted_server_is_enabled_only_by_configuration(name: str) -> None:
    assert name == "echo" or name not in build_providers(Config(), {})
    entry = ProviderConfig(base_url=SPECS[name].base_url or "http://localhost:1/v1")
    assert build_providers(Config(providers={name: entry}), {})[name].api_keys == ()


@pytest.mark.parametrize("name", ["huggingface", "github", "azure", "vertex"])
def test_an_ambient_key_or_a_missing_base_url_enables_no_provider(name: str) -> None:
    keys = dict.fromkeys(SPECS[name].api_key_env, "k")
    assert list(build_providers(Config(), keys)) == ["echo"]
    entry = ProviderConfig(base_url="https://here.example")
    found = build_providers(Config(providers={name: entry}), keys)
    assert found[name].api_keys == ("k",)


@table(
    ("name", "header", "value"),
    [
        ("openai", "authorization", "Bearer k"),
        ("anthropic", "x-api-key", "k"),
        ("gemini", "x-goog-api-key", "k"),
        ("vertex", "authorization", "Bearer k"),
        ("azure", "api-key", "k"),
        ("bedrock", "authorization", "Bearer k"),
        ("cohere", "authorization", "Bearer k"),
        ("ollama", "authorization", "Bearer k"),
    ],
)
def test_a_key_is_sent_in_the_providers_header(name: str, header: str, value: str) -> None:
    assert configured(name).authorization("k", OUTBOUND, lambda: AT) == {header: value}


def test_a_key_pair_signs_for_the_region_of_the_base_url() -> None:
    address = "https://bedrock-runtime.eu-west-1.amazonaws.com"
    provider = configured("bedrock", base_url=address, headers={"X-Team": "blue"})
    signed = provider.authorization("AKIDEXAMPLE123456:secret:token", OUTBOUND, lambda: AT)
    assert signed == sign(
        "POST",
        f"{address}/model/m/converse",
        {"x-team": "blue", "accept": "application/json"},
        b"{}",
        access_key="AKIDEXAMPLE123456",
        secret_key="secret",
        session_token="token",
        region="eu-west-1",
        service="bedrock",
        timestamp=AT,
    )
    assert "/20150830/eu-west-1/bedrock/aws4_request" in signed["authorization"]


def test_configured_query_parameters_are_added_to_the_request_url() -> None:
    azure = configured("azure")
    assert (
        azure.request_url(OUTBOUND)
        == f"{azure.base_url}/model/m/converse?api-version=2025-04-01-preview"
    )
    encode_request = Outbound(path="/models/m:go?alt=sse")
    assert azure.request_url(encode_request).endswith(
        "/models/m:go?alt=sse&api-version=2025-04-01-preview"
    )
    newer = configured("azure", query={"api-version": "", "a b": "c&d"})
    assert newer.request_url(OUTBOUND).endswith("/model/m/converse?a+b=c%26d")
    assert configured("openai").request_url(Outbound(path="/responses")) == (
        "https://api.openai.com/v1/responses"
    )


def test_the_issuer_is_a_known_provider_or_one_server() -> None:
    assert configured("deepseek", base_url="https://proxy.example").issuer == "deepseek"
    here, there = (configured("chat", base_url=f"http://{host}/v1") for host in ("a", "b"))
    assert (here.issuer, there.issuer) == ("chat http://a/v1", "chat http://b/v1")


def test_configured_headers_are_lowercased_and_added() -> None:
    assert configured("chat", headers={"X-Team": "blue"}).headers == {"x-team": "blue"}


def test_configured_capabilities_override_each_field() -> None:
    better = ModelConfig(
        context_window=9,
        max_output_tokens=8,
        inputs=["text", "image"],
        efforts={"low": "tiny", "high": ""},
        formats=["text"],
        parameters=["temperature"],
        tool_choice=["auto"],
        tools=False,
        max_tools=7,
        replay_reasoning="always",
        developer_role=True,
        system_messages="after_user",
        thinks_by_default=False,
        fixed_by_thinking=["temperature"],
        forced_choice_stops_thinking=False,
        ranges={"temperature": (0, 1.5)},
        conflicting_parameters={"top_p": "temperature"},
        strict_tools=True,
        strict_together=True,
        closed_objects=False,
        tool_output_images=True,
        formats_beside_tools=False,
        guards=["think"],
    )
    provider = configured("deepseek", models={"mine": better})
    base = provider.capabilities("deepseek-v4-pro")
    assert provider.capabilities("mine") == Capabilities(
        context_window=9,
        max_output_tokens=8,
        inputs=frozenset({"text", "image"}),
        efforts={"low": "tiny", "high": None},
        formats=frozenset({"text"}),
        parameters=frozenset({"temperature"}),
        tool_choice=frozenset({"auto"}),
        tools=False,
        max_tools=7,
        replay_reasoning="always",
        developer_role=True,
        system_messages="after_user",
        thinks_by_default=False,
        fixed_by_thinking=frozenset({"temperature"}),
        forced_choice_stops_thinking=False,
        ranges={"temperature": (0, 1.5)},
        conflicting_parameters={"top_p": "temperature"},
        strict_tools=True,
        strict_together=True,
        closed_objects=False,
        tool_output_images=True,
        formats_beside_tools=False,
        guards=("think",),
    )
    assert base == SPECS["deepseek"].capabilities


def test_every_configurable_field_is_a_capability() -> None:
    assert set(ModelConfig.__struct_fields__) <= set(Capabilities.__struct_fields__)


def test_a_star_applies_to_every_model_without_an_entry() -> None:
    overrides = {"*": ModelConfig(max_tools=1), "b": ModelConfig(max_tools=2)}
    provider = configured("chat", models=overrides)
    assert [provider.capabilities(model).max_tools for model in "ab"] == [1, 2]
    assert provider.models() == ["b"]


def test_an_overridden_effort_is_sent_or_left_out() -> None:
    provider = configured("chat", models={"m": ModelConfig(efforts={"low": "tiny", "high": ""})})
    assert encode_request(provider, "m", reasoning={"effort": "low"})["reasoning_effort"] == "tiny"
    assert "reasoning_effort" not in encode_request(provider, "m", reasoning={"effort": "high"})
    assert make_request_plan(provider, "m", reasoning={"effort": "max"}).effort is None


def test_a_family_prefix_is_not_listed_as_a_model() -> None:
    provider = configured("moonshot")
    assert "moonshot-v1" not in provider.models()
    assert provider.capabilities("moonshot-v1-128k").efforts == {}


# --- web search -----------------------------------------------------------------------------------

BRAVE = SearchConfig(backend="brave", api_key="k")


def search_capabilities(
    kind: str, model: str, search: SearchConfig | None = None, **entry: Any
) -> Capabilities:
    url = "" if kind != "chat" else "http://127.0.0.1:1/v1"
    provider = ProviderConfig(kind=kind, base_url=url, api_keys=["k"], **entry)
    config = Config(providers={"p": provider}, search=search or SearchConfig())
    return build_providers(config, {})["p"].capabilities(model)


def test_without_a_search_backend_capabilities_are_unchanged() -> None:
    assert search_capabilities("chat", "m").web_search == "none"
    assert search_capabilities("openai", "gpt-5.4").web_search == "native"


def test_the_gateway_searches_for_a_model_without_search() -> None:
    can = search_capabilities("chat", "m", BRAVE)
    assert can.web_search == "managed"
    assert can.web_search_limits == {"filters", "user_location"}


def test_native_search_is_kept() -> None:
    can = search_capabilities("openai", "gpt-5.4", BRAVE)
    assert can == search_capabilities("openai", "gpt-5.4")


def test_configuration_overrides_how_to_search() -> None:
    assert search_capabilities("chat", "m", BRAVE, web_search="ignore").web_search == "ignore"
    assert search_capabilities("chat", "m", BRAVE, web_search="refuse").web_search == "refuse"
    managed = search_capabilities("openai", "gpt-5.4", BRAVE, web_search="managed")
    assert (managed.web_search, "user_location" in managed.web_search_limits) == ("managed", True)


def test_managed_search_without_a_backend_is_an_error_that_names_the_key() -> None:
    with pytest.raises(ConfigError) as caught:
        search_capabilities("chat", "m", web_search="managed")
    assert "providers.p.web_search" in caught.value.message


def test_a_search_backend_without_its_key_is_an_error_that_names_the_key() -> None:
    with pytest.raises(ConfigError) as caught:
        search_capabilities("chat", "m", SearchConfig(backend="tavily"))
    assert "search.api_key" in caught.value.message


@table(
    "url",
    [
        "http://127.0.0.1:99999/v1",
        "http://127.0.0.1:0/v1",
        "http://127.0.0.1:8o80/v1",
        "http://user:pass/word@host/v1",
        "http://[::1/v1",
        "http:///v1",
        "https://:443/v1",
    ],
)
def test_an_address_without_a_usable_host_and_port_is_an_error(url: str) -> None:
    config = Config(providers={"lab": ProviderConfig(kind="chat", base_url=url)})
    with pytest.raises(ConfigError) as caught:
        build_providers(config, {})
    assert caught.value.path == ("providers", "lab", "base_url")
    assert "pass" not in caught.value.message
