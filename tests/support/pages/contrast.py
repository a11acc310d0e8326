"""Contrast of texts on the page with what is behind them, as WCAG 2 computes it."""

from __future__ import annotations

from playwright.async_api import Page

_SCRIPT = """() => {
  const parse = (text) => (text.match(/[\\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
  const luminance = (rgb) => rgb.slice(0, 3).map((part) => part / 255)
    .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
  const blend = ([r, g, b, a = 1], behind) =>
    [r, g, b].map((part, index) => part * a + behind[index] * (1 - a));
  const behind = (element) => {
    const colour = parse(getComputedStyle(element).backgroundColor);
    const parent = element.parentElement;
    if ((colour[3] ?? 1) === 1) return colour;
    return blend(colour, parent ? behind(parent) : [255, 255, 255]);
  };
  const found = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.data.trim();
    if (!text || !element.checkVisibility({ opacityProperty: true })) continue;
    if (element.closest(":disabled, option, datalist, title, #toast, .skip")) continue;
    const style = getComputedStyle(element);
    const back = behind(element);
    const ink = blend(parse(element instanceof SVGElement ? style.fill : style.color), back);
    const [low, high] = [luminance(ink), luminance(back)].sort((one, other) => one - other);
    const size = parseFloat(style.fontSize);
    const least = size >= 24 || (size >= 18.6 && Number(style.fontWeight) >= 600) ? 3 : 4.5;
    const ratio = (high + 0.05) / (low + 0.05);
    const name = `${element.tagName}.${element.getAttribute("class") ?? ""}`;
    if (ratio < least) found.add(`${ratio.toFixed(2)} ${name}: ${text.slice(0, 40)}`);
  }
  return [...found].slice(0, 20);
}"""


async def find_faint_texts(page: Page) -> list[str]:
    """List texts whose contrast is too low to be read easily."""
    found: list[str] = await page.evaluate(_SCRIPT)
    return found
