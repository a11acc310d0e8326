"""The model catalog: what Codex is told of a model is what the provider's data says."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.config import Config, ModelConfig, ProviderConfig
from antiphon.engine.routing import make_router
from antiphon.providers.registry import SPECS, build_providers
from antiphon.server.model_catalog import entity_tag, model_list

KEYS = {name: "k" for spec in SPECS.values() for name in spec.api_key_env}


def listed(config: Config | None = None, environment: dict[str, str] | None = None) -> Any:
    config = config or Config()
    return model_list(make_router(config, build_providers(config, environment or {})))


def known(model: str, config: Config | None = None) -> dict[str, Any]:
    [entry] = [each for each in listed(config, KEYS)["models"] if each["slug"] == model]
    found: dict[str, Any] = entry
    return found


def told(**model: Any) -> dict[str, Any]:
    """What is told of a model of which this is known."""
    server = ProviderConfig(
        kind="chat", base_url="http://localhost:1/v1", models={"m": ModelConfig(**model)}
    )
    return known("lab/m", Config(providers={"lab": server}))


def efforts(entry: dict[str, Any]) -> list[str]:
    return [level["effort"] for level in entry["supported_reasoning_levels"]]


# The list


def test_both_shapes_name_the_same_models_in_the_same_order() -> None:
    found = listed(Config(models={"mine": "echo/reasoner"}))
    slugs = [entry["slug"] for entry in found["models"]]
    assert slugs == [each["id"] for each in found["data"]]
    assert {"mine", "echo/echo"} <= {*slugs}
    assert [entry["priority"] for entry in found["models"]] == [*range(len(slugs))]


def test_the_default_model_is_named_and_comes_first_though_no_provider_lists_it() -> None:
    found = listed(Config(models={"a": "zhipu/glm-5", "*": "deepseek/unlisted"}), KEYS)
    assert found["antiphon"]["default_model"] == "deepseek/unlisted"
    assert found["models"][0]["slug"] == found["data"][0]["id"] == "deepseek/unlisted"


def test_models_for_trying_things_out_do_not_fill_the_menu() -> None:
    shown = [each["slug"] for each in listed()["models"] if each["visibility"] == "list"]
    assert shown == ["echo/echo"]
    beside = listed(None, {"DEEPSEEK_API_KEY": "k"})["models"]
    assert {e["visibility"] for e in beside if e["slug"].startswith("echo/")} == {"hide"}
    assert {e["visibility"] for e in beside if e["slug"].startswith("deepseek/")} == {"list"}


def test_the_entity_tag_changes_with_the_list_and_only_with_it() -> None:
    assert entity_tag(listed()) == entity_tag(listed())
    assert entity_tag(listed()) != entity_tag(listed(Config(models={"a": "echo/echo"})))


# Efforts


@pytest.mark.parametrize(
    ("model", "rungs", "default"),
    [
        ("zhipu/glm-5.2", ["none", "high", "max"], "high"),
        ("zhipu/glm-4.6", ["none", "medium"], "medium"),
        ("gemini/gemini-3-pro-preview", ["low", "high"], "high"),
        ("mistral/mistral-large-4", ["none", "high"], "high"),
        ("openai/gpt-5", ["minimal", "low", "medium", "high"], "medium"),
    ],
)
def test_only_efforts_that_make_a_difference_are_offered(
    model: str, rungs: list[str], default: str
) -> None:
    entry = known(model)
    assert (efforts(entry), entry["default_reasoning_level"]) == (rungs, default)


def test_no_two_efforts_of_any_known_model_are_the_same_for_its_provider() -> None:
    config = Config()
    router = make_router(config, build_providers(config, KEYS))
    for entry in model_list(router)["models"]:
        target = router.resolve(entry["slug"])
        ladder = target.provider.capabilities(target.model).efforts
        words = [ladder[effort] for effort in efforts(entry)]
        assert len(words) == len({*words}) == len({*ladder.values()}), entry["slug"]
        assert entry.get("default_reasoning_level", "") in [*efforts(entry), ""]


def test_a_model_without_a_ladder_has_no_levels_and_no_default() -> None:
    entry = told(efforts={})
    assert efforts(entry) == []
    assert "default_reasoning_level" not in entry


def test_a_switch_is_not_described_as_a_measure() -> None:
    off, on = known("zhipu/glm-4.6")["supported_reasoning_levels"]
    assert off["description"] == "No reasoning"
    assert on["description"] == "Reasoning; the model decides how long"
    levels = known("openai/gpt-5")["supported_reasoning_levels"]
    assert len({level["description"] for level in levels}) == len(levels)


def test_an_effort_that_is_left_out_on_purpose_counts_as_one() -> None:
    entry = told(efforts={"low": "low", "medium": "", "high": "high"})
    assert (efforts(entry), entry["default_reasoning_level"]) == (
        ["low", "medium", "high"],
        "medium",
    )


# Room


@pytest.mark.parametrize(
    ("window", "output", "limit"),
    [
        (200_000, None, 180_000),  # a tenth stays free
        (200_000, 8_000, 180_000),
        (200_000, 32_000, 168_000),  # or as much as one answer may take
        (200_000, 128_000, 150_000),  # but never more than a quarter
        (1_000_000, 384_000, 900_000),
        (8_000, 8_000, 6_000),
    ],
)
def test_a_thread_is_compacted_while_a_whole_answer_still_fits(
    window: int, output: int | None, limit: int
) -> None:
    entry = told(context_window=window, max_output_tokens=output)
    assert (entry["context_window"], entry["max_context_window"]) == (window, window)
    assert entry["auto_compact_token_limit"] == limit


def test_a_window_that_nobody_knows_is_assumed_and_said_to_be() -> None:
    entry = told()
    assert entry["context_window"] == 128_000
    assert "max_context_window" not in entry
    assert "context window unknown" in entry["description"]
    assert "unknown" not in told(context_window=9)["description"]


def test_the_output_of_one_tool_never_fills_a_small_window() -> None:
    assert told(context_window=20_000)["truncation_policy"] == {"mode": "tokens", "limit": 2_000}
    assert told(context_window=500_000)["truncation_policy"]["limit"] == 10_000


def test_where_images_are_described_to_the_blind_they_may_be_sent_to_all() -> None:
    config = Config()
    router = make_router(config, build_providers(config, KEYS))
    assert {"image"} == {
        kind
        for each in model_list(router, describes_images=True)["models"]
        for kind in each["input_modalities"][1:]
    }
    assert ["text"] in [each["input_modalities"] for each in model_list(router)["models"]]


# Tools and the rest


def test_a_model_that_calls_tools_gets_all_of_them_one_call_each() -> None:
    entry = told()
    assert (entry["shell_type"], entry["tool_mode"]) == ("unified_exec", "direct")
    assert entry["apply_patch_tool_type"] == "freeform"
    assert entry["supports_search_tool"] is True
    assert "apply_patch" in entry["base_instructions"]


def test_a_model_that_calls_none_is_offered_none_and_told_so() -> None:
    entry = told(tools=False)
    assert entry["shell_type"] == "disabled"
    assert "apply_patch_tool_type" not in entry
    assert entry["supports_search_tool"] is False
    assert "no tools" in entry["base_instructions"]


def test_what_a_model_takes_decides_what_is_sent() -> None:
    assert told(inputs=["text"])["input_modalities"] == ["text"]
    assert told(inputs=["text", "image", "file"])["input_modalities"] == ["text", "image"]
    plain, native = known("deepseek/deepseek-v4-pro"), known("openai/gpt-5.5")
    assert (plain["support_verbosity"], native["support_verbosity"]) == (False, True)
    assert plain["supports_reasoning_summary_parameter"] is True
    assert plain["default_reasoning_summary"] == "auto"
