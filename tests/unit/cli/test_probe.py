"""Live tests of providers: which model is requested, and how the result is reported."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon.cli.probe import ProbeResult, probe_providers
from antiphon.config import parse_config
from antiphon.providers.registry import build_providers

LAB = '[providers.lab]\nkind = "chat"\nbase_url = "{url}"\napi_keys = ["sk-of-the-lab"]\n'
REFUSING = "http://127.0.0.1:1/v1"  # connections to port 1 are refused


@pytest.fixture
def silent_url() -> Iterator[str]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"


def probe(text: str) -> dict[str, ProbeResult]:
    config = parse_config(text, os.environ, name="antiphon.toml")
    providers = [*build_providers(config, os.environ).values()]
    results = asyncio.run(probe_providers(config, os.environ, providers))
    return {result.provider: result for result in results}


pytestmark = pytest.mark.usefixtures("home")


def test_a_provider_that_answers_is_ok_and_no_file_is_written(home: Path) -> None:
    result = probe("")["echo"]
    assert (result.model, result.ok, result.fault) == ("echo", True, "")
    assert result.latency_ms is not None
    assert list(home.iterdir()) == []


def test_a_provider_without_a_known_model_is_skipped_with_advice() -> None:
    assert probe(LAB.format(url=REFUSING))["lab"] == ProbeResult(
        provider="lab",
        message='skipped: no model of lab is known; declare one as [providers.lab.models."NAME"]',
    )


@pytest.mark.parametrize(
    ("models", "requested"),
    [
        ('[providers.lab.models."one"]', "one"),
        ('[models]\na = "echo/echo"\nb = "lab/two"\nc = "lab/three"', "two"),
        ('[providers.lab.models."one"]\n[models]\na = "lab/two"', "two"),
    ],
    ids=["declared", "first alias", "alias and declared"],
)
def test_the_requested_model_is_that_of_an_alias_or_the_first_declared(
    models: str, requested: str
) -> None:
    result = probe(LAB.format(url=REFUSING) + models)["lab"]
    assert (result.model, result.ok) == (requested, False)


def test_a_fault_is_classified_with_the_message_of_the_provider() -> None:
    result = probe('[models]\na = "echo/error-429"\n')["echo"]
    assert result.ok is False
    assert result.fault.startswith("rate_limit · ")
    assert result.message.startswith("echo's rate limit was reached.")
    assert result.reason == "Echo: model 'error-429' always fails with status 429."


def test_a_provider_that_does_not_answer_in_time_is_reported(
    silent_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon.cli.probe.TIMEOUT_S", 0.2)
    result = probe(LAB.format(url=silent_url) + '[models]\na = "lab/m"\n')["lab"]
    assert (result.ok, result.fault) == (False, "timeout · probe")
    assert result.message == "lab/m did not respond within 0.2 seconds."
