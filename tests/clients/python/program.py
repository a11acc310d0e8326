"""What all programs here share: they play the scenario that is named, and print what they saw.

They run in an environment of their own, that of the pinned clients, and know nothing of Antiphon:
`OPENAI_BASE_URL`, `OPENAI_API_KEY` and `MODEL` are all they are told.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

MODEL = os.environ["MODEL"]


class City(BaseModel):
    """What the model is asked to fill in."""

    name: str
    people: int


def forecast(city: str) -> str:
    """The answer of every tool that is asked for the weather."""
    return f"sunny in {city}"


def play(*scenarios: Callable[[], Any]) -> None:
    """One JSON document on stdout is all that a scenario leaves behind."""
    [scenario] = [each for each in scenarios if each.__name__ == sys.argv[1]]
    seen = scenario()
    if asyncio.iscoroutine(seen):
        seen = asyncio.run(seen)
    sys.stdout.write(json.dumps(seen) + "\n")
