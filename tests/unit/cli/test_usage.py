"""`antiphon usage`: JSON, CSV and a table, without the secrets of the configuration."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import time
from pathlib import Path

import pytest

from antiphon.cli.main import main
from antiphon.engine.accounting import DOLLAR
from antiphon.store.sqlite.store import SQLiteStore
from antiphon.store.usage.usage_table import COUNTS, Counts, UsageKey
from tests.support.commands import Screen

NAMES = [
    *("client", "model", "provider", "requests", "failures", "input_tokens", "cached_tokens"),
    *("output_tokens", "reasoning_tokens", "cost"),
]


def counts(**values: int) -> Counts:
    return tuple(values.get(name, 0) for name in COUNTS)


@pytest.fixture
def store(home: Path) -> Path:
    """Two clients now, and one eight days ago."""
    path = home / ".local" / "share" / "antiphon" / "turns.db"
    asyncio.run(write_usage(path, int(time.time()) // 3600))
    return path


async def write_usage(path: Path, hour: int) -> None:
    store = SQLiteStore(path, now=lambda: 0)
    await store.open()
    await store.usage.add(
        {
            UsageKey(hour, "alice", "gpt-5", "openai"): counts(
                requests=2, input_tokens=10, output_tokens=5, cost=DOLLAR // 4
            ),
            UsageKey(hour, "=bob", "m", "lab"): counts(requests=1, failures=1, unpriced=1),
            UsageKey(hour - 8 * 24, "carol", "m", "lab"): counts(requests=9),
        }
    )
    await store.close()


@pytest.mark.usefixtures("store")
def test_in_a_pipe_rows_are_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["usage"]) == 0
    alice, bob = map(json.loads, capsys.readouterr().out.splitlines())
    assert list(alice) == NAMES
    assert alice["client"] == "alice"
    assert (alice["requests"], alice["input_tokens"], alice["cost"]) == (2, 10, 0.25)
    assert (bob["failures"], bob["cost"]) == (1, None)


@pytest.mark.usefixtures("store")
def test_as_csv_rows_have_the_same_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["usage", "--csv"]) == 0
    header, alice, bob = csv.reader(io.StringIO(capsys.readouterr().out))
    assert header == NAMES
    assert alice == ["alice", "gpt-5", "openai", "2", "0", "10", "0", "5", "0", "0.25"]
    assert bob[0] == "'=bob"
    assert bob[-1] == ""


@pytest.mark.usefixtures("store")
def test_rows_are_grouped_and_limited_in_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["usage", "--since", "10d", "--by", "provider"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["provider"]: row["requests"] for row in rows} == {"openai": 2, "lab": 10}
    assert {row["client"] for row in rows} == {None}
    assert main(["usage", "--since", "10d", "--by", "day,client"]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert list(first) == ["day", *NAMES]
    assert first["client"] == "carol"


@pytest.mark.usefixtures("store")
def test_on_a_terminal_it_is_a_table(screen: Screen) -> None:
    assert screen.run("usage", "--by", "client") == 0
    _, _, alice, bob, total, *_ = screen.rows()
    assert (alice[:3], bob[:3], total[:3]) == (
        ["alice", "2", "0"],
        ["=bob", "1", "1"],
        ["total", "3", "1"],
    )
    assert alice[-2:] == ["$0.2500", "████████████████"]


def test_secrets_that_are_not_set_do_not_matter(
    store: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = home / "team.toml"
    config.write_text(
        '[server]\napi_keys = { alice = "${NOT_SET}" }\n'
        f'[store]\nurl = "sqlite:///{store}"\n[limits.alice]\nmax_streams = 1\n'
    )
    assert main(["usage", "--config", str(config)]) == 0
    assert capsys.readouterr().out


def test_without_requests_it_says_so(store: Path, screen: Screen) -> None:
    assert screen.run("usage", "--since", "2100-01-01") == 0
    assert "No requests since 2100-01-01 00:00. An earlier time: --since 30d" in screen.plain


def test_without_a_store_it_says_what_creates_one(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["usage"]) == 2
    assert "`antiphon serve` creates it" in capsys.readouterr().err


def test_a_store_in_memory_cannot_be_read(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = home / "memory.toml"
    config.write_text('[store]\nurl = "memory://"\n')
    assert main(["usage", "--config", str(config)]) == 2
    assert "cannot be read from outside" in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--by", "colour"], ["--since", "soon"]])
def test_a_wrong_option_is_explained(option: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["usage", *option])
    assert " is not " in capsys.readouterr().err
