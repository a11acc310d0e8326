"""CPU time of the pure layers per chunk: provider bytes in, event bytes out, on one core.

It measures whether the cost is linear (a delta of a 20,000-delta stream costs the same as one of a
200-delta stream), and the microseconds of CPU per chunk. The best of several runs counts, because
other load on the machine can only add time.

    python bench/core.py            print the table
    python bench/core.py --write    also write it to bench/results/core.md
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from antiphon.core.response import Response
from antiphon.core.stream.machine import ResponseMachine
from antiphon.core.stream.source import Source
from antiphon.core.tools.identity import ToolIdentity, ToolIdentityMap
from antiphon.core.translation.translation import Translation
from antiphon.dialects.dialect import resolve
from antiphon.dialects.responses.render import SSEEncoder

SHORT, LONG = 200, 20_000
LIMIT_US, LIMIT_RATIO = 10.0, 1.5
RESULTS = Path(__file__).parent / "results" / "core.md"


def chunk(delta: Mapping[str, Any]) -> bytes:
    """A chunk as vendors send it, fields we do not read included."""
    document = {
        "id": "chatcmpl-B7mTq0JwXl",
        "object": "chat.completion.chunk",
        "created": 1794775394,
        "model": "bench",
        "service_tier": "default",
        "system_fingerprint": "fp_0a1b2c3d4e",
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}],
        "usage": None,
    }
    return b"data: " + msgspec.json.encode(document) + b"\n\n"


def arguments(fragment: str) -> dict[str, Any]:
    return {"tool_calls": [{"index": 0, "function": {"arguments": fragment}}]}


def opened_call(name: str) -> dict[str, Any]:
    function = {"name": name, "arguments": '{"input": "'}
    return {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}


STREAMS: Mapping[str, tuple[bytes, bytes]] = {
    "text": (b"", chunk({"content": " hello"})),
    "reasoning": (b"", chunk({"reasoning_content": " hmm"})),
    "arguments": (chunk(opened_call("plain")), chunk(arguments("lorem "))),
    "custom input": (chunk(opened_call("freeform")), chunk(arguments("lor\\nem"))),
}
TOOLS = ToolIdentityMap(
    [ToolIdentity("plain", "plain"), ToolIdentity("freeform", "freeform", "custom")]
)


def cost_us(kind: str, count: int) -> float:
    """Microseconds of CPU per chunk of one stream."""
    head, body = STREAMS[kind]
    numbers = itertools.count()
    machine = ResponseMachine(
        Response(id="resp_1", created_at=0, model="bench"),
        new_id=lambda prefix: f"{prefix}_{next(numbers)}",
        now=lambda: 0,
        tools=TOOLS,
    )
    translation, encoder = Translation(machine, Source(resolve("chat"))), SSEEncoder()
    began = time.process_time()
    encoder.feed(translation.feed(head))
    for _ in range(count):
        encoder.feed(translation.feed(body))
    return (time.process_time() - began) / count * 1e6


def measure() -> list[tuple[str, float, float]]:
    return [
        (
            kind,
            min(cost_us(kind, SHORT) for _ in range(40)),
            min(cost_us(kind, LONG) for _ in range(5)),
        )
        for kind in STREAMS
    ]


def table(rows: list[tuple[str, float, float]]) -> str:
    lines = [
        f"| deltas of | µs per chunk, {SHORT} of them | {LONG:,} of them | ratio |",
        "|---|---:|---:|---:|",
    ]
    lines += [f"| {kind} | {a:.2f} | {b:.2f} | {b / a:.2f} |" for kind, a, b in rows]
    worst = max(max(a, b) for _, a, b in rows)
    ratio = max(b / a for _, a, b in rows)
    lines += [
        "",
        f"Worst: {worst:.2f} µs (limit {LIMIT_US:g}), ratio {ratio:.2f} (limit {LIMIT_RATIO:g}).",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help=f"keep the table in {RESULTS.name}")
    text = table(measure())
    print(text)
    if parser.parse_args().write:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(f"# The pure layers, CPU time per chunk\n\n`make bench`\n\n{text}\n")


if __name__ == "__main__":
    main()
