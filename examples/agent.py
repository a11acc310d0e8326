"""An agent with a tool, by the OpenAI Agents SDK in process: python examples/agent.py [MODEL].

It needs the package openai-agents.
"""

from __future__ import annotations

import asyncio
import sys

from agents import Agent, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

import antiphon


@function_tool
def weather(city: str) -> str:
    """Tell the weather in a city."""
    return f"It is sunny in {city}."


async def main(model: str) -> None:
    set_tracing_disabled(True)
    async with AsyncOpenAI(http_client=antiphon.openai_http_client(), api_key="none") as client:
        agent = Agent(
            name="Forecaster",
            instructions="Answer questions about the weather with your tool.",
            tools=[weather],
            model=OpenAIResponsesModel(model=model, openai_client=client),
        )
        result = await Runner.run(agent, "What is the weather in Lisbon?")
        print(result.final_output)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "echo/echo"))
