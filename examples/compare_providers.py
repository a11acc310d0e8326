"""The same question to several models, timed: python examples/compare_providers.py MODEL…"""

from __future__ import annotations

import asyncio
import sys
import time

import antiphon

QUESTION = "Name three rivers of Europe, in one line."


async def measure(gateway: antiphon.Gateway, model: str) -> tuple[str, float, float, int]:
    """Return the model, the seconds to the first text and to the end, and the output tokens."""
    began, first = time.perf_counter(), 0.0
    async with gateway.stream(model=model, input=QUESTION) as stream:
        async for event in stream:
            if event["type"] == "response.output_text.delta" and not first:
                first = time.perf_counter() - began
        response = await stream.response()
    return model, first, time.perf_counter() - began, response["usage"]["output_tokens"]


async def main(models: list[str]) -> None:
    async with antiphon.open() as gateway:
        print(f"{'model':40} {'first text':>11} {'whole':>8} {'tokens':>7}")
        for model in models:
            try:
                name, first, whole, tokens = await measure(gateway, model)
                print(f"{name:40} {first:9.3f} s {whole:6.3f} s {tokens:7}")
            except antiphon.AntiphonError as error:
                print(f"{model:40} {error.message}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:] or ["echo/echo", "echo/reasoner", "echo/error-401"]))
