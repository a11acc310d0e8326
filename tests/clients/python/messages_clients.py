"""Messages by real packages: Anthropic's SDK, LangChain and Pydantic AI."""

from __future__ import annotations

import os
from typing import Any

from anthropic import Anthropic, AsyncAnthropic, beta_tool
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from program import IN_PROCESS, MODEL, City, forecast, play
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

ASKED: Any = [{"role": "user", "content": "Good morning"}]
KEY = os.environ.get("OPENAI_API_KEY", "none")
URL = os.environ.get("OPENAI_BASE_URL", "http://localhost").removesuffix("/v1")


def http_client(*, blocking: bool) -> Any:
    if IN_PROCESS is None:
        return None
    import antiphon

    return antiphon.anthropic_http_client(IN_PROCESS, blocking=blocking)


def sdk() -> Anthropic:
    return Anthropic(api_key=KEY, base_url=URL, http_client=http_client(blocking=True))


def anthropic_create() -> Any:
    message = sdk().messages.create(model=MODEL, max_tokens=100, messages=ASKED)
    return [message.content[0].text, message.stop_reason, message.usage.input_tokens]  # type: ignore[union-attr]


def anthropic_stream() -> Any:
    with sdk().messages.stream(model=MODEL, max_tokens=100, messages=ASKED) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    return [text, final.stop_reason]


@beta_tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return forecast(city)


def anthropic_tools() -> Any:
    runner = sdk().beta.messages.tool_runner(
        model=MODEL, max_tokens=100, messages=ASKED, tools=[get_weather]
    )
    final = runner.until_done()
    return "".join(block.text for block in final.content if block.type == "text")


@tool("get_weather")
def weather_tool(city: str) -> str:
    """The weather of a city."""
    return forecast(city)


def langchain_model() -> ChatAnthropic:
    return ChatAnthropic(model_name=MODEL, api_key=KEY, base_url=URL, max_tokens=100)  # type: ignore[call-arg, arg-type]


def langchain_stream() -> Any:
    chunks = list(langchain_model().stream([HumanMessage("Good morning")]))
    return "".join(str(chunk.text) for chunk in chunks)


def langchain_tools() -> Any:
    model = langchain_model().bind_tools([weather_tool])
    messages: list[Any] = [HumanMessage("The weather?")]
    answer = model.invoke(messages)
    messages += [answer, *(weather_tool.invoke(call) for call in answer.tool_calls)]
    return str(model.invoke(messages).text)


def pydantic_model() -> AnthropicModel:
    client = AsyncAnthropic(api_key=KEY, base_url=URL, http_client=http_client(blocking=False))
    return AnthropicModel(MODEL, provider=AnthropicProvider(anthropic_client=client))


async def pydantic_tools() -> Any:
    agent = Agent(pydantic_model())

    @agent.tool_plain
    def get_weather(city: str) -> str:
        """The weather of a city."""
        return forecast(city)

    async with agent.run_stream("The weather?") as result:
        return await result.get_output()


async def pydantic_typed() -> Any:
    agent = Agent(pydantic_model(), output_type=City)
    return (await agent.run("A city?")).output.model_dump()


play(
    anthropic_create,
    anthropic_stream,
    anthropic_tools,
    langchain_stream,
    langchain_tools,
    pydantic_tools,
    pydantic_typed,
)
