"""The OpenAI Agents SDK: an agent, its tools, its types, and another agent to hand over to."""

from __future__ import annotations

from typing import Any

from agents import (
    Agent,
    ItemHelpers,
    ModelBehaviorError,
    ModelSettings,
    OpenAIConversationsSession,
    OpenAIResponsesCompactionSession,
    OpenAIResponsesModel,
    OpenAIResponsesWSModel,
    Runner,
    RunResult,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from openai.types.shared import Reasoning
from program import MODEL, City, forecast, http_client, play

set_tracing_disabled(True)
client = AsyncOpenAI(http_client=http_client(blocking=False))
model = OpenAIResponsesModel(MODEL, client)
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


async def text_stream() -> Any:
    """A text, and the error in its place if it is not completed."""
    result = Runner.run_streamed(agent(), "Good morning")
    text, error = "", ""
    try:
        async for event in result.stream_events():
            is_raw = event.type == "raw_response_event"
            if is_raw and event.data.type == "response.output_text.delta":
                text += event.data.delta
    except ModelBehaviorError as raised:
        error = str(raised)
    return {"text": text, "error": error}


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


async def websocket() -> Any:
    """Both turns of the agent use one connection."""
    over_websocket = OpenAIResponsesWSModel(MODEL, AsyncOpenAI())
    host = Agent(name="host", model=over_websocket, tools=[get_weather])
    first = await Runner.run(host, "Ulm and Bonn?")
    second = await Runner.run(host, "Thanks.", previous_response_id=first.last_response_id)
    await over_websocket.close()
    return [summarize(first), summarize(second)]


async def conversation() -> Any:
    """The session is a conversation of the gateway: it holds what both sides have said."""
    session = OpenAIConversationsSession(openai_client=client)
    host = agent(tools=[get_weather])
    first = await Runner.run(host, "Ulm and Bonn?", session=session)
    second = await Runner.run(host, "Thanks.", session=session)
    items = await session.get_items()
    newest = await session.get_items(limit=2)
    last = await session.pop_item()
    left = await session.get_items()
    await session.clear_session()
    return {
        "turns": [summarize(first), summarize(second)],
        "types": [item["type"] for item in items],
        "newest": newest == items[-2:],
        "popped": [last == items[-1], left == items[:-1]],
    }


async def compaction() -> Any:
    """The session has its items compacted as soon as there are two that the model has made."""
    session = OpenAIResponsesCompactionSession(
        "thread",
        SQLiteSession("thread"),
        client=client,
        model="up/gpt-scripted",  # it accepts no name that is not like one of OpenAI
        compaction_mode="input",
        should_trigger_compaction=lambda context: len(context["compaction_candidate_items"]) >= 2,
    )
    turns, types = [], []
    for text in ("The word is heron.", "Remember it.", "Which word?"):
        turns.append(summarize(await Runner.run(agent(), text, session=session))["output"])
        types.append([item.get("type", "message") for item in await session.get_items()])
    return {"turns": turns, "types": types}


play(
    run,
    tool,
    tool_stream,
    text_stream,
    typed,
    handoff,
    reasoning,
    memory,
    websocket,
    conversation,
    compaction,
)
