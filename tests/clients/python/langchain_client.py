"""LangChain's `ChatOpenAI` over the Responses API."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from program import MODEL, City, forecast, http_client, play

HTTP_CLIENT = http_client(blocking=True)


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return forecast(city)


def model(**more: Any) -> ChatOpenAI:
    return ChatOpenAI(model=MODEL, use_responses_api=True, http_client=HTTP_CLIENT, **more)


def summarize(message: AIMessage) -> dict[str, Any]:
    usage = message.usage_metadata or {}
    return {
        "text": message.text,
        "calls": [[call["name"], call["args"]] for call in message.tool_calls],
        "tokens": [usage.get(f"{name}_tokens") for name in ("input", "output", "total")],
        "thoughts": [
            block.get("reasoning", "")
            for block in message.content_blocks
            if block["type"] == "reasoning"
        ],
    }


def gathered(llm: Any, messages: list[Any]) -> tuple[AIMessage, int]:
    """A streamed message, and the number of pieces of text that it came in."""
    chunks = list(llm.stream(messages))
    total = chunks[0]
    for chunk in chunks[1:]:
        total += chunk
    return total, sum(bool(chunk.text) for chunk in chunks)


def answered(message: AIMessage) -> list[ToolMessage]:
    return [get_weather.invoke(call) for call in message.tool_calls]


def invoke() -> Any:
    return summarize(model().invoke([SystemMessage("Be kind."), HumanMessage("Good morning")]))


def stream() -> Any:
    message, pieces = gathered(model(), [HumanMessage("Good morning")])
    return {**summarize(message), "pieces": pieces}


def tools() -> Any:
    llm = model().bind_tools([get_weather])
    messages: list[Any] = [HumanMessage("Ulm and Bonn?")]
    first = llm.invoke(messages)
    second = llm.invoke([*messages, first, *answered(first)])
    return [summarize(first), summarize(second)]


def tools_stream() -> Any:
    llm = model().bind_tools([get_weather])
    messages: list[Any] = [HumanMessage("Ulm and Bonn?")]
    first, _ = gathered(llm, messages)
    second, _ = gathered(llm, [*messages, first, *answered(first)])
    return [summarize(first), summarize(second)]


def json_schema() -> Any:
    llm = model().with_structured_output(City, method="json_schema")
    return llm.invoke("Which city?").model_dump()


def function_calling() -> Any:
    llm = model().with_structured_output(City, method="function_calling")
    return llm.invoke("Which city?").model_dump()


def reasoning() -> Any:
    """Nothing is kept on the other side: what was thought goes along as a seal."""
    llm = model(
        reasoning={"summary": "auto"},
        include=["reasoning.encrypted_content"],
        store=False,
        output_version="responses/v1",
    ).bind_tools([get_weather])
    messages: list[Any] = [HumanMessage("Ulm and Bonn?")]
    first, _ = gathered(llm, messages)
    second = llm.invoke([*messages, first, *answered(first)])
    return [summarize(first), summarize(second)]


def memory() -> Any:
    """LangChain finds the response before in its own messages, and names it."""
    llm = model(use_previous_response_id=True)
    messages: list[Any] = [HumanMessage("One?")]
    for question in ("Two?", "Three?"):
        messages += [llm.invoke(messages), HumanMessage(question)]
    return summarize(llm.invoke(messages))


play(
    invoke,
    stream,
    tools,
    tools_stream,
    json_schema,
    function_calling,
    reasoning,
    memory,
)
