"""The model catalog: entries follow from the data of the providers and the configuration."""

from __future__ import annotations

from typing import Any

from antiphon.config import Config, ModelConfig, ProviderConfig
from antiphon.engine.routing import make_router
from antiphon.providers.registry import SPECS, build_providers
from antiphon.server.model_catalog import ADVISOR_PROMPT, AGENT_PROMPT, entity_tag, model_list
from tests.support.tables import table

KEYS = {name: "k" for spec in SPECS.values() for name in spec.api_key_env}


def make_list(config: Config | None = None, environment: dict[str, str] | None = None) -> Any:
    config = config or Config()
    return model_list(make_router(config, build_providers(config, environment or {})))


def find_entry(model: str, config: Config | None = None) -> dict[str, Any]:
    [entry] = [each for each in make_list(config, KEYS)["models"] if each["slug"] == model]
    found: dict[str, Any] = entry
    return found


def entry_for(**model: Any) -> dict[str, Any]:
    """The catalog entry of a model with this configuration."""
    server = ProviderConfig(
        kind="chat", base_url="http://localhost:1/v1", models={"m": ModelConfig(**model)}
    )
    return find_entry("lab/m", Config(providers={"lab": server}))


def efforts(entry: dict[str, Any]) -> list[str]:
    return [level["effort"] for level in entry["supported_reasoning_levels"]]


# The list


def test_both_shapes_name_the_same_models_in_the_same_order() -> None:
    found = make_list(Config(models={"mine": "echo/reasoner"}))
    slugs = [entry["slug"] for entry in found["models"]]
    assert slugs == [each["id"] for each in found["data"]]
    assert {"mine", "echo/echo"} <= {*slugs}
    assert [entry["priority"] for entry in found["models"]] == [*range(len(slugs))]


def test_the_default_model_is_named_and_comes_first_though_no_provider_lists_it() -> None:
    found = make_list(Config(models={"a": "zhipu/glm-5", "*": "deepseek/unlisted"}), KEYS)
    assert found["antiphon"]["default_model"] == "deepseek/unlisted"
    assert found["models"][0]["slug"] == found["data"][0]["id"] == "deepseek/unlisted"


def test_a_built_in_test_model_is_listed_only_if_there_is_no_other() -> None:
    assert [each["slug"] for each in make_list()["models"]] == ["echo/echo"]
    assert [each["id"] for each in make_list()["data"]] == ["echo/echo"]
    beside = make_list(None, {"DEEPSEEK_API_KEY": "k"})
    assert {each["owned_by"] for each in beside["data"]} == {"deepseek"}
    assert {each["visibility"] for each in beside["models"]} == {"list"}


def test_the_entity_tag_changes_with_the_list_and_only_with_it() -> None:
    assert entity_tag(make_list()) == entity_tag(make_list())
    assert entity_tag(make_list()) != entity_tag(make_list(Config(models={"a": "echo/echo"})))


# Efforts


@table(
    ("model", "levels", "default"),
    [
        ("zhipu/glm-5.2", ["none", "high", "max"], "high"),
        ("zhipu/glm-4.6", ["none", "medium"], "medium"),
        ("gemini/gemini-3-pro-preview", ["low", "high"], "high"),
        ("mistral/mistral-large-4", ["none", "high"], "high"),
        ("openai/gpt-5", ["minimal", "low", "medium", "high"], "medium"),
    ],
)
def test_only_efforts_that_make_a_difference_are_offered(
    model: str, levels: list[str], default: str
) -> None:
    entry = find_entry(model)
    assert (efforts(entry), entry["default_reasoning_level"]) == (levels, default)


def test_no_two_efforts_of_any_known_model_are_the_same_for_its_provider() -> None:
    config = Config()
    router = make_router(config, build_providers(config, KEYS))
    for entry in model_list(router)["models"]:
        target = router.resolve(entry["slug"])
        mapping = target.provider.capabilities(target.model).efforts
        values = [mapping[effort] for effort in efforts(entry)]
        assert len(values) == len({*values}) == len({*mapping.values()}), entry["slug"]
        assert entry.get("default_reasoning_level", "") in [*efforts(entry), ""]


def test_a_model_without_efforts_has_no_levels_and_no_default() -> None:
    entry = entry_for(efforts={})
    assert efforts(entry) == []
    assert "default_reasoning_level" not in entry


def test_a_single_effort_is_described_without_a_length() -> None:
    off, on = find_entry("zhipu/glm-4.6")["supported_reasoning_levels"]
    assert off["description"] == "No reasoning"
    assert on["description"] == "Reasoning; the model decides how long"
    levels = find_entry("openai/gpt-5")["supported_reasoning_levels"]
    assert len({level["description"] for level in levels}) == len(levels)


def test_an_effort_with_an_empty_value_counts_as_one_of_its_own() -> None:
    entry = entry_for(efforts={"low": "low", "medium": "", "high": "high"})
    assert (efforts(entry), entry["default_reasoning_level"]) == (
        ["low", "medium", "high"],
        "medium",
    )


# Context window


@table(
    ("window", "output", "limit"),
    [
        (200_000, None, 180_000),  # a tenth is reserved
        (200_000, 8_000, 180_000),
        (200_000, 32_000, 168_000),  # or as much as one output may take
        (200_000, 128_000, 150_000),  # but never more than a quarter
        (1_000_000, 384_000, 900_000),
        (8_000, 8_000, 6_000),
    ],
)
def test_a_thread_is_compacted_while_a_whole_output_still_fits(
    window: int, output: int | None, limit: int
) -> None:
    entry = entry_for(context_window=window, max_output_tokens=output)
    assert (entry["context_window"], entry["max_context_window"]) == (window, window)
    assert entry["auto_compact_token_limit"] == limit


def test_an_unknown_context_window_is_assumed_and_marked_as_unknown() -> None:
    entry = entry_for()
    assert entry["context_window"] == 128_000
    assert "max_context_window" not in entry
    assert "context window unknown" in entry["description"]
    assert "unknown" not in entry_for(context_window=9)["description"]


def test_the_output_of_one_tool_is_limited_to_a_tenth_of_a_small_window() -> None:
    assert entry_for(context_window=20_000)["truncation_policy"] == {
        "mode": "tokens",
        "limit": 2_000,
    }
    assert entry_for(context_window=500_000)["truncation_policy"]["limit"] == 10_000


def test_every_model_takes_images_where_they_are_described() -> None:
    config = Config()
    router = make_router(config, build_providers(config, KEYS))
    assert {"image"} == {
        kind
        for each in model_list(router, describes_images=True)["models"]
        for kind in each["input_modalities"][1:]
    }
    assert ["text"] in [each["input_modalities"] for each in model_list(router)["models"]]


# Tools and the rest


def test_a_model_with_tools_is_offered_shell_patch_and_search() -> None:
    entry = entry_for()
    assert (entry["shell_type"], entry["tool_mode"]) == ("unified_exec", "direct")
    assert entry["apply_patch_tool_type"] == "freeform"
    assert entry["supports_search_tool"] is True
    assert "apply_patch" in entry["base_instructions"]


def test_a_model_without_tools_is_offered_none_and_its_prompt_says_so() -> None:
    entry = entry_for(tools=False)
    assert entry["shell_type"] == "disabled"
    assert "apply_patch_tool_type" not in entry
    assert entry["supports_search_tool"] is False
    assert "no tools" in entry["base_instructions"]


def test_modalities_and_verbosity_follow_from_the_capabilities() -> None:
    assert entry_for(inputs=["text"])["input_modalities"] == ["text"]
    assert entry_for(inputs=["text", "image", "file"])["input_modalities"] == ["text", "image"]
    plain, native = find_entry("deepseek/deepseek-v4-pro"), find_entry("openai/gpt-5.5")
    assert (plain["support_verbosity"], native["support_verbosity"]) == (False, True)
    assert plain["supports_reasoning_summary_parameter"] is True
    assert plain["default_reasoning_summary"] == "auto"


def test_only_the_prompt_of_agents_with_tools_names_tools() -> None:
    assert "apply_patch" in AGENT_PROMPT
    assert "no tools" in ADVISOR_PROMPT
    assert "apply_patch" not in ADVISOR_PROMPT


def test_lines_are_joined_as_they_were_written() -> None:
    for prompt in (AGENT_PROMPT, ADVISOR_PROMPT):
        assert prompt.endswith("\n")
        assert "\\" not in prompt
        assert "  " not in prompt
