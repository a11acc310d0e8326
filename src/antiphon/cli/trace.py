"""`antiphon trace list|show`: what became of requests, from the file the gateway writes."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import get_args

from antiphon.cli.load_config import add_config_option, load_settings, trace_path
from antiphon.cli.terminal import is_terminal, make_console, write_lines
from antiphon.cli.trace_view import detail_document, detail_page, summary_document, summary_table
from antiphon.config import Config
from antiphon.errors import TraceNotFound
from antiphon.store.trace import reader as trace_reader
from antiphon.store.trace.reader import TraceDetail
from antiphon.store.trace.rows import StreamKind, TraceStream

_SEARCHED = 1000  # so many of the latest requests can be named by the beginning of their id

_EPILOG = """\
examples:
  antiphon trace list --failed           what went wrong lately?
  antiphon trace show                    all about the latest request
  antiphon trace show req_3f9a           all about another, by the beginning of its id
  antiphon trace show resp_… | jq .usage
  antiphon trace show req_3f9a --stream raw > upstream.sse
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "See what became of requests, also while the gateway is running.\n"
        "Readable on a terminal, JSON in a pipe."
    )
    parser.epilog = _EPILOG
    parts = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, about, declare in (
        ("list", "the latest requests, newest first", _add_list),
        ("show", "everything about one request", _add_show),
    ):
        part = parts.add_parser(
            name, help=about, epilog=_EPILOG, formatter_class=parser.formatter_class
        )
        part.description = f"Show {about}."
        declare(part)
        add_config_option(part)
        part.add_argument(
            "--file", metavar="FILE", help="the trace to read, instead of [trace] path"
        )


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--limit", type=int, default=20, metavar="N", help="how many (default: %(default)s)"
    )
    parser.add_argument("--model", help="only those that asked for this model")
    parser.add_argument("--failed", action="store_true", help="only those that failed")
    parser.set_defaults(run=run_list)


def _add_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "id",
        metavar="ID",
        nargs="?",
        help="of the request or its response, or how it begins; the latest by default",
    )
    parser.add_argument(
        "--stream",
        choices=get_args(StreamKind),
        help="only the bytes of this stream, as they were",
    )
    parser.set_defaults(run=run_show)


def run_list(args: argparse.Namespace) -> int:
    path = _path(args)
    found = trace_reader.list_requests(path, args.limit, model=args.model, failed=args.failed)
    if not is_terminal():
        write_lines(map(summary_document, found))
        return 0
    console = make_console()
    if found:
        console.print(summary_table(found))
    else:
        console.print(f"no such requests in {path}", soft_wrap=True)
    if lost := trace_reader.read_losses(path).total:
        console.print(f"{lost:,} rows are missing: the disk was too slow, or full")
    return 0


def run_show(args: argparse.Namespace) -> int:
    path = _path(args)
    detail = _find(path, args.id)
    if args.stream:
        sys.stdout.buffer.write(_stream(detail, args.stream).blob)
    elif is_terminal():
        make_console().print(detail_page(detail))
    else:
        write_lines([detail_document(detail)])
    return 0


def _path(args: argparse.Namespace) -> Path:
    config = load_settings(args.config)
    path = Path(args.file) if args.file else trace_path(config)
    if not path.is_file():
        raise TraceNotFound(f"there is no trace at {path}: {_advice(args, config)}")
    return path


def _advice(args: argparse.Namespace, config: Config) -> str:
    if args.file:
        return "leave out --file to read the one of the configuration."
    if not config.trace.enabled:
        return "the configuration says [trace] enabled = false."
    return "`antiphon serve` writes it with the first request."


def _find(path: Path, id: str | None) -> TraceDetail:
    """The request of this id, or the one whose id begins so; without an id, the latest."""
    detail = trace_reader.read_detail(path, id or _latest(path))
    if detail is None:
        detail = trace_reader.read_detail(path, _completed(path, id or ""))
    assert detail is not None
    return detail


def _latest(path: Path) -> str:
    found = trace_reader.list_requests(path, 1)
    if not found:
        raise TraceNotFound(f"{path} has no requests yet.")
    return found[0].request.request_id


def _completed(path: Path, beginning: str) -> str:
    """The whole id of the one request that is meant."""
    found = [
        each.request.request_id
        for each in trace_reader.list_requests(path, _SEARCHED)
        if each.request.request_id.startswith(beginning)
        or (each.request.response_id or "").startswith(beginning)
    ]
    if not found:
        problem = f"nothing is known of {beginning!r}: `antiphon trace list` shows what is."
        raise TraceNotFound(problem)
    if len(found) > 1:
        raise TraceNotFound(f"{len(found)} requests begin with {beginning!r}: give more of the id.")
    return found[0]


def _stream(detail: TraceDetail, kind: str) -> TraceStream:
    found = next((stream for stream in detail.streams if stream.kind == kind), None)
    if found is None or not found.blob:
        raise TraceNotFound(
            f"the {kind} bytes of this request were not kept: set payloads = true under [trace],"
            " and send it again."
        )
    return found
