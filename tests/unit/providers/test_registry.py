"""Providers as they are configured: found by their keys, overridden by the operator."""

from __future__ import annotations

import pytest

from antiphon.config import Config, ModelConfig, ProviderConfig
from antiphon.core.plan import Capabilities
from antiphon.providers.registry import SPECS, build_providers
from antiphon.providers.spec import Model, Spec, ladder
from tests.providers import asked, configured, planned

CHAT = ProviderConfig(kind="chat", base_url="http://localhost:8000/v1/")


def test_without_configuration_a_key_in_the_environment_makes_a_provider() -> None:
    keys = {"MIMO_API_KEY": "x", "DEEPSEEK_API_KEY": "d", "ZHIPU_API_KEY": ""}
    found = build_providers(Config(), keys)
    assert list(found) == ["deepseek", "xiaomi", "echo"]
    assert found["xiaomi"].api_keys == ("x",)


def test_without_any_key_there_is_echo() -> None:
    assert list(build_providers(Config(), {})) == ["echo"]


def test_configuration_decides_alone_which_providers_there_are_but_for_echo() -> None:
    found = build_providers(Config(providers={"local": CHAT}), {"DEEPSEEK_API_KEY": "d"})
    assert list(found) == ["local", "echo"]


def test_a_configured_provider_finds_its_key_in_the_environment_unless_it_has_one() -> None:
    entries = {
        "deepseek": ProviderConfig(),
        "other": ProviderConfig(kind="deepseek", api_keys=["o"]),
    }
    found = build_providers(Config(providers=entries), {"DEEPSEEK_API_KEY": "d"})
    assert (found["deepseek"].api_keys, found["other"].api_keys) == (("d",), ("o",))


def test_a_server_of_ones_own_needs_no_key() -> None:
    local = build_providers(Config(providers={"local": CHAT}), {})["local"]
    assert local.base_url == "http://localhost:8000/v1"
    assert local.authorization("") == {}
    assert local.authorization("k") == {"authorization": "Bearer k"}


def test_headers_are_added_to_the_providers_own() -> None:
    assert configured("chat", headers={"x-team": "blue"}).headers == {"x-team": "blue"}


def test_an_operator_knows_better_field_by_field() -> None:
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
        strict_tools=base.strict_tools,
    )
    assert base == SPECS["deepseek"].capabilities


def test_every_field_that_an_operator_may_set_is_a_capability() -> None:
    assert set(ModelConfig.__struct_fields__) <= set(Capabilities.__struct_fields__)


def test_a_star_is_every_model_without_an_entry() -> None:
    overrides = {"*": ModelConfig(max_tools=1), "b": ModelConfig(max_tools=2)}
    provider = configured("chat", models=overrides)
    assert [provider.capabilities(model).max_tools for model in "ab"] == [1, 2]
    assert provider.models() == ["b"]


def test_an_overridden_effort_reaches_the_provider_or_is_left_out() -> None:
    provider = configured("chat", models={"m": ModelConfig(efforts={"low": "tiny", "high": ""})})
    assert asked(provider, "m", reasoning={"effort": "low"})["reasoning_effort"] == "tiny"
    assert "reasoning_effort" not in asked(provider, "m", reasoning={"effort": "high"})
    assert planned(provider, "m", reasoning={"effort": "max"}).effort is None


def test_a_known_model_lends_its_data_to_names_that_begin_with_its_own() -> None:
    small, large = Capabilities(max_tools=1), Capabilities(max_tools=2)
    spec = Spec(
        name="x",
        title="X",
        models=(
            Model(id="m-1", capabilities=small),
            Model(id="m-1.5", capabilities=large),
            Model(id="m-1.5-plain"),
        ),
    )
    found = [spec.capabilities_of(name) for name in ("m-1-air", "M-1.5-max", "m-1.5-plain", "m")]
    assert found == [small, large, spec.capabilities, spec.capabilities]


def test_a_ladder_is_read_rung_by_rung() -> None:
    assert ladder("off - low low high high max") == {
        "none": "off",
        "low": "low",
        "medium": "low",
        "high": "high",
        "xhigh": "high",
        "max": "max",
    }
    with pytest.raises(ValueError, match="zip"):
        ladder("low high")
