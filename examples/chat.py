"""A chat in the terminal with any model: python examples/chat.py [MODEL].

Write a line for each turn; an empty line ends the chat.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import antiphon


async def main(model: str) -> None:
    async with antiphon.open() as gateway:
        previous: str | None = None
        while text := (await asyncio.to_thread(sys.stdin.readline)).strip():
            previous = await respond(gateway, model, text, previous)


async def respond(gateway: antiphon.Gateway, model: str, text: str, previous: str | None) -> str:
    """Print the response as it arrives; return the id that the next turn continues from."""
    async with gateway.stream(model=model, input=text, previous_response_id=previous) as stream:
        async for event in stream:
            show(event)
        response = await stream.response()
    print()
    return str(response["id"])


def show(event: dict[str, Any]) -> None:
    match event:
        case {"type": "response.reasoning_text.delta", "delta": text}:
            print(f"\033[2m{text}\033[0m", end="", flush=True)
        case {"type": "response.output_text.delta", "delta": text}:
            print(text, end="", flush=True)
        case {"type": "response.failed", "response": {"error": {"message": message}}}:
            print(message, file=sys.stderr)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "echo/echo"))
