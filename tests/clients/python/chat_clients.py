"""Chat Completions by real packages: the OpenAI SDK, LangChain and Pydantic AI."""

from __future__ import annotations

import json
from typing import Any

from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from openai import APIError, AsyncOpenAI, OpenAI
from program import MODEL, City, forecast, http_client, play
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

BLOCKING = http_client(blocking=True)
ASKED: Any = [{"role": "user", "content": "Good morning"}]
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


def sdk() -> OpenAI:
    return OpenAI(http_client=BLOCKING, max_retries=0)


# --- the OpenAI SDK -------------------------------------------------------------------------------


def openai_create() -> Any:
    answer = sdk().chat.completions.create(model=MODEL, messages=ASKED)
    usage = answer.usage
    return [
        answer.choices[0].message.content,
        answer.choices[0].finish_reason,
        [usage.prompt_tokens, usage.completion_tokens] if usage else None,
    ]


def openai_stream() -> Any:
    with sdk().chat.completions.stream(
        model=MODEL, messages=ASKED, stream_options={"include_usage": True}
    ) as stream:
        pieces = [event.delta for event in stream if event.type == "content.delta"]
        final = stream.get_final_completion()
    return ["".join(pieces), final.choices[0].finish_reason, final.usage is not None]


def openai_parse() -> Any:
    parsed = sdk().chat.completions.parse(model=MODEL, messages=ASKED, response_format=City)
    city = parsed.choices[0].message.parsed
    return city.model_dump() if city else None


def openai_tools() -> Any:
    messages = [*ASKED]
    with sdk().chat.completions.stream(model=MODEL, messages=messages, tools=[WEATHER]) as stream:
        message = stream.get_final_completion().choices[0].message
    messages.append(
        {
            "role": "assistant",
            "content": message.content,
            "tool_calls": [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.function.name, "arguments": call.function.arguments},
                }
                for call in message.tool_calls or ()
            ],
        }
    )
    for call in message.tool_calls or ():
        city = json.loads(call.function.arguments)["city"]
        messages.append({"role": "tool", "tool_call_id": call.id, "content": forecast(city)})
    answer = sdk().chat.completions.create(model=MODEL, messages=messages, tools=[WEATHER])
    return answer.choices[0].message.content


def openai_cut() -> Any:
    try:
        list(sdk().chat.completions.create(model=MODEL, messages=ASKED, stream=True))
    except APIError as error:
        return type(error).__name__
    return None


# --- LangChain ------------------------------------------------------------------------------------


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return forecast(city)


def langchain_model() -> ChatOpenAI:
    return ChatOpenAI(model=MODEL, http_client=BLOCKING, use_responses_api=False)


def langchain_stream() -> Any:
    chunks = list(langchain_model().stream([HumanMessage("Good morning")]))
    return "".join(str(chunk.text) for chunk in chunks)


def langchain_tools() -> Any:
    model = langchain_model().bind_tools([get_weather])
    messages: list[Any] = [HumanMessage("The weather?")]
    answer = model.invoke(messages)
    messages += [answer, *(get_weather.invoke(call) for call in answer.tool_calls)]
    return str(model.invoke(messages).text)


def langchain_typed() -> Any:
    model = langchain_model().with_structured_output(City, method="json_schema")
    return model.invoke([HumanMessage("A city?")]).model_dump()  # type: ignore[union-attr]


# --- Pydantic AI ----------------------------------------------------------------------------------


def pydantic_model() -> OpenAIChatModel:
    client = AsyncOpenAI(http_client=http_client(blocking=False))
    return OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=client))


async def pydantic_tools() -> Any:
    agent = Agent(pydantic_model(), tools=[forecast_tool])
    async with agent.run_stream("The weather?") as result:
        return await result.get_output()


def forecast_tool(city: str) -> str:
    """The weather of a city."""
    return forecast(city)


async def pydantic_typed() -> Any:
    agent = Agent(pydantic_model(), output_type=NativeOutput(City))
    return (await agent.run("A city?")).output.model_dump()


play(
    openai_create,
    openai_stream,
    openai_parse,
    openai_tools,
    openai_cut,
    langchain_stream,
    langchain_tools,
    langchain_typed,
    pydantic_tools,
    pydantic_typed,
)
