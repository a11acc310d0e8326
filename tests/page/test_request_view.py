"""One request: the waterfall of its attempts, four lanes on one time axis, and what can be done."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from tests.support.gateways import Running, running, settings
from tests.support.pages.sample_gateway import (
    ANSWER,
    BUSY,
    REQUEST,
    THINKING,
    TOOL,
    act,
    sample_gateway,
)
from tests.support.pages.watched import BrowserTabs, link_with_token, make_traced_request
from tests.support.upstream import send_json, upstream

FLASH = {"model": "deepseek/deepseek-flash"}
CALL = {**FLASH, "tools": [TOOL]}
BUSY_MODEL = "zhipu/glm-5.3"
FORMATS: dict[str, Any] = {
    "responses": {"model": BUSY_MODEL, "input": "What is a canon?"},
    "chat/completions": {
        "model": BUSY_MODEL,
        "messages": [{"role": "user", "content": "What is a canon?"}],
    },
    "messages": {
        "model": BUSY_MODEL,
        "max_tokens": 200,
        "messages": [{"role": "user", "content": "What is a canon?"}],
    },
}
"""The same request in the formats of clients, to a model that is busy."""
_FUNCTION = {"name": "exec_command", "arguments": '{"cmd": "pwd"}'}
_USE = {"type": "tool_use", "id": "c1", "name": "exec_command", "input": {"cmd": "pwd"}}
_USED = {"type": "tool_result", "tool_use_id": "c1", "content": "/home/alice"}
CONVERSATIONS: dict[str, Any] = {
    "responses": {
        **FLASH,
        "input": [
            {"role": "user", "content": "Where am I?"},
            {"type": "function_call", "call_id": "c1", **_FUNCTION},
            {"type": "function_call_output", "call_id": "c1", "output": "/home/alice"},
        ],
    },
    "chat/completions": {
        **FLASH,
        "messages": [
            {"role": "user", "content": "Where am I?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": _FUNCTION}],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "/home/alice"},
        ],
    },
    "messages": {
        **FLASH,
        "max_tokens": 200,
        "messages": [
            {"role": "user", "content": "Where am I?"},
            {"role": "assistant", "content": [_USE]},
            {"role": "user", "content": [_USED]},
        ],
    },
}
"""The same conversation in the formats of clients."""
OWN_EVENTS = {
    "responses": ("output_item.added message", "completed"),
    "chat/completions": ("text.delta", "[DONE]"),
    "messages": ("content_block_start text", "message_stop"),
}
"""A cell of each format, and the last one."""
# Counts moments that a replay has not reached, whether somebody looks in time or not.
COUNT_FUTURE = """() => {
  window.future = 0;
  new MutationObserver(() => {
    window.future = Math.max(window.future, document.querySelectorAll(".moment.future").length);
  }).observe(document.body, { subtree: true, attributes: true, attributeFilter: ["class"] });
}"""


@pytest.fixture(scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    async with sample_gateway(tmp_path_factory.mktemp("one"), script=act) as gateway:
        yield gateway


@pytest.fixture
async def calm_gateway(tmp_path: Path) -> AsyncIterator[Running]:
    """A gateway whose circuit breakers no other test has opened."""
    async with sample_gateway(tmp_path, script=act) as gateway:
        yield gateway


async def test_the_x_ray_shows_attempts_and_four_lanes(
    tabs: BrowserTabs, calm_gateway: Running
) -> None:
    id = await make_traced_request(calm_gateway, REQUEST)
    async with tabs.open(calm_gateway, f"requests/{id}") as page:
        await expect(page.locator(".chart .attempt.failed")).to_have_count(3)
        await expect(page.locator(".chart .attempt .flow")).to_have_count(1)
        await expect(page.locator(".chart .lane")).to_have_count(4)
        await expect(page.locator(".chart .cut")).to_have_count(0)
        await expect(page.locator(".chart .lane.raw .tick").nth(5)).to_be_visible()
        attempts = page.get_by_role("table", name="Attempts")
        await expect(attempts.locator("tbody tr")).to_have_count(4)
        await expect(attempts.locator("tbody tr").first).to_contain_text(BUSY)
        await expect(page.locator(".lane-head")).to_have_text(
            "timeClient requestSent upstreamUpstream streamEvents to client"
        )
        await expect(page.locator(".entry.request")).to_have_count(1)
        await expect(page.locator(".entry.outbound")).to_have_count(4)
        events = page.locator(".entry.transformed .title")
        await expect(events.first).to_have_text("created")
        await expect(events.last).to_have_text("completed")


async def test_the_result_is_text_with_folded_reasoning_and_its_cost(
    tabs: BrowserTabs, gateway: Running
) -> None:
    id = await make_traced_request(gateway, REQUEST)
    async with tabs.open(gateway, f"requests/{id}") as page:
        result = page.get_by_role("region", name="Result")
        await expect(result.locator(".prose.text")).to_have_text(f"{ANSWER} ")
        await expect(result.locator("details.reasoning")).not_to_have_attribute("open", "")
        await result.get_by_text("Reasoning", exact=True).click()
        await expect(result.locator("details.reasoning p")).to_contain_text(THINKING)
        await expect(result).to_contain_text("812 tokens in (79 % cached) · 64 out · $0.00028")
        await expect(page.get_by_role("region", name="Verdict")).to_have_count(0)


async def test_neighbouring_deltas_are_one_cell_that_says_what_differs(
    tabs: BrowserTabs, gateway: Running
) -> None:
    id = await make_traced_request(gateway, {**CALL, "input": "call it"})
    async with tabs.open(gateway, f"requests/{id}") as page:
        cells = page.locator(".entry.transformed", has_text="arguments.delta")
        await expect(cells.first.locator("q")).to_contain_text('{"cm')
        assert await cells.count() <= 2  # the last chunk has the end as well
        raw = page.locator(".entry.raw", has_text="arguments.delta").first
        await expect(raw.locator(".size").first).to_contain_text("×")
        await raw.locator("summary").first.click()
        await expect(raw.locator(".joined")).to_contain_text('{"cmd": "ls')


async def test_a_call_is_shown_as_json_and_fits_its_schema_or_not(
    tabs: BrowserTabs, gateway: Running
) -> None:
    good = await make_traced_request(gateway, {**CALL, "input": "call it"})
    async with tabs.open(gateway, f"requests/{good}") as page:
        call = page.get_by_role("region", name="Result").locator(".call")
        await expect(call.locator("strong")).to_have_text("exec_command")
        await expect(call.locator(".pill.ok")).to_have_text("fits the schema")
        await expect(call.locator("pre")).to_have_text('{\n  "cmd": "ls -la"\n}')
        await expect(page.get_by_role("region", name="Verdict")).to_have_count(0)
    wrong = await make_traced_request(gateway, {**CALL, "input": "wrong call"})
    async with tabs.open(gateway, f"requests/{wrong}") as page:
        call = page.get_by_role("region", name="Result").locator(".call")
        await expect(call.locator(".pill.bad")).to_have_text("breaks the schema")
        await expect(call.locator(".problems")).to_have_text('"cmd" is a required property')
        verdict = page.get_by_role("region", name="Verdict")
        await expect(verdict).to_contain_text("Caused by the model")
        await expect(verdict.locator(".evidence")).to_contain_text("exec_command")


@pytest.mark.parametrize(
    ("body", "cause", "title"),
    [
        ({"model": "zhipu/glm-5.3", "input": "Hi"}, "provider", "zhipu is overloaded"),
        ({**FLASH, "input": "cut"}, "network", "cut within the stream"),
        ({**FLASH, "input": "long"}, "model", "deepseek-flash was cut off"),
        ({**FLASH, "input": "Hi", "temperature": 9}, "client", "invalid: temperature"),
        ({"model": "no/such", "input": "Hi"}, "client", "has the model no/such"),
    ],
)
async def test_a_verdict_names_the_cause(
    tabs: BrowserTabs, gateway: Running, body: Any, cause: str, title: str
) -> None:
    id = await make_traced_request(gateway, body)
    async with tabs.open(gateway, f"requests/{id}") as page:
        verdict = page.get_by_role("region", name="Verdict")
        await expect(verdict.locator(".cause")).to_have_text(f"Caused by the {cause}")
        await expect(verdict.locator("h2")).to_contain_text(title)
        await expect(verdict.locator(".remedy")).to_contain_text("What to do: ")
        cut = page.locator(".chart .cut")
        await expect(cut).to_have_count(1 if body["input"] == "cut" else 0)


async def test_a_failed_request_is_tried_on_another_model(
    tabs: BrowserTabs, gateway: Running
) -> None:
    for path, body in FORMATS.items():
        async with gateway.client.post(f"{gateway.base_url}/{path}", json=body) as response:
            await response.read()
            id = response.headers["x-request-id"]
        async with tabs.open(gateway, f"requests/{id}") as page:
            await page.get_by_label("Another model").fill("fast")
            await page.get_by_role("button", name="Try on this model").click()
            shown = page.locator(".retry-result")
            await expect(shown.locator(".prose.text")).to_contain_text("A canon is a melody")
            await shown.get_by_role("link", name="Open this request").click()
            await expect(page.locator("header.head")).to_contain_text("client admin")


async def test_the_input_is_a_conversation_in_every_format(
    tabs: BrowserTabs, gateway: Running
) -> None:
    for path, body in CONVERSATIONS.items():
        async with gateway.client.post(f"{gateway.base_url}/{path}", json=body) as response:
            await response.read()
            id = response.headers["x-request-id"]
        async with tabs.open(gateway, f"requests/{id}?tab=Input") as page:
            turns = page.get_by_role("tabpanel").locator(".turn")
            await expect(turns.filter(has_text="Where am I?")).to_have_count(1)
            await expect(turns.locator(".call strong")).to_have_text("exec_command")
            await expect(turns.locator(".call.result")).to_contain_text("result of exec_command")
            await expect(turns.locator(".call.result pre")).to_have_text("/home/alice")
            await page.get_by_role("tab", name="Sent upstream").click()
            assert page.url.endswith("?tab=Sent+upstream")
            sent = page.get_by_role("tabpanel").locator(".turn", has_text="/home/alice")
            await expect(sent).to_have_count(1)
            await page.get_by_role("tab", name="Raw").click()
            raw = page.get_by_role("tabpanel").locator(".raw-stream")
            await expect(raw.nth(2).locator("pre")).to_contain_text("data: {")


async def test_events_are_shown_in_the_format_of_the_client(
    tabs: BrowserTabs, gateway: Running
) -> None:
    for path, (expected, last) in OWN_EVENTS.items():
        body = {**CONVERSATIONS[path], "stream": True}
        async with gateway.client.post(f"{gateway.base_url}/{path}", json=body) as response:
            received = (await response.read()).decode()
            id = response.headers["x-request-id"]
        async with tabs.open(gateway, f"requests/{id}") as page:
            cells = page.locator(".entry.transformed .title")
            await expect(cells.filter(has_text=expected).first).to_be_visible()
            await expect(cells.last).to_contain_text(last)
            await page.get_by_role("tab", name="Raw").click()
            shown = page.locator(".raw-stream").last.locator("pre")
            text = (await shown.inner_text()).strip()
            assert received.startswith(text)
            assert received[len(text) :].strip() in ("", "data: [DONE]")


async def test_previous_and_next_requests_are_reached_by_keys(
    tabs: BrowserTabs, gateway: Running
) -> None:
    ids = [await make_traced_request(gateway, {**FLASH, "input": "Hi"}) for _ in range(3)]
    async with tabs.open(gateway, f"requests/{ids[1]}") as page:
        await page.keyboard.press("j")
        await expect(page.locator(".crumbs")).to_contain_text(ids[0])
        await page.keyboard.press("k")
        await expect(page.locator(".crumbs")).to_contain_text(ids[1])
        await page.get_by_role("link", name="Previous").click()
        await expect(page.locator(".crumbs")).to_contain_text(ids[2])
        await page.keyboard.press("Escape")
        await expect(page.locator("h1")).to_have_text("Requests")


async def test_diagnostics_are_pinned_to_their_fields(tabs: BrowserTabs, gateway: Running) -> None:
    id = await make_traced_request(gateway, REQUEST)
    async with tabs.open(gateway, f"requests/{id}?tab=Input") as page:
        line = page.locator(".line", has_text="presence_penalty").filter(has=page.locator(".pin"))
        await expect(line.locator(".pin")).to_contain_text("is not supported by")
        await expect(line.locator(".pin code")).to_have_text("param.ignored")


async def test_an_entry_unfolds_by_mouse_and_from_the_axis(
    tabs: BrowserTabs, gateway: Running
) -> None:
    id = await make_traced_request(gateway, REQUEST)
    async with tabs.open(gateway, f"requests/{id}") as page:
        last = page.locator(".entry.transformed").last
        await last.locator("summary").first.click()
        await expect(last.locator(".json")).to_contain_text("total_tokens")
        await page.locator(".lane.raw .hit").click()
        await expect(page.locator(".entry.raw[open]")).to_have_count(1)
        await expect(page.locator(".entry.raw[open] summary").first).to_be_focused()


async def test_a_replay_hides_what_comes_later_and_ends(
    tabs: BrowserTabs, gateway: Running
) -> None:
    id = await make_traced_request(gateway, REQUEST)
    async with tabs.open(gateway, f"requests/{id}") as page:
        await page.evaluate(COUNT_FUTURE)
        button = page.get_by_role("button", name="Replay", exact=True)
        await button.click()
        await expect(button).to_be_enabled()
        await expect(page.locator(".moment.future")).to_have_count(0)
        assert await page.evaluate("window.future") > 0


async def test_a_request_is_copied_and_sent_again(tabs: BrowserTabs, gateway: Running) -> None:
    body = {**REQUEST, "input": "Isn't it?", "metadata": {"team": "blue"}}
    id = await make_traced_request(gateway, body)
    async with tabs.open(gateway, f"requests/{id}") as page:
        await page.get_by_role("button", name="Copy as curl").click()
        await expect(page.locator("#toast")).to_have_text("Copied")
        curl = await page.evaluate("navigator.clipboard.readText()")
        assert f"curl {gateway.base_url}/responses" in curl
        assert r"Isn'\''t it?" in curl
        await page.get_by_role("link", name="Send again…").click()
        await expect(page.get_by_label("Input", exact=True)).to_have_value("Isn't it?")
        await expect(page.get_by_label("Instructions")).to_have_value("Answer in one sentence.")
        await page.get_by_role("combobox", name="Model").fill("fast")
        await page.get_by_role("button", name="Send").click()
        await expect(page.locator(".answer .output")).to_contain_text(ANSWER)
        await page.get_by_role("link", name="X-ray").click()
        await expect(page.locator("h1")).to_contain_text("fast")
        await expect(page.locator("header.head")).to_contain_text("client admin")
        await page.get_by_role("tab", name="Input").click()
        sent = page.get_by_role("tabpanel")
        for kept in ("metadata", "blue", "presence_penalty", "verbosity"):
            await expect(sent).to_contain_text(kept)


async def test_a_request_of_a_thread_is_sent_again_without_it(
    tabs: BrowserTabs, gateway: Running
) -> None:
    body = {**REQUEST, "model": "fast", "store": True}
    _, _, first = await gateway.post(body)
    id = await make_traced_request(gateway, {**body, "previous_response_id": first["id"]})
    async with tabs.open(gateway, f"playground?from={id}") as page:
        await expect(page.locator(".banner")).to_contain_text("without previous_response_id")
        await page.get_by_role("button", name="Send").click()
        await expect(page.locator(".answer .pill")).to_have_text("completed")


async def test_facts_name_the_software_and_the_tokens(tabs: BrowserTabs, gateway: Running) -> None:
    id = await make_traced_request(gateway, {**REQUEST, "model": "fast"})
    async with tabs.open(gateway, f"requests/{id}?tab=Facts") as page:
        facts = page.locator("dl.facts")
        await expect(facts).to_contain_text("Client softwarePython/")
        await expect(facts).to_contain_text("First tokenafter ")
        await expect(facts).to_contain_text("Finish reasonstop")
        await expect(page.locator(".totals")).to_contain_text("812 tokens in (79 % cached)")
        await expect(page.locator(".totals")).to_contain_text("price unknown")


async def test_everything_that_a_provider_said_of_a_failed_attempt_is_shown(
    tabs: BrowserTabs, tmp_path: Path
) -> None:
    said = {"message": "Bad field.", "type": "bad_type", "code": "bad_code", "param": "bad_param"}
    script = send_json(400, {"error": said}, x_request_id="up-1")
    async with upstream(script) as server, running(settings(tmp_path, server.url)) as gateway:
        id = await make_traced_request(gateway, {"model": "up/m", "input": "Hello"})
        async with tabs.open(gateway, f"requests/{id}") as page:
            row = page.get_by_role("table", name="Attempts").locator("tbody tr")
            words = "type bad_type, code bad_code, param bad_param, request id up-1"
            await expect(row).to_contain_text(words)
            await expect(row.locator("pre")).to_contain_text('"message": "Bad field."')


async def test_without_payloads_the_page_says_how_to_keep_them(
    tabs: BrowserTabs, tmp_path: Path
) -> None:
    async with sample_gateway(tmp_path, payloads=False) as gateway:
        id = await make_traced_request(gateway, REQUEST)
        async with tabs.open(gateway, f"requests/{id}") as page:
            await expect(page.get_by_role("switch")).to_be_disabled()
        async with tabs.open(gateway, link_with_token(gateway, f"requests/{id}")) as page:
            await expect(page.locator(".empty")).to_contain_text("payloads = true")
            await page.get_by_role("switch").check()
            await expect(page.locator(".payload-switch")).to_contain_text("are kept until")
            kept = await make_traced_request(gateway, REQUEST)
            await page.goto(page.url.replace(id, kept))
            await expect(page.get_by_role("region", name="Result")).to_contain_text(ANSWER)
            await page.goto(page.url.split("/requests/")[0] + "/requests")
            await page.get_by_role("switch").uncheck()
            await expect(page.locator(".payload-switch")).to_contain_text("for 15 minutes")
            await page.goto(f"{page.url}/{id}")
            await expect(page.locator(".chart .attempt")).to_have_count(4)
            await expect(page.locator(".chart .lane")).to_have_count(0)
            await page.get_by_role("tab", name="Input").click()
            diagnostics = page.get_by_role("table", name="Diagnostics")
            await expect(diagnostics).to_contain_text("presence_penalty")
            await expect(page.locator("main")).not_to_contain_text("What is a canon")


async def test_a_rejected_request_says_why(tabs: BrowserTabs, gateway: Running) -> None:
    _, headers, _ = await gateway.post({"model": "fast", "input": "Hello", "temperature": 9})
    async with tabs.open(gateway, f"requests/{headers['x-request-id']}") as page:
        await expect(page.locator(".failure")).to_contain_text("temperature")
        await expect(page.locator("main")).to_contain_text("No provider was called.")
