"""A request that is sent again counts towards the limits of its client."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from antiphon.cli.trace.resend import resend
from antiphon.config import CapsuleConfig, ClientLimitConfig, Config, LimitConfig, TraceConfig
from antiphon.errors import InvalidRequest, LimitExceeded
from antiphon.store.trace.reader import list_requests


@pytest.fixture
def config(tmp_path: Path, home: Path) -> Config:
    return Config(
        trace=TraceConfig(path=str(tmp_path / "trace.db")),
        capsule=CapsuleConfig(keys=["a key that only tests use"]),
        limits=LimitConfig(clients={"*": ClientLimitConfig(cost_per_day=0.0)}),
    )


BODY = json.dumps({"model": "echo/echo", "input": "Hi"}).encode()


def test_a_client_without_a_budget_cannot_send_again(config: Config) -> None:
    with pytest.raises(LimitExceeded):
        resend(config, BODY, "alice", "responses", None)


def test_a_model_that_does_not_exist_is_named(config: Config) -> None:
    with pytest.raises(InvalidRequest, match="nobody/nothing"):
        resend(config, BODY, "alice", "responses", "nobody/nothing")


def test_the_gateway_s_own_request_is_sent_again_as_its_own(
    config: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert resend(config, BODY, "antiphon", "responses", None) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "completed"
    [row] = list_requests(tmp_path / "trace.db")
    assert (row.request.client, row.request.stream) == ("antiphon", True)


def test_a_request_is_sent_again_in_the_format_of_its_client(
    config: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = {"model": "echo/echo", "messages": [{"role": "user", "content": "Hi"}], "n": 1}
    assert resend(config, json.dumps(body).encode(), "antiphon", "chat", None) == 0
    assert json.loads(capsys.readouterr().out)["output_text"] == "Hi"
    [row] = list_requests(tmp_path / "trace.db")
    assert row.request.format == "chat"
