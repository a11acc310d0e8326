"""`antiphon trace list`, `tail`, `show`, `replay` and `resend`: requests in the trace file."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import get_args

from antiphon.cli.load_config import add_config_option, load_config_or_default, resolve_trace_path
from antiphon.cli.terminal import is_terminal, make_console, write_json_lines
from antiphon.cli.times import TIME_HELP, parse_time
from antiphon.cli.trace.view import (
    make_detail_document,
    make_detail_page,
    make_summary_document,
    make_summary_line,
    make_summary_table,
    read_detail_result,
)
from antiphon.config import Config
from antiphon.errors import TraceNotFound
from antiphon.stages.printable import printable_fields
from antiphon.store.trace import reader as trace_reader
from antiphon.store.trace.reader import TraceDetail, TraceFilter, TraceFollower
from antiphon.store.trace.rows import StreamKind, TraceStream

_POLL_S = 0.5
# `attached`: the request got the response of an earlier one.
_STATUSES = "completed incomplete failed cancelled rejected running attached".split()
_MAX_SEARCHED = 1000  # latest requests that an abbreviated id is compared with

_NEEDS = {
    "replay": "\nIt needs payloads = true in [trace], and calls no provider.",
    "resend": "\nIt needs payloads = true in [trace], and calls the provider, which may be billed.",
}
"""What a part needs and does beside its first sentence."""

_EPILOG = """\
examples:
  antiphon trace list --failed           the latest requests that failed
  antiphon trace list --since 2h --client ci --code rate_limit_exceeded
  antiphon trace tail                    requests as they end, until Ctrl-C
  antiphon trace show                    details of the latest request
  antiphon trace show req_3f9a           details of another, by the start or end of its id
  antiphon trace show resp_… | jq .usage
  antiphon trace show req_3f9a --stream raw > upstream.sse
  antiphon trace replay req_3f9a         the events that its client received
  antiphon trace resend req_3f9a --model deepseek/deepseek-v4-pro
  antiphon trace report req_3f9a         one file for a bug report, without its texts
"""


def add(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "List recent requests, follow them, show their details and send one again, also while\n"
        "the gateway is running. "
        "Text on a terminal, JSON in a pipe."
    )
    parser.epilog = _EPILOG
    parts = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, about, declare in (
        ("list", "list the latest requests, newest first", _add_list),
        ("tail", "list requests as they end, until Ctrl-C", _add_tail),
        ("show", "show the details of one request", _add_show),
        ("replay", "show the events that the client of a request received", _add_replay),
        ("resend", "send a recorded request again, and compare the responses", _add_resend),
        (
            "report",
            "write one file for a bug report, without the texts of the request",
            _add_report,
        ),
    ):
        part = parts.add_parser(
            name, help=about, epilog=_list_examples(name), formatter_class=parser.formatter_class
        )
        part.description = f"{about[0].upper()}{about[1:]}.{_NEEDS.get(name, '')}"
        declare(part)
        add_config_option(part)
        part.add_argument("--file", metavar="FILE", help="the trace file; overrides [trace] path")


def _list_examples(name: str) -> str:
    """The examples of one part."""
    title, *lines = _EPILOG.splitlines()
    return "\n".join([title, *(line for line in lines if f"trace {name}" in line)])


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--limit",
        type=int,
        default=20,
        metavar="N",
        help="maximum number of requests (default: %(default)s)",
    )
    _add_filters(parser)
    parser.add_argument(
        "--since", type=parse_time, metavar="TIME", help=f"only later requests: {TIME_HELP}"
    )
    parser.add_argument(
        "--until", type=parse_time, metavar="TIME", help="only earlier requests, as --since"
    )
    parser.set_defaults(run=run_list)


def _add_filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--client", help="only requests of this client key")
    parser.add_argument("--model", help="only requests for this model, or served by it")
    parser.add_argument("--provider", help="only requests that this provider served")
    parser.add_argument(
        "--status",
        choices=_STATUSES,
        metavar="STATUS",
        help=f"only this status: {', '.join(_STATUSES)}",
    )
    parser.add_argument("--code", help="only requests with this error code")
    parser.add_argument(
        "--failed",
        action="store_true",
        help="only requests that failed; for rejected ones: --status rejected",
    )
    parser.add_argument("--session", metavar="ID", help="only requests of this session")


def _add_tail(parser: argparse.ArgumentParser) -> None:
    _add_filters(parser)
    parser.set_defaults(run=run_tail)


def _add_resend(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="id of the request or its response")
    parser.add_argument("--model", help="ask this model instead")
    parser.set_defaults(run=run_resend)


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="id of the request or its response")
    parser.add_argument(
        "--output", metavar="FILE", help="the file to write; default: antiphon-report-ID.json"
    )
    parser.set_defaults(run=run_report)


def _add_replay(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="id of the request or its response")
    parser.set_defaults(run=run_replay)


def _add_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "id",
        metavar="ID",
        nargs="?",
        help="id of the request or its response, or its start or end; default: the latest request",
    )
    parser.add_argument(
        "--stream",
        choices=get_args(StreamKind),
        metavar="STREAM",
        help="write only the recorded bytes: `request` of the client, `outbound` (the request to"
        " the provider), `raw` (its response), `transformed` (the events of the response) or"
        " `client` (the response in a format without such events)",
    )
    parser.set_defaults(run=run_show)


def run_list(args: argparse.Namespace) -> int:
    path = _find_trace_file(args)
    where = _read_filter(args)
    requests = trace_reader.list_requests(path, args.limit, where=where)
    if not is_terminal():
        write_json_lines(map(make_summary_document, requests))
        return 0
    console = make_console()
    if requests:
        console.print(make_summary_table([printable_fields(each) for each in requests]))
    else:
        console.print(_explain_nothing(path, where), soft_wrap=True)
    if lost := trace_reader.read_losses(path).total:
        console.print(f"{lost:,} rows of {path} are missing: the disk was too slow or full")
    return 0


def _explain_nothing(path: Path, where: TraceFilter) -> str:
    if where == TraceFilter():
        return f"{path} contains no requests yet."
    return f"No request in {path} matches. Without options, the latest requests are listed."


def _read_filter(args: argparse.Namespace) -> TraceFilter:
    since = getattr(args, "since", None)
    until = getattr(args, "until", None)
    return TraceFilter(
        client=args.client,
        model=args.model,
        provider=args.provider,
        status=args.status,
        code=args.code,
        session=args.session,
        failed=args.failed,
        since_ms=None if since is None else since * 1000,
        until_ms=None if until is None else until * 1000,
    )


def run_tail(args: argparse.Namespace) -> int:
    path = _find_trace_file(args)
    follower = TraceFollower(path)
    where = _read_filter(args)
    console = make_console()
    make_console(stderr=True).print(f"following {path}; Ctrl-C ends it", style="dim")
    while True:
        for summary in follower.poll(where):
            if is_terminal():
                line = make_summary_line(printable_fields(summary), console.width)
                console.print(line, soft_wrap=True)
            else:
                write_json_lines([make_summary_document(summary)])
                sys.stdout.flush()
        time.sleep(_POLL_S)


def run_replay(args: argparse.Namespace) -> int:
    detail = _find_request(_find_trace_file(args), args.id)
    asked = _find_whole_request(detail)
    said = _find_said(detail)
    from antiphon.cli.trace.replay import replay_request  # imports the dialects

    return replay_request(args, detail, asked, said)


def _find_whole_request(detail: TraceDetail) -> TraceStream:
    recorded = _find_stream(detail, "request")
    if recorded.truncated:
        raise TraceNotFound(
            "the recorded request is truncated: raise payload_max_bytes under [trace], restart the"
            " gateway and send it again."
        )
    return recorded


def run_resend(args: argparse.Namespace) -> int:
    detail = _find_request(_find_trace_file(args), args.id)
    recorded = _find_whole_request(detail)
    from antiphon.cli.trace.resend import resend  # imports the engine, which takes a while

    client = (detail.request and detail.request.client) or ""
    format = (detail.request and detail.request.format) or "responses"
    before = read_detail_result(detail)
    return resend(
        load_config_or_default(args.config), recorded.blob, client, format, args.model, before
    )


def run_report(args: argparse.Namespace) -> int:
    detail = _find_request(_find_trace_file(args), args.id)
    from antiphon.cli.trace.report import write_report  # few need it

    return write_report(detail, args.output)


def run_show(args: argparse.Namespace) -> int:
    path = _find_trace_file(args)
    detail = _find_request(path, args.id)
    if args.stream:
        sys.stdout.buffer.write(_read_stream(detail, args.stream))
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


def _abbreviates(part: str, id: str | None) -> bool:
    """Whether a text is the start of an id, or its end as the page shows it."""
    return id is not None and (id.startswith(part) or (len(part) >= 4 and id.endswith(part)))


def _complete_id(path: Path, part: str) -> str:
    """Complete an abbreviated id of a request or a response."""
    part = part.rpartition("…")[2]
    matches = [
        each.request.request_id
        for each in trace_reader.list_requests(path, _MAX_SEARCHED)
        if any(_abbreviates(part, id) for id in (each.request.request_id, each.request.response_id))
    ]
    if not matches:
        raise TraceNotFound(
            f"no request {part!r} in {path}: `antiphon trace list` shows the latest ids."
        )
    if len(matches) > 1:
        raise TraceNotFound(
            f"{part!r} matches {len(matches)} requests in {path}: give more of the id."
        )
    return matches[0]


def _read_stream(detail: TraceDetail, kind: str) -> bytes:
    """Return the bytes of a stream. Without a response of a provider, its raw bytes are the bodies
    of the attempts that failed."""
    recorded = [stream for stream in detail.streams if stream.kind == kind and stream.blob]
    if recorded and all(stream.attempt for stream in recorded):
        return b"\n".join(stream.blob for stream in recorded)
    return _find_stream(detail, kind).blob


def _find_said(detail: TraceDetail) -> TraceStream:
    """Find what the provider sent; nothing, if the response ended with its MCP servers."""
    if detail.server_calls and all(stream.kind != "raw" for stream in detail.streams):
        return TraceStream(request_id=detail.server_calls[0].request_id, kind="raw")
    return _find_stream(detail, "raw")


def _find_stream(detail: TraceDetail, kind: str) -> TraceStream:
    found = (each for each in detail.streams if each.kind == kind and not each.attempt)
    recorded = next(found, None)
    if recorded is not None and recorded.blob:
        return recorded
    if detail.finish is not None and detail.finish.status == "rejected":
        raise TraceNotFound(
            f"this request has no {kind} bytes: it was rejected before a provider was called."
        )
    if any(stream.blob for stream in detail.streams):
        raise TraceNotFound(f"this request has no {kind} bytes: it ended before there were any.")
    raise TraceNotFound(
        f"no {kind} bytes were recorded for this request: set payloads = true under [trace],"
        " restart the gateway and send the request again."
    )
