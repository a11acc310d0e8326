"""The OpenAI Agents SDK: an agent, its tools, its types, and another agent to hand over to."""

from __future__ import annotations

from typing import Any

from agents import (
    Agent,
    ItemHelpers,
    ModelSettings,
    OpenAIResponsesModel,
    Runner,
    RunResult,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from openai.types.shared import Reasoning
from program import MODEL, City, forecast, http_client, play

set_tracing_disabled(True)
model = OpenAIResponsesModel(MODEL, AsyncOpenAI(http_client=http_client(blocking=False)))
KEPT_HERE = ModelSettings(
    store=False,
    reasoning=Reasoning(summary="auto"),
    response_include=["reasoning.encrypted_content"],
)


@function_tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return forecast(city)


def agent(name: str = "host", **more: Any) -> Agent[None]:
    return Agent(name=name, instructions=f"You are {name}.", model=model, **more)


def summarize(result: RunResult) -> dict[str, Any]:
    usage = result.context_wrapper.usage
    return {
        "output": result.final_output,
        "agent": result.last_agent.name,
        "items": [item.type for item in result.new_items],
        "tokens": [usage.requests, usage.input_tokens, usage.output_tokens, usage.total_tokens],
    }


async def run() -> Any:
    return summarize(await Runner.run(agent(), "Good morning"))


async def tool() -> Any:
    return summarize(await Runner.run(agent(tools=[get_weather]), "Ulm and Bonn?"))


async def tool_stream() -> Any:
    result = Runner.run_streamed(agent(tools=[get_weather]), "Ulm and Bonn?")
    text, heard = "", []
    async for event in result.stream_events():
        if event.type == "raw_response_event":
            if event.data.type == "response.output_text.delta":
                text += event.data.delta
        elif event.type == "run_item_stream_event":
            heard.append(event.name)
    return {**summarize(result), "text": text, "heard": heard}


async def typed() -> Any:
    result = await Runner.run(agent(output_type=City), "Which city?")
    return result.final_output.model_dump()


async def handoff() -> Any:
    guide = agent("guide", handoff_description="Knows the town.")
    return summarize(await Runner.run(agent(handoffs=[guide]), "Show me the town."))


async def reasoning() -> Any:
    """Nothing is kept on the other side: what was thought goes along as a seal."""
    thinker = agent(tools=[get_weather], model_settings=KEPT_HERE)
    first = await Runner.run(thinker, "Ulm and Bonn?")
    again = [*first.to_input_list(), {"role": "user", "content": "Thanks."}]
    second = await Runner.run(thinker, again)
    thoughts = [item.raw_item for item in first.new_items if item.type == "reasoning_item"]
    return {
        "turns": [summarize(first), summarize(second)],
        "text": ItemHelpers.text_message_outputs(second.new_items),
        "sealed": [bool(thought.encrypted_content) for thought in thoughts],
    }


async def memory() -> Any:
    """The other side keeps the thread, and the agent names the response before."""
    first = await Runner.run(agent(), "One?")
    second = await Runner.run(agent(), "Two?", previous_response_id=first.last_response_id)
    return [summarize(first), summarize(second)]


play(run, tool, tool_stream, typed, handoff, reasoning, memory)
