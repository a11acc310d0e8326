"""A stage of one's own in the pipeline, which adds up the tokens: python examples/own_stage.py."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter

import antiphon

USED: Counter[str] = Counter()


class CountTokens(antiphon.Stage):
    """Adds the tokens of every finished response to the account of its model."""

    def on_terminal(self, batch: antiphon.Batch) -> antiphon.Batch:
        response = batch.events[-1].response  # type: ignore[union-attr]  # the terminal event
        USED[response.model] += response.usage.total_tokens
        return batch


async def main(model: str) -> None:
    async with antiphon.open(stages=[CountTokens]) as gateway:
        for question in ("One question", "Another, longer question"):
            await gateway.create(model=model, input=question)
    for name, tokens in USED.items():
        print(f"{name}: {tokens} tokens")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "echo/echo"))
