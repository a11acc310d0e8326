"""Markup in every field that a client or a provider controls stays text, in every view."""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.async_api import Page, expect

from antiphon.store.sqlite.file import connect
from antiphon.store.trace.rows import (
    TraceAttempt,
    TraceDiagnostic,
    TraceError,
    TraceFinish,
    TraceRequest,
    TraceRow,
    TraceServerCall,
    TraceSkip,
    TraceStream,
)
from antiphon.store.trace.table import SCHEMA, EncodedRow, insert_rows
from antiphon.store.usage.usage_table import COUNTS, HOUR_S, UsageKey
from tests.support.gateways import Running
from tests.support.pages.sample_gateway import sample_gateway
from tests.support.pages.watched import BrowserTabs, make_traced_request
from tests.support.upstream import Connection, ReceivedRequest

ATTACK = (
    '"\'><img src=x onerror="window.attacked=1"><script>window.attacked=1</script>'
    "<svg onload=window.attacked=1>{{7*7}}${7*7}"
)
ID = "req_attack"
STRINGS: dict[type[TraceRow], dict[str, Any]] = {
    TraceRequest: {"received_at_ms": int(time.time() * 1000), "stream": True},
    TraceAttempt: {"number": 1, "status": 500, "latency_ms": 5},
    TraceSkip: {},
    TraceServerCall: {"result_bytes": 7, "duration_ms": 3},
    TraceDiagnostic: {},
    TraceError: {},
    TraceFinish: {"duration_ms": 9, "status": ATTACK},
}


def make_rows() -> list[TraceRow]:
    """A row of each kind, with the attack in every text."""
    rows: list[TraceRow] = []
    for kind, given in STRINGS.items():
        texts = [
            field.name
            for field in msgspec.structs.fields(kind)
            if "str" in str(field.type) and field.name not in ("request_id", "response_id")
        ]
        values = dict.fromkeys(texts, ATTACK) | {"request_id": ID, **given}
        rows.append(msgspec.convert(values, kind, strict=False))
    payloads: dict[Any, str] = {
        "request": json.dumps({"model": ATTACK, "input": ATTACK, ATTACK: [ATTACK]}),
        "outbound": json.dumps({"messages": [{"content": ATTACK}]}),
        "raw": f"data: {json.dumps({'choices': [{'delta': {'content': ATTACK}}]})}\n\n{ATTACK}",
        "transformed": f"event: {ATTACK}\ndata: {json.dumps({'delta': ATTACK})}\n\n",
    }
    now = STRINGS[TraceRequest]["received_at_ms"]
    rows += [
        TraceStream(
            request_id=ID, kind=kind, blob=text.encode(), offsets=[(0, now)], size=len(text)
        )
        for kind, text in payloads.items()
    ]
    return rows


def write_attack(path: Path) -> None:
    records = [
        EncodedRow(0, row, msgspec.json.encode(row), getattr(row, "blob", b""))
        for row in make_rows()
    ]
    with closing(connect(path, SCHEMA, synchronous="NORMAL")) as connection:
        insert_rows(connection, records)


async def attack(request: ReceivedRequest, connection: Connection) -> None:
    """A provider that answers with markup, or with an error full of it."""
    if "/zhipu" in request.path:
        await connection.head(400, content_type="application/json")
        error = {"message": ATTACK, "type": ATTACK, "code": ATTACK, "param": ATTACK}
        await connection.send(json.dumps({"error": error}).encode())
        return await connection.end()
    call = {"index": 0, "id": ATTACK, "function": {"name": "f", "arguments": json.dumps(ATTACK)}}
    deltas = [{"reasoning_content": ATTACK}, {"content": ATTACK}, {"tool_calls": [call]}]
    await connection.head()
    for delta in deltas:
        choice = {"index": 0, "delta": delta, "finish_reason": None}
        await connection.send(f"data: {json.dumps({'choices': [choice]})}\n\n".encode())
    finish = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    await connection.send(f"data: {json.dumps(finish)}\n\ndata: [DONE]\n\n".encode())
    return await connection.end()


@pytest.fixture(scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    async with sample_gateway(
        tmp_path_factory.mktemp("attack"), script=attack, models=[ATTACK]
    ) as gateway:
        store = gateway.engine.services.tracer.store
        assert store is not None
        write_attack(store.path)
        hour = int(time.time()) // HOUR_S
        key = UsageKey(hour, ATTACK, ATTACK, ATTACK)
        await gateway.engine.services.store.usage.add({key: (1,) * len(COUNTS)})
        yield gateway


async def expect_harmless(page: Page) -> None:
    assert await page.evaluate("window.attacked") is None
    for made in ("img[src=x]", "main script", "svg[onload]", "[onerror]"):
        await expect(page.locator(made)).to_have_count(0)


@pytest.mark.parametrize(
    "path",
    [
        "requests",
        f"requests?open={ID}",
        f"requests/{ID}",
        "usage?by=model",
        "usage?by=client",
        "usage?by=provider",
        "now",
    ],
)
async def test_recorded_markup_is_text(tabs: BrowserTabs, gateway: Running, path: str) -> None:
    async with tabs.open(gateway, path, width=1400) as page:
        if "open=" in path:
            await expect(page.locator(".preview").get_by_text("<img src=x").first).to_be_visible()
        if path != "now":
            await expect(page.get_by_text("<img src=x").first).to_be_attached()
        for summary in await page.locator(".entry > summary").all():
            if await summary.locator("xpath=..").get_attribute("open") is None:
                await summary.click()
        await expect_harmless(page)


@pytest.mark.parametrize("name", ["client", "model", "provider", "code", "status", "q"])
async def test_markup_in_the_address_is_text(
    tabs: BrowserTabs, gateway: Running, name: str
) -> None:
    async with tabs.open(gateway, "requests") as page:
        await page.goto(f"{page.url}?{name}=" + ATTACK.replace(" ", "%20").replace("#", "%23"))
        shown = page.locator("[name=status]" if name == "status" else "[name=q]")
        await expect(shown).to_have_value(re.compile(re.escape("<img src=x")))
        await expect_harmless(page)


async def test_markup_in_an_id_is_text(tabs: BrowserTabs, gateway: Running) -> None:
    allowed = ("Failed to load resource: the server responded with a status of 404",)
    async with tabs.open(gateway, "now", allowed=allowed) as page:
        await page.goto(page.url.replace("/now", "/requests/%3Cimg%20src=x%20onerror=alert(1)%3E"))
        await expect(page.get_by_role("alert")).to_contain_text("<img src=x")
        await expect_harmless(page)


async def test_markup_of_a_provider_is_text_in_the_playground(
    tabs: BrowserTabs, gateway: Running
) -> None:
    async with tabs.open(gateway, "playground?model=fast") as page:
        await page.get_by_label("Input", exact=True).fill(ATTACK)
        await page.get_by_role("button", name="Send").click()
        await expect(page.locator(".answer .text")).to_contain_text("<img src=x")
        await expect(page.locator(".answer .reasoning")).to_contain_text("<script>")
        await page.get_by_text("Raw events (").click()
        await expect_harmless(page)


async def test_markup_in_a_provider_s_list_of_models_is_text(
    tabs: BrowserTabs, gateway: Running
) -> None:
    async with tabs.open(gateway, "models?find=onerror") as page:
        row = page.locator(".list tbody tr", has_text="<img src=x").first
        await expect(row).to_contain_text("listed by the provider")
        await expect_harmless(page)
        await row.get_by_role("link", name="Try").click()
        await expect(page.get_by_role("combobox", name="Model")).to_have_value(
            re.compile(re.escape(ATTACK))
        )
        await expect_harmless(page)


async def test_markup_in_a_provider_s_error_is_text(tabs: BrowserTabs, gateway: Running) -> None:
    body = {"model": "zhipu/glm-5.3", "input": "Hello"}
    id = await make_traced_request(gateway, body)
    async with tabs.open(gateway, f"requests/{id}") as page:
        await expect(page.locator(".verdict .evidence")).to_contain_text("<img src=x")
        await expect_harmless(page)
        await page.goto(page.url.replace(f"requests/{id}", "providers"))
        await expect(page.locator(".provider")).to_have_count(3)
        await expect_harmless(page)
