"""Inputs to begin with: the golden transcripts, captured requests and, where it is, the corpus."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tests.support import corpus
from tests.support.full_request import FULL
from tests.support.http_cases import CASES as HTTP_CASES

GOLDEN = Path(__file__).parents[2] / "golden"
CASES = Path(__file__).parents[2] / "fuzz_cases"
MAX_BYTES = 20_000
"""Larger seeds are cut: a mutation near the end of a long stream shows little."""

_WIRES = {"sse": ".sse", "ndjson": ".ndjson", "eventstream": ".eventstream"}


def load_seeds(target: str) -> list[bytes]:
    """Return the inputs for a target, all different, and at least one."""
    kind, _, name = target.partition("-")
    found = [path.read_bytes() for path in CASES.glob(f"{target}-*")]
    match kind:
        case "stream" | "whole" | "error":
            found += _answers(name, whole=kind != "stream")
        case "frames":
            found += [path.read_bytes() for path in GOLDEN.glob(f"*/*/upstream{_WIRES[name]}")]
        case "http":
            found += HTTP_CASES.values()
        case _:
            found += _requests()
    return [*dict.fromkeys(data[:MAX_BYTES] for data in found)] or [b"{}"]


def _answers(dialect: str, *, whole: bool) -> list[bytes]:
    recorded = [
        case.data
        for case in corpus.cases(dialect)
        if whole == str(case.meta["wire"]).startswith("json")
    ]
    paths = GOLDEN.glob(f"{dialect}/*/upstream.*")
    golden = [path.read_bytes() for path in paths if whole == (path.suffix == ".json")]
    return golden + recorded


def _requests() -> list[bytes]:
    recorded = [case.request for case in corpus.cases("responses") if case.request is not None]
    return [msgspec.json.encode(each) for each in (FULL, *recorded)]
