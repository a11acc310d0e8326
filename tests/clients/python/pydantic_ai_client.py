"""Pydantic AI's model of the Responses API."""

from __future__ import annotations

from typing import Any

from openai import AsyncOpenAI
from program import MODEL, City, forecast, http_client, play
from pydantic_ai import Agent, NativeOutput, ToolOutput
from pydantic_ai.messages import ModelMessage, ModelResponse, ThinkingPart, ToolCallPart
from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.openai import OpenAIProvider

provider = OpenAIProvider(openai_client=AsyncOpenAI(http_client=http_client(blocking=False)))
model = OpenAIResponsesModel(MODEL, provider=provider)


def get_weather(city: str) -> str:
    """The weather of a city."""
    return forecast(city)


def agent(**more: Any) -> Agent[None, Any]:
    return Agent(model, instructions="Be kind.", **more)


def summarize(messages: list[ModelMessage]) -> dict[str, Any]:
    """What the model did, over all messages."""
    responses = [message for message in messages if isinstance(message, ModelResponse)]
    parts = [part for response in responses for part in response.parts]
    return {
        "calls": [
            [part.tool_name, part.args_as_dict()]
            for part in parts
            if isinstance(part, ToolCallPart)
        ],
        "thoughts": [thought(part) for part in parts if isinstance(part, ThinkingPart)],
        "tokens": [[each.usage.input_tokens, each.usage.output_tokens] for each in responses],
        "finish": [each.finish_reason for each in responses],
    }


def thought(part: ThinkingPart) -> str:
    """A summary, or what the model thought word for word."""
    return part.content or "".join((part.provider_details or {}).get("raw_content", []))


def text() -> Any:
    result = agent().run_sync("Good morning")
    return {"output": result.output, **summarize(result.all_messages())}


async def stream() -> Any:
    async with agent().run_stream("Good morning") as result:
        pieces = [piece async for piece in result.stream_text(delta=True, debounce_by=None)]
        return {
            "pieces": pieces,
            "output": await result.get_output(),
            **summarize(result.all_messages()),
        }


def tools() -> Any:
    result = agent(tools=[get_weather]).run_sync("Ulm and Bonn?")
    return {"output": result.output, **summarize(result.all_messages())}


async def tools_stream() -> Any:
    async with agent(tools=[get_weather]).run_stream("Ulm and Bonn?") as result:
        output = await result.get_output()
        return {"output": output, **summarize(result.all_messages())}


def native_output() -> Any:
    return agent(output_type=NativeOutput(City)).run_sync("Which city?").output.model_dump()


def tool_output() -> Any:
    result = agent(output_type=ToolOutput(City, name="city")).run_sync("Which city?")
    return result.output.model_dump()


def _thinking(thinker: Agent[None, str]) -> Any:
    first = thinker.run_sync("Ulm and Bonn?")
    second = thinker.run_sync("Thanks.", message_history=first.all_messages())
    return {"outputs": [first.output, second.output], **summarize(second.all_messages())}


def reasoning() -> Any:
    """Nothing is kept on the other side: what was thought goes along as a seal."""
    profile = OpenAIModelProfile(openai_supports_encrypted_reasoning_content=True)
    settings = OpenAIResponsesModelSettings(openai_reasoning_summary="auto", openai_store=False)
    careful = OpenAIResponsesModel(MODEL, provider=provider, profile=profile)
    return _thinking(Agent(careful, tools=[get_weather], model_settings=settings))


def reasoning_stored() -> Any:
    """Thoughts go along with their ids and without their seals; the other side has kept them."""
    settings = OpenAIResponsesModelSettings(openai_send_reasoning_ids=True)
    return _thinking(Agent(model, tools=[get_weather], model_settings=settings))


def memory() -> Any:
    """The other side keeps the thread, and the agent names the response before."""
    settings = OpenAIResponsesModelSettings(openai_previous_response_id="auto")
    first = agent().run_sync("One?", model_settings=settings)
    second = agent().run_sync("Two?", model_settings=settings, message_history=first.all_messages())
    return [first.output, second.output]


play(
    text,
    stream,
    tools,
    tools_stream,
    native_output,
    tool_output,
    reasoning,
    reasoning_stored,
    memory,
)
