"""`antiphon replay FILE`: watch a recorded answer become Responses events."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from rich.text import Text

from antiphon.cli.terminal import is_terminal, make_console, write_lines
from antiphon.dialects.dialect import DIALECTS
from antiphon.errors import UnreadableFile
from antiphon.replay import replay

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
  antiphon replay upstream.sse                       one event a line
  antiphon replay upstream.sse | jq -r .type         the names alone
  antiphon replay --request request.json answer.json a whole answer, with the tools it was given
  antiphon trace show ID --stream raw | antiphon replay -
                                                     what happened here, once more
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Turn recorded provider bytes (a stream, or a whole JSON body) into Responses events.\n"
        "Readable on a terminal, JSON lines in a pipe."
    )
    parser.epilog = _EPILOG
    parser.add_argument("file", metavar="FILE", help="the recording; - reads standard input")
    parser.add_argument(
        "--dialect",
        default="chat",
        choices=sorted(DIALECTS),
        help="what the provider speaks (default: %(default)s)",
    )
    parser.add_argument(
        "--request",
        metavar="FILE",
        help="the request that was sent to the provider, for its model and its tools",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    request = _read_request(args.request) if args.request else None
    events = replay(_read(args.file), dialect=args.dialect, request=request)
    if not is_terminal():
        write_lines(events)
        return 0
    console = make_console()
    for event in events:
        console.print(_line(event), overflow="ellipsis", no_wrap=True)
    return 0


def _read(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise UnreadableFile(f"cannot read {name}: {error.strerror}") from error


def _read_request(name: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(_read(name), type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise UnreadableFile(f"{name} is not a request: {error}") from error


def _line(event: Mapping[str, Any]) -> Text:
    """One event on one line: its number, its name, and the one thing it says."""
    name = event["type"]
    style = _STYLES.get(name, "magenta" if name.endswith(".delta") else "dim")
    line = Text.assemble(
        (f"{event['sequence_number']:>5}  ", "dim"),
        (f"{name.removeprefix('response.'):<32} ", style),
        _gist(event),
    )
    line.rstrip()
    return line


def _gist(event: Mapping[str, Any]) -> str:
    match event:
        case {"response": response}:
            return _response_gist(response)
        case {"output_index": index, "item": item}:
            facts = (f"#{index}", item["type"], item.get("name"), item["id"], item.get("status"))
            return " ".join(fact for fact in facts if fact)
        case {"delta": str(text)}:
            return repr(text)
        case {"part": part}:
            return str(part["type"])
        case {"annotation": annotation}:
            return str(annotation.get("url", annotation["type"]))
    return ""


def _response_gist(response: Mapping[str, Any]) -> str:
    facts = [response["id"], response["model"], response["status"]]
    if usage := response.get("usage"):
        facts.append(f"{usage['input_tokens']} tokens in, {usage['output_tokens']} out")
    if details := response.get("incomplete_details"):
        facts.append(details["reason"])
    if error := response.get("error"):
        facts.append(f"{error['code']}: {error['message']}")
    return " · ".join(filter(None, facts))
