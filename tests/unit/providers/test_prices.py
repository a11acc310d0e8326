"""Prices: listed by provider and model, dated, overridden by the configuration, or unknown."""

from __future__ import annotations

import re

import pytest

from antiphon.config import PriceConfig, parse_config
from antiphon.errors import ConfigError
from antiphon.providers.prices import FREE, PRICES, Price, find_listed_price, read_price
from antiphon.providers.registry import SPECS, build_providers
from tests.support.tables import table

LISTED = [(provider, model) for provider, models in PRICES.items() for model in models]


@table(("provider", "model"), LISTED)
def test_a_listed_price_is_dated_and_plausible(provider: str, model: str) -> None:
    price = PRICES[provider][model]
    assert provider in SPECS
    assert re.fullmatch(r"20\d\d-\d\d", price.as_of)
    assert 0 <= price.input <= price.output < 1000
    assert price.cached_input is None or price.cached_input < price.input
    assert price.cache_write is None or price.cache_write > price.input


@pytest.mark.parametrize("model", ["gpt-5", "gpt-5-2025-08-07", "gpt-5-20250807"])
def test_a_dated_version_has_the_price_of_its_model(model: str) -> None:
    assert find_listed_price("openai", model) == PRICES["openai"]["gpt-5"]


@pytest.mark.parametrize("model", ["gpt-5-super", "gpt-5.9", "gpt", "o3-2025"])
def test_a_model_that_is_not_listed_has_no_price(model: str) -> None:
    assert find_listed_price("openai", model) is None


def provider_prices(text: str) -> dict[str, Price | None]:
    config = parse_config(text, {"OPENAI_API_KEY": "k"}, name="a.toml")
    providers = build_providers(config, {"OPENAI_API_KEY": "k"})
    return {model: providers["openai"].price(model) for model in ("gpt-5", "mine", "other")}


def test_a_configured_price_replaces_the_listed_one_key_by_key() -> None:
    prices = provider_prices('[prices."openai/gpt-5"]\noutput = 99')
    assert prices["gpt-5"] == Price(input=1.25, cached_input=0.125, output=99)
    assert prices["mine"] is None


def test_a_price_for_all_other_models_of_a_provider() -> None:
    prices = provider_prices(
        '[prices."openai/*"]\ninput = 1\noutput = 2\n'
        '[prices."openai/mine"]\ninput = 3\noutput = 4\ncache_write = 5\n'
    )
    assert prices["other"] == Price(input=1, output=2)
    assert prices["mine"] == Price(input=3, output=4, cache_write=5)


def test_models_that_run_inside_of_the_gateway_are_free() -> None:
    echo = build_providers(parse_config("", {}, name="a.toml"), {})["echo"]
    assert {echo.price(model) for model in echo.models()} == {FREE}


def test_half_a_price_stays_unknown() -> None:
    assert read_price(PriceConfig(input=1.0), None) is None
    assert read_price(PriceConfig(input=0.0, output=0.0), None) == Price(input=0, output=0)


def test_another_address_has_no_listed_price() -> None:
    text = '[providers.openai]\nbase_url = "https://proxy.example/v1"'
    assert provider_prices(text)["gpt-5"] is None


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("gpt-5", "must be of the form provider/model"),
        ("opnai/gpt-5", "there is no provider 'opnai'; did you mean 'openai'?"),
    ],
)
def test_a_price_of_nothing_is_an_error_of_the_configuration(key: str, problem: str) -> None:
    config = parse_config(f'[prices."{key}"]\ninput = 1', {}, name="a.toml")
    with pytest.raises(ConfigError, match=re.escape(problem)) as caught:
        build_providers(config, {})
    assert caught.value.message.startswith("a.toml:1: prices.")
