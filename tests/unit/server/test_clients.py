"""Client profiles by request headers, with overrides of the operator."""

from __future__ import annotations

import pytest

from antiphon.config import ClientConfig, Config
from antiphon.errors import ConfigError
from antiphon.server.setup import make_checked_router, make_profile_resolver


@pytest.mark.parametrize(
    ("headers", "name"),
    [
        ({}, "other"),
        ({"originator": "codex_cli_rs"}, "codex"),
        ({"user-agent": "OpenAI/Python 2.1"}, "openai-python"),
        ({"user-agent": "curl/8"}, "other"),
    ],
)
def test_a_client_is_recognised_by_originator_or_user_agent(
    headers: dict[str, str], name: str
) -> None:
    resolve = make_profile_resolver(Config())
    profile = resolve(headers.get("originator", ""), headers.get("user-agent", ""))
    assert profile.name == name


def test_a_profile_has_the_name_that_the_software_gives_itself() -> None:
    assert make_profile_resolver(Config())("", "curl/8").software == "curl/8"


def test_an_override_applies_to_its_profile_and_a_star_to_every_profile() -> None:
    config = Config(
        clients={
            "*": ClientConfig(keepalive="comment"),
            "codex": ClientConfig(permanent_errors="exact"),
        }
    )
    resolve = make_profile_resolver(config)
    codex, other = resolve("codex", ""), resolve("", "")
    assert (codex.keepalive, codex.permanent_errors) == ("comment", "exact")
    assert other.keepalive == "comment"


def test_an_unknown_profile_in_the_configuration_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"clients.codexx: there is no such profile"):
        make_profile_resolver(Config(clients={"codexx": ClientConfig()}))


def test_a_small_model_has_to_exist_and_changes_no_response() -> None:
    known = Config(clients={"claude-code": ClientConfig(small_model="echo/echo")})
    make_checked_router(known, {})
    user_agent = "claude-cli/2.1.326"
    plain = make_profile_resolver(Config())
    assert make_profile_resolver(known)("", user_agent) == plain("", user_agent)
    unknown = Config(clients={"claude-code": ClientConfig(small_model="nobody/x")})
    with pytest.raises(ConfigError, match=r"clients\.claude-code\.small_model: .*'nobody/x'"):
        make_checked_router(unknown, {})
