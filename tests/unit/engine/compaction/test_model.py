"""`[compaction] model` must exist."""

from __future__ import annotations

import pytest

from antiphon.config import CompactionConfig, Config
from antiphon.engine.compaction.model import check_compaction_model
from antiphon.engine.routing import make_router
from antiphon.errors import ConfigError
from antiphon.providers.registry import build_providers


def check(model: str) -> None:
    config = Config(compaction=CompactionConfig(model=model))
    check_compaction_model(config, make_router(config, build_providers(config, {})))


def test_a_model_that_does_not_exist_is_an_error_of_the_configuration() -> None:
    with pytest.raises(ConfigError, match=r"compaction\.model: The model 'nobody/x'"):
        check("nobody/x")


@pytest.mark.parametrize("model", ["", "echo/echo"])
def test_no_model_and_a_known_one_are_accepted(model: str) -> None:
    assert check(model) is None  # type: ignore[func-returns-value]
