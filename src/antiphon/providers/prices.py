"""Prices of models: dated data beside the provider facts, overridden by `[prices]`.

US dollars per million tokens for ordinary requests (no batch, no priority tier), each with the
month it is from. Prices change, and these are not read from the providers: set `[prices]` where the
cost must be exact. A model that is not listed here has no known price: its cost is unknown, never
zero. A model priced by the length of its prompt is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from antiphon.config import PriceConfig


class Price(Struct, frozen=True, kw_only=True):
    """Price of a model in US dollars per million tokens."""

    input: float
    output: float
    """Of all output tokens, reasoning included."""
    cached_input: float | None = None
    """Of input tokens that the provider had in its cache; None: as `input`."""
    cache_write: float | None = None
    """Of input tokens that the provider has put into its cache; None: as `input`."""
    as_of: str = ""
    """The month that the price is from; empty: configured."""


FREE = Price(input=0, output=0)
"""The price of models that run in the gateway itself."""


def _price(
    as_of: str, input: float, output: float, cached: float | None = None, write: float | None = None
) -> Price:
    return Price(as_of=as_of, input=input, output=output, cached_input=cached, cache_write=write)


PRICES: Mapping[str, Mapping[str, Price]] = {
    "openai": {
        "gpt-5.2": _price("2026-01", 1.75, 14.0, 0.175),
        "gpt-5.1": _price("2026-01", 1.25, 10.0, 0.125),
        "gpt-5": _price("2026-01", 1.25, 10.0, 0.125),
        "gpt-5-mini": _price("2026-01", 0.25, 2.0, 0.025),
        "gpt-5-nano": _price("2026-01", 0.05, 0.4, 0.005),
        "gpt-4.1": _price("2026-01", 2.0, 8.0, 0.5),
        "gpt-4.1-mini": _price("2026-01", 0.4, 1.6, 0.1),
        "gpt-4.1-nano": _price("2026-01", 0.1, 0.4, 0.025),
        "gpt-4o": _price("2026-01", 2.5, 10.0, 1.25),
        "gpt-4o-mini": _price("2026-01", 0.15, 0.6, 0.075),
        "o3": _price("2026-01", 2.0, 8.0, 0.5),
        "o4-mini": _price("2026-01", 1.1, 4.4, 0.275),
    },
    "anthropic": {
        "claude-opus-4-5": _price("2026-01", 5.0, 25.0, 0.5, 6.25),
        "claude-opus-4-1": _price("2026-01", 15.0, 75.0, 1.5, 18.75),
        "claude-haiku-4-5": _price("2026-01", 1.0, 5.0, 0.1, 1.25),
    },
    "gemini": {
        "gemini-2.5-flash": _price("2026-01", 0.3, 2.5, 0.03),
        "gemini-2.5-flash-lite": _price("2026-01", 0.1, 0.4, 0.01),
        "gemini-3-flash-preview": _price("2026-01", 0.5, 3.0, 0.05),
    },
    "mistral": {
        "mistral-large-2512": _price("2026-01", 0.5, 1.5),
    },
    "groq": {
        "openai/gpt-oss-120b": _price("2026-01", 0.15, 0.6),
        "openai/gpt-oss-20b": _price("2026-01", 0.075, 0.3),
        "llama-3.3-70b-versatile": _price("2026-01", 0.59, 0.79),
    },
    "cerebras": {
        "gpt-oss-120b": _price("2026-01", 0.35, 0.75),
    },
    "cohere": {
        "command-a-03-2025": _price("2026-01", 2.5, 10.0),
    },
}
"""By provider and model. A dated version has the price of its model (`gpt-5-2025-08-07`)."""

_VERSION = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8})$")


def find_listed_price(provider: str, model: str) -> Price | None:
    """Return the price in the data; None: unknown."""
    listed = PRICES.get(provider, {})
    return listed.get(model) or listed.get(_VERSION.sub("", model))


def read_price(config: PriceConfig, listed: Price | None) -> Price | None:
    """Return a configured price; what it leaves out is as listed. None: still unknown."""
    known: dict[str, float | None] = {}
    if listed is not None:
        known = {name: getattr(listed, name) for name in config.__struct_fields__}
    given = {name: getattr(config, name) for name in config.__struct_fields__}
    known |= {name: price for name, price in given.items() if price is not None}
    input, output = known.get("input"), known.get("output")
    if input is None or output is None:
        return None
    return Price(
        input=input,
        output=output,
        cached_input=known.get("cached_input"),
        cache_write=known.get("cache_write"),
    )
