"""Problems of a configuration: everything that a start or a reload would reject, all at once."""

from __future__ import annotations

import pytest

from antiphon.config import Config, parse_config
from antiphon.errors import ConfigError
from antiphon.server.config_problems import find_config_problems
from antiphon.server.setup import make_checked_router
from tests.support.tables import table

NAME = "a.toml"


def find(text: str) -> list[str]:
    return [*find_config_problems(parse_config(text, {}, name=NAME), [], {}).problems]


@table(
    ("text", "problem"),
    [
        ('[models]\nx = "nobody/m"', "a.toml:2: models.x"),
        ('[vision]\nmodel = "a/b"', "a.toml:2: vision.model"),
        ('[compaction]\nmodel = "a/b"', "a.toml:2: compaction.model"),
        ("[clients.codexx]\n", "a.toml:1: clients.codexx"),
        ("[limits.bob]\nmax_streams = 1", "a.toml:1: limits.bob"),
        ('[shared]\nurl = "http://x"', "a.toml:2: shared.url"),
        ('[server]\nhost = "0.0.0.0"', "a.toml:2: server.host: others can reach"),
        ('[pipeline]\nstages = ["nobody"]', "a.toml:2: pipeline.stages: there is no stage"),
        (
            '[store]\nurl = "mysql://x"',
            "a.toml:2: store.url: 'mysql://x' is not a supported store URL",
        ),
        ('[store]\nurl = "postgresql://x/y"', "a.toml:2: store.url: gateways that share a store"),
    ],
)
def test_a_mistake_is_found_where_it_is(text: str, problem: str) -> None:
    [found] = find(text)
    assert problem in found


def test_a_problem_that_follows_from_another_is_left_out() -> None:
    text = 'default_provider = "lab"\n[providers.lab]\nkind = "none"\n[models]\nx = "lab/m"\n'
    [found] = find(text)
    assert "a.toml:3: providers.lab.kind" in found


def test_checks_of_the_caller_are_made_as_well() -> None:
    def check() -> None:
        raise ConfigError("the key file is empty")

    assert [*find_config_problems(Config(), [], {}, [check]).problems] == ["the key file is empty"]


def test_what_a_reload_rejects_is_a_problem() -> None:
    text = "[limits.bob]\nmax_streams = 1"
    with pytest.raises(ConfigError) as caught:
        make_checked_router(parse_config(text, {}, name=NAME), {})
    assert find(text) == [caught.value.message]
