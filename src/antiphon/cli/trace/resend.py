"""Send a recorded request again, in this process, as the client that sent it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import msgspec
from rich.text import Text

from antiphon.cli.terminal import is_terminal, make_console, print_error, write_json_lines
from antiphon.cli.trace.view import find_texts, format_call
from antiphon.config import Config
from antiphon.core.events import Event, TextDelta
from antiphon.core.request import Request
from antiphon.core.response import Response
from antiphon.engine.engine import Engine
from antiphon.engine.services import Caller
from antiphon.errors import UpstreamError
from antiphon.library.formats import find_format
from antiphon.observe.result import Result, make_result
from antiphon.server.body import decode_body
from antiphon.server.wiring import open_engine
from antiphon.stages.pipeline import terminal
from antiphon.stages.printable import printable


def resend(
    config: Config,
    body: bytes,
    client: str,
    format: str,
    model: str | None,
    before: Result | None = None,
) -> int:
    """Send a request of a client's format again and write its response: text, calls, tokens and
    what differs from `before` on a terminal, JSON in a pipe. It has a row of its own in the trace,
    and counts towards the limits of the client."""
    document: dict[str, Any] = {**msgspec.json.decode(body), "stream": True}
    if model is not None:
        document["model"] = model
    return asyncio.run(_resend(config, document, client, format, before))


async def _resend(
    config: Config, document: dict[str, Any], client: str, format: str, before: Result | None
) -> int:
    async with open_engine(config, os.environ, lambda entry: None) as engine:
        request_id = engine.services.runtime.new_id("req")
        if is_terminal():
            make_console().print(Text(f"{document['model']} · {request_id}", style="dim"))
        dialect = find_format(format)
        request = dialect.parse(decode_body(msgspec.json.encode(document)))
        caller = Caller(client, request_id, dialect=None if format == "responses" else dialect)
        try:
            response = await _read_response(engine, request, caller)
        except UpstreamError as error:
            print_error(printable(error.description))
            return 1
    if not is_terminal():
        write_json_lines([response])
    else:
        _print_outcome(response, before)
    return 0 if response.error is None else 1


async def _read_response(engine: Engine, request: Request, caller: Caller) -> Response:
    response: Response | None = None
    async with await engine.create(request, caller) as run:
        await run.open()
        while events := await run.next_events():
            if is_terminal():
                _print_text(events)
            if (ending := terminal(events)) is not None:
                response = ending.response
    if is_terminal():
        make_console().print()
    assert response is not None
    return response


def _print_text(events: list[Event]) -> None:
    text = "".join(event.delta for event in events if isinstance(event, TextDelta))
    if text:
        make_console().print(printable(text, keep="\n"), end="", soft_wrap=True)


def _print_outcome(response: Response, before: Result | None) -> None:
    """Print the tool calls, the status and the tokens, and what differs from the first response."""
    console = make_console()
    result = make_result(msgspec.to_builtins(response))
    for call in result.calls:
        console.print(format_call(call), soft_wrap=True)
    usage = response.usage
    tokens = f"{usage.input_tokens:,} → {usage.output_tokens:,} tokens" if usage else "no tokens"
    style = "green" if response.status == "completed" else "yellow"
    console.print(Text.assemble((response.status, style), f" · {tokens}"))
    if response.error is not None:
        print_error(printable(response.error.message))
    if before is not None:
        lines = list(compare_results(before, result)) or ["the same calls and the same text"]
        for line in ("compared with the recorded response:", *lines):
            console.print(Text(printable(line), style="dim"), soft_wrap=True)


def compare_results(before: Result, after: Result) -> Iterator[str]:
    """Yield what differs: calls that are gone (-) or new (+), and whether the text is another."""
    gone = [(call.name, call.arguments) for call in before.calls]
    new = [(call.name, call.arguments) for call in after.calls]
    for mark, calls, others in (("-", gone, new), ("+", new, gone)):
        yield from (f"{mark} {' '.join(call)}" for call in calls if call not in others)
    texts = ["".join(find_texts(each.items)) for each in (before, after)]
    if texts[0] != texts[1]:
        yield f"other text: {len(texts[0]):,} characters before, {len(texts[1]):,} now"
