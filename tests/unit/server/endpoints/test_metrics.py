"""GET /metrics: for operators, without a client key."""

from __future__ import annotations

from msgspec import structs

from antiphon.config import MetricsConfig
from antiphon.server.endpoints.operator import METRICS_TYPE
from tests.support.applications import LOCAL, document_of, echo_config, open_application

TEXT = "text/plain; version=0.0.4; charset=utf-8"
ADMIN = {**LOCAL, "authorization": "Bearer admin"}


async def test_metrics_are_text_and_need_no_client_key() -> None:
    config = echo_config(api_keys={"me": "mine"})
    async with open_application(config) as opened:
        await opened.application.process.start()
        response = await opened.request("GET", "/metrics")
    assert response.status == 200
    assert response.headers["content-type"] == METRICS_TYPE == TEXT
    assert isinstance(response.body, bytes)
    assert b"\nantiphon_running_streams 0.0\n" in response.body


async def test_a_client_key_is_not_an_admin_key() -> None:
    config = echo_config(api_keys={"me": "mine"}, admin_key="admin")
    async with open_application(config) as opened:
        await opened.application.process.start()
        with_client_key = {**LOCAL, "authorization": "Bearer mine"}
        refused = await opened.request("GET", "/metrics", headers=with_client_key)
        accepted = await opened.request("GET", "/metrics", headers=ADMIN)
    assert (refused.status, accepted.status) == (401, 200)


async def test_metrics_that_are_switched_off_are_a_404() -> None:
    config = structs.replace(echo_config(), metrics=MetricsConfig(enabled=False))
    async with open_application(config) as opened:
        await opened.application.process.start()
        response = await opened.request("GET", "/metrics")
    assert response.status == 404
    assert "[metrics]" in document_of(response)["error"]["message"]
