"""Oracles of MCP: what servers may be asked for, what clients get of it, and what is closed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import msgspec

from tests.simulation.answers import GENERATED_TOKENS
from tests.simulation.lifecycle.records import has_ended
from tests.simulation.liveness import has_no_key, saves_s
from tests.simulation.mcp.records import (
    TOKEN,
    AskedServer,
    Execution,
    McpAsk,
    find_token,
    write_result,
    write_secret,
)
from tests.simulation.plan import TENANTS
from tests.simulation.records import Document, Exchange, UpstreamCall
from tests.simulation.safety import Oracle, describe
from tests.simulation.world import World

_CALL, _LIST, _REQUEST = "mcp_call", "mcp_list_tools", "mcp_approval_request"
_NOT_MADE = re.compile("was not (?:made|asked|called)")
_LEFT_S = 1.0  # after which nothing is done for a client that has left
_ENDED_S = 6.0  # after which its connections are closed
_NATIVE = "responses"
_PROBE_PROVIDER = "chat"


def _asks(world: World) -> Iterator[tuple[Exchange, McpAsk]]:
    """The requests that name servers, and what they say of them."""
    for exchange in world.history.exchanges:
        if exchange.mcp is not None:
            yield exchange, exchange.mcp


def _outputs(world: World) -> Iterator[tuple[Exchange, Document]]:
    """The ended responses to requests that name servers, as their clients have received them."""
    background = {each.exchange.number: each for each in world.lifecycle.background.values()}
    for exchange, ask in _asks(world):
        response = exchange.response
        if exchange.number in background:
            told = [each.response for each in background[exchange.number].audits]
            response = next((each for each in told if each is not None), None)
        if response is not None and has_ended(response) and not ask.is_native:
            yield exchange, {**response, "output": _list_items(exchange, response)}


def _list_items(exchange: Exchange, response: Document) -> list[Document]:
    """The items of a response; the blocks of Messages as such items."""
    if exchange.format == "responses":
        return list(response["output"])
    results = {
        block["tool_use_id"]: block
        for block in exchange.reading.blocks
        if block["type"] == "mcp_tool_result"
    }
    calls = [each for each in exchange.reading.blocks if each["type"] == "mcp_tool_use"]
    return [_read_block(each, results.get(each["id"])) for each in calls]


def _read_block(block: Document, result: Document | None) -> Document:
    text = "".join(part["text"] for part in result["content"]) if result else None
    is_error = bool(result and result["is_error"])
    return {
        "type": _CALL,
        "status": "failed" if is_error else "completed",
        "server_label": block["server_name"],
        "name": block["name"],
        "arguments": msgspec.json.encode(block["input"]).decode(),
        "output": None if is_error else text,
        "error": text if is_error else None,
        "approval_request_id": None,
    }


# What clients get


def mcp_items_are_in_order(world: World) -> Iterator[str]:
    """Lists come first, then the calls that the client has approved; approval requests come last;
    the model has the last word otherwise, unless it goes on calling beyond `max_tool_calls` or its
    words are in a frame that was lost."""
    made = world.history.calls_of()
    for exchange, response in _outputs(world):
        if exchange.format != "responses":
            continue
        kinds = [_rank(item) for item in response["output"]]
        if kinds != sorted(kinds):
            yield f"{describe(exchange)}: the order of its items is {_name_items(response)}"
        own = {"function_call", "custom_tool_call"} & {each["type"] for each in response["output"]}
        is_last = bool(kinds) and response["output"][-1]["type"] == _CALL and not own
        is_limited = exchange.mcp is not None and exchange.mcp.max_calls is not None
        is_lost = any(each.fault == "lost frame" for each in made.get(exchange.question, [])[-1:])
        if is_last and not (is_limited or is_lost) and response["status"] == "completed":
            yield f"{describe(exchange)}: nothing follows its calls: {_name_items(response)}"


def _rank(item: Document) -> int:
    if item["type"] == _CALL and item["approval_request_id"]:
        return 1
    return {_LIST: 0, _REQUEST: 3}.get(item["type"], 2)


def _name_items(response: Document) -> str:
    return ", ".join(item["type"] for item in response["output"])


def mcp_calls_are_whole(world: World) -> Iterator[str]:
    """A call has arguments and either an output or an error; a list has tools or an error."""
    for exchange, response in _outputs(world):
        for item in response["output"]:
            if item["type"] == _CALL and not _is_whole(item, response):
                yield f"{describe(exchange)}: {response['status']} with {item}"
            if item["type"] == _LIST and bool(item.get("error")) == bool(item["tools"]):
                yield f"{describe(exchange)}: {response['status']} with {item}"


def _is_whole(item: Document, response: Document) -> bool:
    has_one = (item["output"] is None) != (item["error"] is None)
    is_right = item["status"] == ("completed" if item["error"] is None else "failed")
    if response["status"] in ("completed", "incomplete"):
        return has_one and is_right and bool(item["arguments"])
    return item["output"] is None or item["error"] is None


def mcp_results_are_the_servers(world: World) -> Iterator[str]:
    """The output of a call is the result of the server and the tool that the model has called, and
    an error is an error."""
    executions = world.history.mcp.executions
    for exchange, response in _outputs(world):
        for item in response["output"]:
            token = find_token(item.get("arguments", ""))
            if item["type"] == _CALL and token and not _is_damaged(world, token):
                made = [each for each in executions if each.token == token]
                made = [each for each in made if each.at >= exchange.began]
                own = [each for each in made if not _is_later(world, exchange, each)]
                problem = _compare(item, made, own, response)
                if problem:
                    yield f"{describe(exchange)}: {token}: {problem}"


def _is_later(world: World, exchange: Exchange, execution: Execution) -> bool:
    """Whether a later request may have made a call that this one approves as well: a client whose
    response has not completed asks again from where it was, maybe with servers that allow more, and
    approves the same call. What happens then says nothing about what it was told before."""
    return any(
        each.number > exchange.number
        and each.began <= execution.at
        and _is_approved(ask, execution.token, execution.label, execution.tool)
        for each, ask in _asks(world)
    )


def _compare(
    item: Document, made: list[Execution], own: list[Execution], response: Document
) -> str:
    """`made`: the executions since the request; `own`: those that no later one may have made."""
    text = write_result(item["server_label"], item["name"], find_token(item["arguments"]))
    output = item["output"]
    if output is not None and not output.startswith(text):
        return f"the output is {output[:80]!r}, not {text}"
    if output is not None and not any(each.reply in ("result", "any") for each in made):
        return "an output without a result"
    if own and _NOT_MADE.search(str(item["error"])):
        return f"it was made, and the client is told {item['error']}"
    if output is None and response["status"] == "completed":
        last = own[-1] if own else None
        if last is not None and last.reply == "result":
            return f"the result is lost: {item['error']}"
        if last is not None and last.reply == "error" and text not in str(item["error"]):
            return f"the error of the tool is lost: {item['error']}"
    return ""


def _is_damaged(world: World, token: str) -> bool:
    """Whether the provider's response with a call had a fault: it may have been damaged."""
    return bool(_find_call(world, token).fault)


def _find_call(world: World, token: str) -> UpstreamCall:
    found = TOKEN.fullmatch(token)
    assert found is not None
    return world.history.calls[int(found[3])]


def mcp_results_reach_the_model(world: World) -> Iterator[str]:
    """The provider's next request has the result of each call."""
    calls = world.history.calls_of()
    for exchange, response in _outputs(world):
        for item in response["output"]:
            token = find_token(item.get("arguments", ""))
            if item["type"] != _CALL or item["output"] is None or not token:
                continue
            number = _find_call(world, token).number
            later = [each for each in calls.get(exchange.number, []) if each.number > number]
            text = write_result(item["server_label"], item["name"], token).encode()
            if later and not any(text in each.body for each in later):
                yield f"{describe(exchange)}: no provider got the result of {token}"


def mcp_usage_adds_up(world: World) -> Iterator[str]:
    """The tokens of a response are those of all its rounds."""
    calls = world.history.calls_of()
    for exchange, response in _outputs(world):
        made = calls.get(exchange.number, [])
        if response["status"] != "completed" or exchange.format != "responses":
            continue
        is_late = exchange.is_background and world.plan.pauses_in_background
        if is_late or any(call.fault or call.content is None for call in made):
            continue  # the usage may come too late
        usage = response["usage"]
        counted = usage["input_tokens"], usage["output_tokens"]
        expected = tuple(len(made) * tokens for tokens in GENERATED_TOKENS)
        if counted != expected:
            yield f"{describe(exchange)}: tokens {counted}, not {expected}"


# What servers are asked for


def only_permitted_calls_are_made(world: World) -> Iterator[str]:
    """A server carries out a call once: one whose tool the request allows and that needs no
    approval, or that the client has approved."""
    made = Counter(
        (each.token, each.label, each.tool) for each in world.history.mcp.executions if each.token
    )
    for (token, label, tool), count in made.items():
        permitted = _count_permissions(world, token, label, tool)
        if count > permitted:
            yield f"{token}: {label}/{tool} was called {count} times, permitted are {permitted}"


def _count_permissions(world: World, token: str, label: str, tool: str) -> int:
    call = _find_call(world, token)
    own = world.history.exchanges[call.exchange].mcp
    times = max(1, call.sent.count(token.encode()))  # a fault may have repeated the call
    permitted = 0
    if own is not None and not own.is_native and _is_free(own.servers.get(label), tool):
        permitted = times
    approvals = sum(_is_approved(ask, token, label, tool) for _, ask in _asks(world))
    return permitted + approvals * times


def _is_approved(ask: McpAsk, token: str, label: str, tool: str) -> bool:
    """Whether a request has the gateway make a call that needed an approval."""
    server = ask.servers.get(label)
    is_allowed = server is not None and server.allows(tool)
    return is_allowed and token in ask.approvals and not ask.is_native


def _is_free(server: AskedServer | None, tool: str) -> bool:
    """Whether a tool may be called without an approval."""
    return server is not None and server.allows(tool) and tool in server.approved


def calls_go_to_their_server(world: World) -> Iterator[str]:
    """A call is made at the server, and of the tool, that the model has named."""
    for execution in world.history.mcp.executions:
        if not execution.token or _is_damaged(world, execution.token):
            continue
        content = _find_call(world, execution.token).content
        named = (
            [name for name, given in content.calls if execution.token in given] if content else []
        )
        expected = f"{execution.label}__{execution.tool.replace('.', '_')}"
        if not any(name.startswith(expected) for name in named):
            yield f"{execution.token}: {named} was called as {execution.label}/{execution.tool}"


def max_tool_calls_holds(world: World) -> Iterator[str]:
    """A response makes no more calls than its client allows."""
    approved = {token for _, ask in _asks(world) for token in ask.approvals}
    made = Counter(
        _find_call(world, each.token).exchange
        for each in world.history.mcp.executions
        if each.token and each.token not in approved
    )
    for exchange, ask in _asks(world):
        if ask.max_calls is not None and made[exchange.number] > ask.max_calls:
            yield f"{describe(exchange)}: {made[exchange.number]} calls of {ask.max_calls}"


def one_side_calls_servers(world: World) -> Iterator[str]:
    """Where the gateway calls servers, no provider is asked to; and the other way round."""
    calls = world.history.calls_of()
    for exchange, ask in _asks(world):
        for call in calls.get(exchange.number, []):
            is_native = call.provider == _NATIVE or (
                call.provider == "anthropic" and exchange.format == "messages"
            )
            if is_native != ask.is_native:
                yield f"{describe(exchange)}: call {call.number} of {call.provider}"


def credentials_go_to_their_server(world: World) -> Iterator[str]:
    """A credential reaches its server only, for calls of its own client; that of the operator is
    never left out or replaced; none is in a response, the log, the trace, the store or the request
    to another provider."""
    secrets = world.history.mcp.secrets
    for request in world.history.mcp.requests:
        for secret, label in secrets.items():
            if secret in request.secrets and label != request.label:
                yield f"{request.label} received the credential for {label}"
        found = TOKEN.fullmatch(request.token)
        others = [each for each in TENANTS if found is not None and each != found[2]]
        if any(write_secret(each, request.label) in request.secrets for each in others):
            yield f"{request.token}: {request.label} received the credential of another client"
        operator_secret = world.servers[request.label].plan.operator_secret
        if operator_secret not in request.secrets:
            yield f"{request.verb} {request.method} to {request.label} has no credential"
    for place, data in _list_places(world) if secrets else ():
        for secret in secrets:
            if secret.encode() in data:
                yield f"{place} holds the credential {secret!r}"


def _list_places(world: World) -> Iterator[tuple[str, bytes]]:
    for exchange in (*world.history.exchanges, *world.history.visits):
        yield describe(exchange), bytes(exchange.body) + repr(exchange.headers).encode()
    yield "the log", msgspec.json.encode([entry for _, entry in world.history.log])
    for gateway in world.gateways:
        rows = b"\n".join(row.body + row.blob for row in gateway.trace.rows)
        yield f"the trace of {gateway.process.name}", rows
    yield "the store", world.disk.dump()
    exchanges = world.history.exchanges
    for call in world.history.calls:
        ask = exchanges[call.exchange].mcp
        if ask is None or not ask.is_native:
            yield f"call {call.number} of {call.provider}", call.body


# What ends


def sessions_are_closed(world: World) -> Iterator[str]:
    """Every session that was opened is closed with its response, unless its process was killed, or
    the server could not be reached."""
    killed = {gateway.process.name for gateway in world.gateways if gateway.process.is_dead}
    for session in world.history.mcp.sessions:
        server = world.servers[session.label]
        is_open = session.is_used and not session.is_over and session.process not in killed
        if is_open and not server.was_unreachable(session.last_used):
            yield f"the session {session.id} of {session.process} is open"


def nothing_is_called_for_nobody(world: World) -> Iterator[str]:
    """No call is made for a client that has left, and none goes on."""
    approved = {token for _, ask in _asks(world) for token in ask.approvals}
    for request in world.history.mcp.requests:
        if not request.token or request.token in approved:
            continue
        exchange = world.history.exchanges[_find_call(world, request.token).exchange]
        if exchange.closed_at is None or exchange.is_background:
            continue
        window_s = world.config.attach.window_s if exchange.may_attach else 0.0
        limit = exchange.closed_at + window_s
        if request.began > limit + _LEFT_S:
            yield f"{describe(exchange)}: {request.token} was called after its client's loss"
        ended_s = _ENDED_S + saves_s(world, exchange)  # the response is saved first
        if request.lost_at is None or request.lost_at > limit + ended_s:
            yield f"{describe(exchange)}: {request.token} goes on after its client's loss"


def recovered_servers_are_used(world: World) -> Iterator[str]:
    """A server that works again is used again."""
    for exchange, _ in _asks(world):
        if not exchange.probes or has_no_key(world, exchange, _PROBE_PROVIDER):
            continue
        output = (exchange.response or {}).get("output", [])
        listed = [item.get("error") for item in output if item["type"] == _LIST]
        if exchange.result != "completed" or listed != [None]:
            yield f"probe of {exchange.probes}: {exchange.result}, {listed}"


MCP: tuple[Oracle, ...] = (
    mcp_items_are_in_order,
    mcp_calls_are_whole,
    mcp_results_are_the_servers,
    mcp_results_reach_the_model,
    mcp_usage_adds_up,
    only_permitted_calls_are_made,
    calls_go_to_their_server,
    max_tool_calls_holds,
    one_side_calls_servers,
    credentials_go_to_their_server,
    sessions_are_closed,
    nothing_is_called_for_nobody,
    recovered_servers_are_used,
)
