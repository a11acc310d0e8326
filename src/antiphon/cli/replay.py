"""`antiphon replay FILE`: convert a recorded provider response into Responses events."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.text import Text

from antiphon.cli.terminal import is_terminal, make_console, write_json_lines
from antiphon.core.client_profile import OTHER, PROFILES
from antiphon.errors import UnreadableFile
from antiphon.library.replay import detect_dialect, replay
from antiphon.providers.dialect_plugins import dialect_names
from antiphon.stages.printable import printable

_STYLES: Mapping[str, str] = {
    "response.created": "cyan",
    "response.in_progress": "cyan",
    "response.completed": "bold green",
    "response.incomplete": "bold yellow",
    "response.failed": "bold red",
    "response.output_item.added": "blue",
    "response.output_item.done": "blue",
}

_EPILOG = """\
examples:
  antiphon replay upstream.sse                       one event per line
  antiphon replay upstream.sse | jq -r .type         only the event names
  antiphon replay --request request.json body.json   a JSON body, with its request
  antiphon trace show ID --stream raw | antiphon replay -
  antiphon trace replay ID                           what the client of a traced request received
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Convert recorded provider bytes (a stream or a JSON body) into Responses events.\n"
        "With the client's request, its tools, formats and filters apply as in the gateway.\n"
        "Readable on a terminal, JSON lines in a pipe."
    )
    parser.epilog = _EPILOG
    parser.add_argument("file", metavar="FILE", help="the recording; - for standard input")
    parser.add_argument(
        "--dialect",
        choices=dialect_names(),
        help="API dialect of the provider (default: the one that the recording looks like)",
    )
    parser.add_argument(
        "--request",
        metavar="FILE",
        help="the client's request, as JSON; with PROVIDER/MODEL as its model, the data of that"
        " provider applies. Of the request that was sent to the provider, only model and tools are"
        " used",
    )
    parser.add_argument(
        "--client",
        default=OTHER.name,
        choices=sorted(PROFILES),
        metavar="NAME",
        help=f"the client that sent the request: {', '.join(sorted(PROFILES))} (default: other)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    request = _read_request(args.request) if args.request else {}
    data = _read_bytes(args.file)
    events = replay(
        data,
        dialect=args.dialect or detect_dialect(data),
        request=request,
        client=args.client,
    )
    write_events(events)
    return 0


def write_events(events: Sequence[Mapping[str, Any]]) -> None:
    """Write events: one short line each on a terminal, JSON lines in a pipe."""
    if not is_terminal():
        write_json_lines(events)
        return
    console = make_console()
    for event in events:
        console.print(_format_event(event), overflow="ellipsis", no_wrap=True)


def _read_bytes(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise UnreadableFile(f"cannot read {name}: {error.strerror}") from error


def _read_request(name: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(_read_bytes(name), type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise UnreadableFile(f"{name} is not a request body: {error}") from error


def _format_event(event: Mapping[str, Any]) -> Text:
    """Format an event as one line: sequence number, type, and a summary of its content."""
    name = event["type"]
    style = _STYLES.get(name, "magenta" if name.endswith(".delta") else "dim")
    line = Text.assemble(
        (f"{event['sequence_number']:>5}  ", "dim"),
        (f"{name.removeprefix('response.'):<32} ", style),
        printable(_summarize_event(event)),
    )
    line.rstrip()
    return line


def _summarize_event(event: Mapping[str, Any]) -> str:
    match event:
        case {"response": response}:
            return _summarize_response(response)
        case {"output_index": index, "item": item}:
            fields = (f"#{index}", item["type"], item.get("name"), item["id"], item.get("status"))
            return " ".join(field for field in fields if field)
        case {"delta": str(text)}:
            return repr(text)
        case {"part": part}:
            return str(part["type"])
        case {"annotation": annotation}:
            return str(annotation.get("url", annotation["type"]))
    return ""


def _summarize_response(response: Mapping[str, Any]) -> str:
    fields = [response["id"], response["model"], response["status"]]
    if usage := response.get("usage"):
        fields.append(f"{usage['input_tokens']} tokens in, {usage['output_tokens']} out")
    if details := response.get("incomplete_details"):
        fields.append(details["reason"])
    if error := response.get("error"):
        fields.append(f"{error['code']}: {error['message']}")
    return " · ".join(filter(None, fields))
