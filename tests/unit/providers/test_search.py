"""Who searches the web for a model: its provider, the gateway, or nobody."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.config import Config, ProviderConfig, SearchConfig
from antiphon.core.plan.plan import Capabilities
from antiphon.errors import ConfigError
from antiphon.providers.registry import build_providers

BRAVE = SearchConfig(backend="brave", api_key="k")


def capabilities(
    kind: str, model: str, search: SearchConfig | None = None, **entry: Any
) -> Capabilities:
    url = "" if kind != "chat" else "http://127.0.0.1:1/v1"
    provider = ProviderConfig(kind=kind, base_url=url, api_keys=["k"], **entry)
    config = Config(providers={"p": provider}, search=search or SearchConfig())
    return build_providers(config, {})["p"].capabilities(model)


def test_without_a_search_backend_capabilities_are_unchanged() -> None:
    assert capabilities("chat", "m").web_search == "ignore"
    assert capabilities("openai", "gpt-5.4").web_search == "native"


def test_the_gateway_searches_for_a_model_without_search() -> None:
    can = capabilities("chat", "m", BRAVE)
    assert can.web_search == "managed"
    assert can.web_search_limits == {"filters", "user_location"}


def test_native_search_is_kept() -> None:
    can = capabilities("openai", "gpt-5.4", BRAVE)
    assert can == capabilities("openai", "gpt-5.4")


def test_configuration_overrides_how_to_search() -> None:
    assert capabilities("chat", "m", BRAVE, web_search="ignore").web_search == "ignore"
    assert capabilities("chat", "m", BRAVE, web_search="refuse").web_search == "refuse"
    managed = capabilities("openai", "gpt-5.4", BRAVE, web_search="managed")
    assert (managed.web_search, "user_location" in managed.web_search_limits) == ("managed", True)


def test_managed_search_without_a_backend_is_an_error_that_names_the_key() -> None:
    with pytest.raises(ConfigError) as caught:
        capabilities("chat", "m", web_search="managed")
    assert "providers.p.web_search" in caught.value.message


def test_a_search_backend_without_its_key_is_an_error_that_names_the_key() -> None:
    with pytest.raises(ConfigError) as caught:
        capabilities("chat", "m", SearchConfig(backend="tavily"))
    assert "search.api_key" in caught.value.message
