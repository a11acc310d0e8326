"""`antiphon replay FILE`: watch a recorded answer become Responses events."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from antiphon.dialects.dialect import DIALECTS
from antiphon.errors import AntiphonError
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


class UnreadableRecording(AntiphonError):
    code = "cli.unreadable_recording"


def add(commands: Any) -> None:
    parser: argparse.ArgumentParser = commands.add_parser(
        "replay",
        help="turn recorded provider bytes into Responses events",
        description="Turn recorded provider bytes (SSE, or a whole JSON body) into Responses"
        " events: readable on a terminal, JSON lines in a pipe.",
    )
    parser.add_argument("file", metavar="FILE", help="the recording; - reads standard input")
    parser.add_argument(
        "--dialect", default="chat", choices=sorted(DIALECTS), help="what the provider speaks"
    )
    parser.add_argument("--request", metavar="FILE", help="the recorded native request, if known")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    request = msgspec.json.decode(_read(args.request)) if args.request else None
    events = replay(_read(args.file), dialect=args.dialect, request=request)
    console = Console(highlight=False)
    if console.is_terminal:
        for event in events:
            console.print(_line(event), overflow="ellipsis", no_wrap=True)
    else:
        for event in events:
            sys.stdout.buffer.write(msgspec.json.encode(event) + b"\n")
    return 0


def _read(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise UnreadableRecording(f"cannot read {name}: {error.strerror}") from error


def _line(event: Mapping[str, Any]) -> Text:
    """One event on one line: its number, its name, and the one thing it says."""
    name = event["type"]
    style = _STYLES.get(name, "magenta" if name.endswith(".delta") else "dim")
    return Text.assemble(
        (f"{event['sequence_number']:>5}  ", "dim"),
        (f"{name.removeprefix('response.'):<32} ", style),
        _gist(event),
    )


def _gist(event: Mapping[str, Any]) -> str:
    match event:
        case {"response": response}:
            return _response_gist(response)
        case {"output_index": index, "item": item}:
            name = item.get("name", "")
            return f"#{index} {item['type']} {name} {item['id']} {item.get('status', '')}".strip()
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
    return " · ".join(facts)
