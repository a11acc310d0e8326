"""Results of simulation runs: one line of JSON each, in a file that adds up."""

from __future__ import annotations

from pathlib import Path

import msgspec


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One run: which seeds, at which commit, how many streams, and how long it took."""

    commit: str
    first: int
    seeds: int
    streams: int
    virtual_hours: float
    seconds: float
    cores: int
    corpus: bool
    violated: list[int]
    faults: int
    formats: dict[str, int] = {}
    """Requests by the format of their client."""


def append_result(path: Path, result: Result) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(msgspec.json.encode(result) + b"\n")


def read_results(path: Path) -> list[Result]:
    decode = msgspec.json.Decoder(Result).decode
    return [decode(line) for line in path.read_bytes().splitlines() if line.strip()]


def summarize_file(path: Path) -> str:
    """Add up the runs of a file, by commit and in all."""
    results = read_results(path)
    lines = [
        _summarize(commit, [each for each in results if each.commit == commit])
        for commit in dict.fromkeys(each.commit for each in results)
    ]
    return "\n".join([*lines, _summarize("all", results)])


def _summarize(name: str, results: list[Result]) -> str:
    streams = sum(each.streams for each in results)
    core_s = sum(each.seconds * each.cores for each in results)
    violated = sum(len(each.violated) for each in results)
    return (
        f"{name}: {streams:,} streams, {sum(each.faults for each in results):,} faults,"
        f" {sum(each.seeds for each in results):,} seeds,"
        f" {sum(each.virtual_hours for each in results):,.1f} virtual hours,"
        f" {sum(each.seconds for each in results):,.0f} s"
        f" ({streams / max(core_s, 1.0):.0f} streams per second and core),"
        f" {violated} seeds violated"
    )
