"""A model's name, and who serves it."""

from __future__ import annotations

import pytest

from antiphon.config import Config, ModelConfig, ProviderConfig
from antiphon.engine.routing import Router, make_router
from antiphon.errors import ConfigError, InvalidRequest
from antiphon.providers.registry import build_providers
from tests.support.tables import table

KEYS = {"DEEPSEEK_API_KEY": "d", "ZHIPU_API_KEY": "z"}
LOCAL = ProviderConfig(
    kind="chat",
    base_url="http://localhost:8000/v1",
    models={"meta/llama-4": ModelConfig(context_window=8192), "*": ModelConfig(max_tools=4)},
)


def router(config: Config | None = None, environment: dict[str, str] | None = None) -> Router:
    config = config or Config()
    return make_router(config, build_providers(config, environment or {}))


def resolved(found: Router, name: str) -> tuple[str, str]:
    target = found.resolve(name)
    return target.provider.name, target.model


def refused(found: Router, name: str) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        found.resolve(name)
    return caught.value


def test_a_provider_and_a_model_are_told_apart_by_the_first_slash() -> None:
    found = router(Config(providers={"local": LOCAL}))
    assert resolved(found, "local/any") == ("local", "any")
    assert resolved(found, "local/org/model/v2") == ("local", "org/model/v2")


def test_an_alias_comes_before_everything_else() -> None:
    aliases = {"gpt-5.5": "deepseek/deepseek-v4-pro", "zhipu/glm-5": "deepseek/x"}
    found = router(Config(models=aliases), KEYS)
    assert resolved(found, "gpt-5.5") == ("deepseek", "deepseek-v4-pro")
    assert resolved(found, "zhipu/glm-5") == ("deepseek", "x")


def test_the_wildcard_takes_what_nothing_else_does() -> None:
    found = router(Config(models={"*": "zhipu/glm-5.2"}), KEYS)
    assert resolved(found, "gpt-5.5") == ("zhipu", "glm-5.2")
    assert resolved(found, "nobody/nothing") == ("zhipu", "glm-5.2")
    assert resolved(found, "deepseek/deepseek-v4-pro") == ("deepseek", "deepseek-v4-pro")
    assert resolved(found, "deepseek-v4-pro") == ("deepseek", "deepseek-v4-pro")


def test_a_server_that_was_only_found_takes_no_name_from_those_that_were_chosen() -> None:
    """Any program can listen at a usual port, and list the names that others are asked for."""
    names = ("deepseek-v4-pro", "deepseek-v4-pro-2027", "gpt-5.5", "qwen3:8b")
    local = {
        "ollama": ProviderConfig(
            kind="ollama",
            base_url="http://localhost:11434",
            models={name: ModelConfig() for name in names},
        )
    }

    def owners(config: Config, environment: dict[str, str]) -> list[str]:
        found = router(config, environment)
        assert resolved(found, "ollama/gpt-5.5") == ("ollama", "gpt-5.5")
        return [resolved(found, name)[0] for name in names]

    chosen = Config(local=local, default_provider="ollama")
    assert owners(Config(local=local), {}) == ["ollama"] * 4
    assert owners(Config(local=local), KEYS) == ["deepseek", "deepseek", "ollama", "ollama"]
    wildcard = Config(local=local, models={"*": "zhipu/glm-5.2"})
    assert owners(wildcard, KEYS) == ["deepseek", "zhipu", "zhipu", "zhipu"]
    assert owners(chosen, KEYS) == ["ollama"] * 4
    assert (
        owners(Config(local=local, providers=local, models=wildcard.models), KEYS) == ["ollama"] * 4
    )


def test_without_any_configuration_echo_is_the_default() -> None:
    assert resolved(router(), "echo") == ("echo", "echo")
    assert resolved(router(), "reasoner") == ("echo", "reasoner")


def test_without_any_configuration_the_first_key_in_the_environment_decides() -> None:
    found = router(environment=KEYS)
    assert resolved(found, "anything") == ("deepseek", "anything")
    assert resolved(found, "glm-5.2") == ("zhipu", "glm-5.2")
    assert resolved(found, "echo") == ("echo", "echo")


def test_a_bare_name_goes_to_the_default_provider() -> None:
    found = router(Config(default_provider="zhipu"), KEYS)
    assert resolved(found, "anything") == ("zhipu", "anything")


def test_a_configured_model_is_found_by_its_bare_name_though_it_has_a_slash() -> None:
    found = router(Config(providers={"local": LOCAL}))
    assert resolved(found, "meta/llama-4") == ("local", "meta/llama-4")


def test_an_unknown_model_is_a_404_with_the_nearest_names() -> None:
    error = refused(router(environment=KEYS), "deepsek/deepseek-v4-por")
    assert (error.status, error.wire_code, error.param) == (404, "model_not_found", "model")
    assert "'deepsek/deepseek-v4-por' does not exist" in error.message
    assert "Did you mean deepseek/deepseek-v4-pro" in error.message


@table("name", ["gpt-5.5", "echo/nothing", "echo/", "/echo", "/", "nobody/echo", "*", "ECHO/echo"])
def test_what_echo_does_not_have_is_a_404(name: str) -> None:
    assert refused(router(), name).wire_code == "model_not_found"


def test_a_name_that_is_like_nothing_gets_no_suggestion() -> None:
    assert "Did you mean" not in refused(router(), "qqqqqqqqqqqqqqqqqqqqqqqqq").message


def test_every_listed_name_resolves_aliases_first_and_none_twice() -> None:
    aliases = {"fast": "echo/echo", "*": "echo/echo", "echo/cut": "echo/echo"}
    config = Config(providers={"local": LOCAL}, models=aliases)
    found = router(config)
    names = found.names()
    assert names[:3] == ["fast", "echo/cut", "local/meta/llama-4"]
    assert len(names) == len(set(names))
    assert {"*", "local/*"}.isdisjoint(names)
    assert {found.resolve(name).provider.name for name in names} == {"echo", "local"}


def test_the_default_name_is_what_answers_to_unknown_ones_or_comes_first() -> None:
    assert router().default_name() == "echo/echo"
    assert router(None, KEYS).default_name() == "deepseek/deepseek-v4-pro"
    assert router(Config(default_provider="zhipu"), KEYS).default_name() == "zhipu/glm-5.3"
    wildcard = Config(models={"a": "zhipu/glm-5", "*": "deepseek/unlisted"})
    assert router(wildcard, KEYS).default_name() == "deepseek/unlisted"


def test_a_model_that_was_chosen_on_the_page_is_the_default_while_a_provider_has_it() -> None:
    chosen = Config(default_provider="deepseek", chosen_model="zhipu/glm-5.3")
    assert router(chosen, KEYS).default_name() == "zhipu/glm-5.3"
    assert router(Config(chosen_model="zhipu/glm-5.3")).default_name() == "echo/echo"
    in_file = Config(chosen_model="zhipu/glm-5.3", models={"*": "deepseek/unlisted"})
    assert router(in_file, KEYS).default_name() == "deepseek/unlisted"


def test_the_default_name_is_listed_even_if_the_default_provider_lists_none() -> None:
    bare = Config(
        default_provider="bare",
        providers={"bare": ProviderConfig(kind="chat", base_url="http://localhost:1/v1")},
        models={"mine": "bare/m"},
    )
    assert router(bare).default_name() == "mine"


@pytest.mark.parametrize("name", ["deepseek/deepseek-v4-pro", "deepseek-v4-pro"])
def test_a_model_of_a_provider_without_a_key_names_the_variable(name: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        router(Config(), {}).resolve(name)
    assert caught.value.message == (
        f"The model {name!r} is not available: the provider deepseek has no API key: set"
        " DEEPSEEK_API_KEY and start again."
    )
    assert (caught.value.status, caught.value.wire_code) == (404, "model_not_found")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        (
            "deepseek/m",
            "the provider deepseek is not configured: add [providers.deepseek] to the"
            " configuration, and set DEEPSEEK_API_KEY",
        ),
        ("vllm/m", "the provider vllm is not configured: add [providers.vllm] to the"),
    ],
)
def test_a_model_of_a_provider_that_is_not_in_the_file_names_the_table(
    name: str, advice: str
) -> None:
    config = Config(providers_from_environment=False, models={"fast": name})
    with pytest.raises(InvalidRequest) as caught:
        router(Config(providers_from_environment=False), {}).resolve(name)
    assert advice in caught.value.message
    with pytest.raises(ConfigError) as rejected:
        make_router(config, build_providers(config, {}))
    assert rejected.value.message.startswith(f"models.fast: {advice}")


def test_an_alias_with_a_star_serves_every_name_that_fits_it() -> None:
    aliases = {"claude-*": "zhipu/glm-5.2", "claude-haiku-*": "echo/echo", "claude-x": "echo/cut"}
    found = router(Config(models=aliases), KEYS)
    assert resolved(found, "claude-opus-4-8") == ("zhipu", "glm-5.2")
    assert resolved(found, "claude-haiku-4") == ("zhipu", "glm-5.2"), "the first that fits"
    assert resolved(found, "claude-x") == ("echo", "cut"), "an alias without a star comes first"
    assert resolved(found, "deepseek/claude-1") == ("deepseek", "claude-1")
    assert "claude-*" not in found.names()
    assert refused(found, "echo/claude").status == 404


def test_a_name_may_have_the_prefix_of_clients_that_list_no_others() -> None:
    found = router(Config(models={"claude-*": "echo/echo", "fast": "echo/cut"}), KEYS)
    assert resolved(found, "claude-via-zhipu/glm-5.2") == ("zhipu", "glm-5.2")
    assert resolved(found, "claude-via-fast") == ("echo", "cut")
    assert refused(found, "claude-via-nobody/x").message.startswith(
        "The model 'claude-via-nobody/x'"
    )


def test_lists_have_the_test_models_only_where_there_is_nothing_else() -> None:
    assert router(Config(), {}).listed_names() == ["echo/echo"]
    beside = router(Config(), {"DEEPSEEK_API_KEY": "k"})
    assert {name.partition("/")[0] for name in beside.listed_names()} == {"deepseek"}
    assert beside.resolve("echo/error-500").model == "error-500"
    alias = router(Config(models={"test": "echo/slow"}), {"DEEPSEEK_API_KEY": "k"})
    assert alias.listed_names()[0] == "test"


def test_discovered_models_are_listed_beside_the_others_of_their_provider() -> None:
    environment = {"DEEPSEEK_API_KEY": "k", "ZHIPU_API_KEY": "k"}
    found = ["zhipu/new-glm", "deepseek/new-one"]
    names = router(Config(models={"fast": "zhipu/glm-5.3"}), environment).listed_names(found)
    owners = [name.partition("/")[0] for name in names]
    assert owners == [
        "fast",
        *["deepseek"] * owners.count("deepseek"),
        *["zhipu"] * owners.count("zhipu"),
    ]
    assert {*found} <= {*names}
