"""Where providers come from, and keys of the environment that none of them uses."""

from __future__ import annotations

from antiphon.cli.provider_sources import describe_providers, find_unused_keys
from antiphon.config import Config, ProviderConfig
from antiphon.providers.registry import build_providers

ENVIRONMENT = {"DEEPSEEK_API_KEY": "d", "ZHIPU_API_KEY": "z", "HF_TOKEN": "h"}


def test_a_provider_is_named_with_its_variable_or_the_file() -> None:
    config = Config(providers={"zhipu": ProviderConfig()})
    providers = build_providers(config, ENVIRONMENT)
    found = describe_providers(providers.values(), config, ENVIRONMENT)
    assert found == ["zhipu (file)", "deepseek (DEEPSEEK_API_KEY)"]


def test_only_keys_that_no_provider_has_are_unused() -> None:
    config = Config(
        providers={"mine": ProviderConfig(kind="deepseek", api_keys=["d"])},
        providers_from_environment=False,
    )
    unused = dict(find_unused_keys(build_providers(config, ENVIRONMENT), config, ENVIRONMENT))
    assert unused.keys() == {"ZHIPU_API_KEY", "HF_TOKEN"}
