"""Clients of Messages and Chat Completions: threads whose history they keep themselves, requests
that they repeat as their SDKs do, and clients that use the state of another one."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from tests.simulation.clients import READS, Behaviour, draw_behaviour
from tests.simulation.formats.reading import Format
from tests.simulation.formats.threads import (
    AGENTS,
    CLAUDE,
    THINKING,
    THREADS,
    KeptTurn,
    ask_for_json,
    copy_state,
)
from tests.simulation.lifecycle.records import Retry
from tests.simulation.lifecycle.retries import NOTICED_S
from tests.simulation.plan import MODELS
from tests.simulation.records import Exchange, write_question

if TYPE_CHECKING:
    from tests.simulation.virtual_loop import Address
    from tests.simulation.world import World

_MOST_RETRIES = 2  # of the SDKs of both vendors
_LONGEST_WAIT_S = 60.0  # for which an SDK obeys `retry-after`
_RETRIED = (408, 409, 429)
_SAME_MODEL_RATE = 0.6
_STATEFUL = ("anthropic", "gemini", "responses") * 2
_JSON_MODELS = ("chat/m", "responses/m")


def draw_format(rng: random.Random) -> Format:
    """Draw the format of a client that asks one question."""
    return rng.choice(("responses", "messages", "chat"))


async def run_thread(world: World, rng: random.Random, tenant: str, format: Format) -> None:
    """Continue a thread; the model may change at each turn."""
    agent = rng.choice(AGENTS[format])
    thread, echoed = THREADS[format](agent), list[int]()
    drawn = _draw_model(rng)
    for _ in range(world.plan.turns):
        drawn = drawn if rng.random() < _SAME_MODEL_RATE else _draw_model(rng)
        exchange = world.new_exchange(tenant, drawn, format)
        exchange.agent = agent
        settings = {name: exchange.request[name] for name in ("model", "stream")}
        exchange.request = {**thread.ask(rng, write_question(exchange)), **settings}
        if not settings["stream"]:
            exchange.request.pop("stream_options", None)
        exchange.echoed = [*echoed]
        address = rng.choice(world.plan.addresses)
        if "thread" in exchange.request:
            world.history.count(f"thread of the server: {exchange.request['thread']['type']}")
        exchange = await send(world, rng, exchange, draw_behaviour(rng), address)
        if (exchange.response or {}).get("status") in ("completed", "incomplete"):
            sent = len(thread.messages)
            thread.take(exchange.request, exchange.reading)
            if message := thread.messages[sent:]:
                echoed.append(exchange.number)
                turn = KeptTurn(
                    tenant,
                    format,
                    str(settings["model"]),
                    message[0],
                    has_reasoning=bool(exchange.reading.reasoning),
                )
                world.kept_turns.append(turn)
        else:
            thread, echoed = THREADS[format](agent), []
        if rng.random() < 0.2:
            await _ask_something_else(world, rng, exchange)
        if rng.random() < 0.6:
            await asyncio.sleep(rng.choice((0.0, 0.01, 1.0, 8.0)))


def _draw_model(rng: random.Random) -> dict[str, object]:
    """Draw a model, more often one whose provider has state, and whether to stream."""
    name = rng.choice((*MODELS, *_STATEFUL))
    model = f"safe-{name}" if rng.random() < 0.6 else f"{name}/{MODELS[name]}"
    return {"model": model, "stream": rng.random() < 0.85}


async def _ask_something_else(world: World, rng: random.Random, last: Exchange) -> None:
    """Ask for JSON, or use the state of another client."""
    format, address = last.format, rng.choice(world.plan.addresses)
    other = world.new_exchange(last.tenant, _draw_model(rng), format)
    other.agent = last.agent
    if rng.random() < 0.3:
        other.request = ask_for_json(format, other.request)
        other.request["model"] = rng.choice(_JSON_MODELS)
        other.wants_json = True
        world.history.count("client asks for JSON")
    elif copied := _copy_foreign_state(world, rng, other):
        other.request |= copied
        world.history.count("client uses state of another")
    await world.perform(other, READS, address)


def _copy_foreign_state(world: World, rng: random.Random, other: Exchange) -> dict[str, object]:
    """The history of a request with state of another client, and the model that has made it."""
    foreign = [
        turn
        for turn in world.kept_turns
        if turn.format == other.format and turn.tenant != other.tenant and turn.has_state
    ]
    if not foreign:
        return {}
    turn = rng.choice(foreign)
    is_messages = other.format == "messages"
    thinking = {"thinking": THINKING} if is_messages else {"reasoning_effort": "high"}
    messages = copy_state(write_question(other), turn)
    return {"messages": messages, "model": turn.model, **thinking}


# What SDKs do after an error


async def send(
    world: World, rng: random.Random, exchange: Exchange, behaviour: Behaviour, address: Address
) -> Exchange:
    """Send a request, and again where its client does; returns the last exchange."""
    await world.perform(exchange, behaviour, address, eager=rng.random() < 0.3)
    for _ in range(_MOST_RETRIES):
        if exchange.outcome == "vanished":
            return await _return(world, rng, exchange, address)
        if not exchange.ended or (delay_s := _find_delay(rng, exchange)) is None:
            return exchange
        await asyncio.sleep(delay_s)
        exchange = _repeat(world, exchange)
        await world.perform(exchange, READS, address)
    return exchange


def _find_delay(rng: random.Random, exchange: Exchange) -> float | None:
    """How long an SDK waits before it repeats a request; None if it does not."""
    if exchange.outcome != "complete":
        return None
    if exchange.status == 200:
        is_claude = exchange.agent.startswith(CLAUDE)
        has_failed = is_claude and exchange.is_stream and exchange.reading.error is not None
        return 0.0 if has_failed else None
    if exchange.headers.get("x-should-retry") == "false":
        return None
    if exchange.status not in _RETRIED and exchange.status < 500:
        return None
    told_s = float(exchange.headers.get("retry-after", "0"))
    return told_s if 0 < told_s <= _LONGEST_WAIT_S else rng.uniform(0.5, 2.0)


def _repeat(world: World, first: Exchange) -> Exchange:
    """The same request again, after its end. Claude Code wants it whole if a stream has failed."""
    again = world.new_exchange(first.tenant, {}, first.format)
    again.request, again.agent = {**first.request}, first.agent
    again.echoed, again.knows_foreign = first.echoed, first.knows_foreign
    if first.status == 200:
        again.request["stream"] = False
        world.history.count("client sends a failed stream again, whole")
    else:
        world.history.count("SDK sends a failed request again")
    root = world.history.repeats.get(first.number, first.number)
    world.history.repeats[again.number] = root
    world.history.senders[root] = again.number
    return again


async def _return(world: World, rng: random.Random, first: Exchange, address: Address) -> Exchange:
    """Send a request again whose connection was lost: Claude Code does, streamed or whole."""
    if not first.agent.startswith(CLAUDE) or not first.is_stream:
        return first
    await asyncio.sleep(NOTICED_S)
    window_s = world.config.attach.window_s
    await asyncio.sleep(rng.choice((0.0, 0.0, 1.0, window_s - 2 * NOTICED_S, window_s + 2.0)))
    again = world.new_exchange(first.tenant, {}, first.format)
    again.request, again.agent, again.question = {**first.request}, first.agent, first.question
    again.request["stream"] = rng.random() < 0.5
    world.history.count("Claude Code sends again")
    await world.perform(again, READS, address)
    world.lifecycle.retries.append(Retry(first, again))
    return again
