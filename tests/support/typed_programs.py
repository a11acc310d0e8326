"""Two programs of a user of the library, for type checkers: one is right, the other misspells."""

from __future__ import annotations

WELL_TYPED = """\
import asyncio

import antiphon
from antiphon.types import Event, Response


def tools_called(response: Response) -> list[str]:
    return [item["name"] for item in response["output"] if item["type"] == "function_call"]


def show(event: Event) -> None:
    if event["type"] == "response.output_text.delta":
        print(event["delta"], end="")
    elif event["type"] == "response.completed":
        usage = event["response"]["usage"]
        print(usage["total_tokens"] if usage else "?")


async def main() -> None:
    async with antiphon.Gateway() as gateway:
        response = await gateway.create(model="echo/echo", input="Hello", temperature=0.5)
        print(response["status"], antiphon.output_text(response), tools_called(response))
        again = await gateway.create(
            model="echo/echo", input=[*response["output"], {"role": "user", "content": "And?"}]
        )
        print(again["id"])
        async with gateway.stream(model="echo/echo", input="Hello") as stream:
            async for event in stream:
                show(event)


asyncio.run(main())
gateway = antiphon.BlockingGateway()
print(antiphon.output_text(gateway.create(model="echo/echo", input="One")))
gateway.close()
print(antiphon.run(model="echo/echo", input="Two")["status"])
"""

MISSPELLED = """\
import antiphon

antiphon.run(model="echo/echo", input="x", temprature=1)
with antiphon.open_blocking() as gateway:
    print(gateway.create(model="echo/echo", input="x")["sttus"])
"""
