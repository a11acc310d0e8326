"""`antiphon trace list` and `show`: read requests from the trace file of the gateway."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import get_args

from antiphon.cli.load_config import add_config_option, load_config_or_default, resolve_trace_path
from antiphon.cli.terminal import is_terminal, make_console, write_json_lines
from antiphon.cli.trace_view import (
    make_detail_document,
    make_detail_page,
    make_summary_document,
    make_summary_table,
)
from antiphon.config import Config
from antiphon.errors import TraceNotFound
from antiphon.pipeline.printable import printable_fields
from antiphon.store.trace import reader as trace_reader
from antiphon.store.trace.reader import TraceDetail
from antiphon.store.trace.rows import StreamKind, TraceStream

_MAX_SEARCHED = 1000  # latest requests that an abbreviated id is compared with

_EPILOG = """\
examples:
  antiphon trace list --failed           the latest requests that failed
  antiphon trace show                    details of the latest request
  antiphon trace show req_3f9a           details of another, by the start of its id
  antiphon trace show resp_… | jq .usage
  antiphon trace show req_3f9a --stream raw > upstream.sse
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "List recent requests and show their details, also while the gateway is running.\n"
        "Text on a terminal, JSON in a pipe."
    )
    parser.epilog = _EPILOG
    parts = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, about, declare in (
        ("list", "the latest requests, newest first", _add_list),
        ("show", "the details of one request", _add_show),
    ):
        part = parts.add_parser(
            name, help=about, epilog=_EPILOG, formatter_class=parser.formatter_class
        )
        part.description = f"Show {about}."
        declare(part)
        add_config_option(part)
        part.add_argument("--file", metavar="FILE", help="the trace file; overrides [trace] path")


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--limit",
        type=int,
        default=20,
        metavar="N",
        help="maximum number of requests (default: %(default)s)",
    )
    parser.add_argument("--model", help="only requests for this model")
    parser.add_argument("--failed", action="store_true", help="only requests that failed")
    parser.set_defaults(run=run_list)


def _add_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "id",
        metavar="ID",
        nargs="?",
        help="id of the request or its response, or the start of it; default: the latest request",
    )
    parser.add_argument(
        "--stream",
        choices=get_args(StreamKind),
        help="write only the recorded bytes of this stream",
    )
    parser.set_defaults(run=run_show)


def run_list(args: argparse.Namespace) -> int:
    path = _find_trace_file(args)
    requests = trace_reader.list_requests(path, args.limit, model=args.model, failed=args.failed)
    if not is_terminal():
        write_json_lines(map(make_summary_document, requests))
        return 0
    console = make_console()
    if requests:
        console.print(make_summary_table([printable_fields(each) for each in requests]))
    else:
        console.print(f"no matching requests in {path}", soft_wrap=True)
    if lost := trace_reader.read_losses(path).total:
        console.print(f"{lost:,} rows of {path} are missing: the disk was too slow or full")
    return 0


def run_show(args: argparse.Namespace) -> int:
    path = _find_trace_file(args)
    detail = _find_request(path, args.id)
    if args.stream:
        sys.stdout.buffer.write(_find_stream(detail, args.stream).blob)
    elif is_terminal():
        make_console().print(make_detail_page(printable_fields(detail)))
    else:
        write_json_lines([make_detail_document(detail)])
    return 0


def _find_trace_file(args: argparse.Namespace) -> Path:
    config = load_config_or_default(args.config, needs=("trace",))
    path = Path(args.file) if args.file else resolve_trace_path(config)
    if not path.is_file():
        raise TraceNotFound(f"no trace file at {path}; {_suggest_fix(args, config)}")
    return path


def _suggest_fix(args: argparse.Namespace, config: Config) -> str:
    if args.file:
        return "omit --file to read the one of the configuration."
    if not config.trace.enabled:
        return (
            "[trace] enabled is false in the configuration: set it to true and restart the gateway."
        )
    return "`antiphon serve` creates it with the first request."


def _find_request(path: Path, id: str | None) -> TraceDetail:
    """Find a request by its id or the start of it; without an id, the latest."""
    detail = trace_reader.read_detail(path, id or _read_latest_id(path))
    if detail is None:
        detail = trace_reader.read_detail(path, _complete_id(path, id or ""))
    assert detail is not None
    return detail


def _read_latest_id(path: Path) -> str:
    latest = trace_reader.list_requests(path, 1)
    if not latest:
        raise TraceNotFound(f"{path} contains no requests yet.")
    return latest[0].request.request_id


def _complete_id(path: Path, prefix: str) -> str:
    """Complete an abbreviated id of a request or a response."""
    matches = [
        each.request.request_id
        for each in trace_reader.list_requests(path, _MAX_SEARCHED)
        if each.request.request_id.startswith(prefix)
        or (each.request.response_id or "").startswith(prefix)
    ]
    if not matches:
        raise TraceNotFound(
            f"no request {prefix!r} in {path}: `antiphon trace list` shows the latest ids."
        )
    if len(matches) > 1:
        raise TraceNotFound(
            f"{prefix!r} matches {len(matches)} requests in {path}: give more of the id."
        )
    return matches[0]


def _find_stream(detail: TraceDetail, kind: str) -> TraceStream:
    recorded = next((stream for stream in detail.streams if stream.kind == kind), None)
    if recorded is None or not recorded.blob:
        raise TraceNotFound(
            f"no {kind} bytes were recorded for this request: set payloads = true under [trace]"
            " and send the request again."
        )
    return recorded
