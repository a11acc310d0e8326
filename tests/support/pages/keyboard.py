"""The order in which Tab reaches the controls of a view."""

from __future__ import annotations

from playwright.async_api import Page

_CONTROLS = (
    "a[href], button:not([disabled]), input:not([disabled]), select, textarea, summary,"
    ' [tabindex="0"]'
)
_NAME = """(element) => {
  const name = element.getAttribute("aria-label") ?? element.name ?? "";
  const text = (element.textContent ?? "").trim().slice(0, 30);
  return `${element.tagName.toLowerCase()} ${name} ${text}`;
}"""
_STOPS = f"""([selector, most]) => [...document.querySelectorAll(`main :is(${{selector}})`)]
  .filter((each) => each.checkVisibility() && each.tabIndex >= 0).slice(0, most).map({_NAME})"""
_FOCUSED = f"""() => {{
  const element = document.activeElement;
  const outline = getComputedStyle(element).outlineStyle;
  const box = element.getBoundingClientRect();
  const isSeen = box.bottom > 0 && box.top < innerHeight && outline !== "none";
  return ({_NAME})(element) + (isSeen ? "" : " (not visible)");
}}"""


async def list_stops(page: Page, most: int) -> list[str]:
    """List the controls of a view in the order of the document."""
    found: list[str] = await page.evaluate(_STOPS, [_CONTROLS, most])
    return found


async def press_through(page: Page, count: int) -> list[str]:
    """Press Tab so many times; list what has the focus then, and whether one can see that."""
    found: list[str] = []
    for _ in range(count):
        await page.keyboard.press("Tab")
        found.append(await page.evaluate(_FOCUSED))
    return found
