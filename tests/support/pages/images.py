"""Pictures of every view, light and dark. Run as `python -m tests.support.pages.images FOLDER`."""

from __future__ import annotations

import asyncio
import io
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.async_api import Browser, Page

from tests.support.gateways import Running
from tests.support.pages.browser import open_browser
from tests.support.pages.sample_gateway import GOOD_CALL, REQUEST, TOOL, act, sample_gateway
from tests.support.pages.samples import make_usage, seed_trace
from tests.support.pages.watched import make_traced_request

VIEWS = (
    "now",
    "requests",
    "panel",
    "request",
    "verdict",
    "session",
    "usage",
    "models",
    "providers",
    "playground",
    "configuration",
)
ITEMS = (
    {"role": "user", "content": "Please call the tool: which files are here?"},
    {
        "type": "function_call",
        "call_id": "call_1",
        "name": TOOL["name"],
        "arguments": GOOD_CALL,
    },
    {"type": "function_call_output", "call_id": "call_1", "output": "README.md\nsrc\ntests"},
    {"role": "user", "content": "Thanks. And what is a canon in music?"},
)
"""The input of the second request of a session; the first has its first item."""
SIZE = (1200, 760)
WIDE = {"panel": (1440, 860)}
"""Views that need a larger window."""
CONFIG = "/etc/antiphon/antiphon.toml"
FREQUENT, OTHERS = 64, 190


async def fill_gateway(gateway: Running) -> dict[str, str]:
    """Make some requests, and return the paths of views that show one of them."""
    store = gateway.engine.services.tracer.store
    assert store is not None
    await asyncio.to_thread(seed_trace, store.path, int(time.time() * 1000), 1500)
    await gateway.engine.services.store.usage.add(make_usage(int(time.time()), 30))
    await gateway.post({"model": "other/model", "input": "Hello"})
    await gateway.stream({**REQUEST, "model": "fast"})
    id = await make_traced_request(gateway, REQUEST)
    model, tools = "deepseek/deepseek-v4-pro", [TOOL]
    wrong = {"model": model, "input": "Make a wrong call", "tools": tools}
    failed = await make_traced_request(gateway, wrong)
    for items in (ITEMS[:1], ITEMS):
        await make_traced_request(gateway, {"model": model, "input": items, "tools": tools}, "0199")
    await asyncio.sleep(1.5)  # the trace is written every half second
    return {
        "panel": f"requests?open={failed}",
        "request": f"requests/{id}",
        "verdict": f"requests/{failed}",
        "session": "sessions/0199",
    }


async def prepare(page: Page, view: str) -> None:
    """Bring a view into the state that is worth a picture."""
    if view == "playground":
        await page.get_by_label("Input", exact=True).fill("What is a canon in music?")
        await page.get_by_label("Compare with").fill("echo/echo")
        await page.get_by_role("button", name="Send").click()
        await page.locator(".answer .pill.ok").nth(1).wait_for()
    if view == "providers":
        await page.locator("[data-provider=deepseek] button").click()
        await page.locator("[data-provider=deepseek] .result a").wait_for()


async def take(
    browser: Browser, address: str, path: Path, theme: str, size: tuple[int, int], view: str
) -> None:
    context = await browser.new_context(
        color_scheme="dark" if theme == "dark" else "light",
        viewport={"width": size[0], "height": size[1]},
        reduced_motion="reduce",
    )
    page = await context.new_page()
    await page.goto(address)
    await page.locator("h1").wait_for()
    await prepare(page, view)
    await page.wait_for_timeout(400)
    picture = Image.open(io.BytesIO(await page.screenshot(type="png")))
    reduce_colours(picture.convert("RGB")).save(path, optimize=True)
    await context.close()


def reduce_colours(picture: Image.Image) -> Image.Image:
    """Keep the most frequent colours as they are, and the others nearly."""
    counted: Any = picture.getcolors(picture.width * picture.height)
    frequent = [colour for _, colour in sorted(counted, reverse=True)[:FREQUENT]]
    others = picture.quantize(OTHERS, Image.Quantize.MAXCOVERAGE).getpalette() or []
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for colour in frequent for part in colour] + others[: OTHERS * 3])
    return picture.quantize(palette=palette, dither=Image.Dither.NONE)


async def main(folder: Path, sizes: dict[str, tuple[int, int]] | None = None) -> None:
    with tempfile.TemporaryDirectory() as directory:
        async with (
            sample_gateway(Path(directory), name=CONFIG, script=act) as gateway,
            open_browser() as browser,
        ):
            paths = await fill_gateway(gateway)
            base = gateway.base_url.replace("/v1", "/ui")
            for suffix, size in (sizes or {"": SIZE}).items():
                for view in VIEWS:
                    path = paths.get(view, view)
                    for theme in ("light", "dark"):
                        picture = folder / f"{view}-{theme}{suffix}.png"
                        shown = size if sizes else WIDE.get(view, size)
                        await take(browser, f"{base}/{path}", picture, theme, shown, view)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    asyncio.run(main(target))
