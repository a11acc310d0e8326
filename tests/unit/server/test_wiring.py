"""An engine from a configuration: what is opened, and the capsule key on the disk."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest
from msgspec import structs

from antiphon.config import CapsuleConfig, OtelConfig, StoreConfig, TraceConfig, VisionConfig
from antiphon.engine.services import find_nothing
from antiphon.engine.tracing import Tracer
from antiphon.errors import ConfigError, StoreError
from antiphon.server.wiring import open_engine
from antiphon.stages.log import Entry
from antiphon.store.sqlite.store import SQLiteStore
from tests.support.applications import echo_config
from tests.support.stores import OpenMemory

WITHOUT_KEY = structs.replace(echo_config(), capsule=CapsuleConfig())


def written_files(directory: Path) -> list[Path]:
    return [*directory.rglob("*")]


def ignore(entry: Entry) -> None:
    return


async def seal(home: Path) -> str:
    """Seal some reasoning with the key below this directory."""
    async with open_engine(WITHOUT_KEY, {"XDG_DATA_HOME": str(home)}, ignore) as engine:
        return engine.services.sealer.seal("local", "issuer", "model", [], "reasoning")


async def test_the_capsule_key_is_created_once_and_only_its_owner_can_read_it(
    tmp_path: Path,
) -> None:
    sealed = await seal(tmp_path)
    path = tmp_path / "antiphon" / "capsule.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    async with open_engine(WITHOUT_KEY, {"XDG_DATA_HOME": str(tmp_path)}, ignore) as engine:
        assert engine.services.sealer.open("local", sealed) is not None


async def test_a_capsule_key_that_cannot_be_saved_is_a_configuration_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    with pytest.raises(ConfigError, match=r"capsule.key: the capsule key cannot be saved"):
        await seal(blocked)


async def test_with_a_capsule_key_and_a_memory_store_nothing_is_written(tmp_path: Path) -> None:
    environment = {"XDG_DATA_HOME": str(tmp_path)}
    async with open_engine(echo_config(), environment, ignore) as engine:
        assert engine.services.search is find_nothing
        assert engine.router.default_name() == "echo/echo"
    assert written_files(tmp_path) == []


async def test_the_default_store_is_a_file_in_the_data_directory(tmp_path: Path) -> None:
    config = structs.replace(echo_config(), store=StoreConfig())
    async with open_engine(config, {"XDG_DATA_HOME": str(tmp_path)}, ignore):
        pass
    assert tmp_path / "antiphon" / "turns.db" in written_files(tmp_path)


async def test_a_store_and_a_tracer_that_are_given_replace_those_of_the_configuration(
    open_memory: OpenMemory,
    tmp_path: Path,
) -> None:
    store = await open_memory()
    tracer = Tracer(None, lambda: 0.0)
    environment = {"XDG_DATA_HOME": str(tmp_path)}
    async with open_engine(
        echo_config(), environment, ignore, store=store, tracer=tracer
    ) as engine:
        assert engine.services.store is store
        assert engine.services.tracer is tracer
    assert written_files(tmp_path) == []


class RecordedStore(SQLiteStore):
    """A store that remembers whether it is open."""

    is_open = False

    async def open(self) -> None:
        self.is_open = True

    async def close(self) -> None:
        self.is_open = False


async def test_a_trace_that_cannot_be_opened_leaves_no_store_open(tmp_path: Path) -> None:
    store = RecordedStore(None, now=lambda: 0)
    config = structs.replace(echo_config(), trace=TraceConfig(path=str(tmp_path)))
    with pytest.raises(StoreError):
        async with open_engine(config, {"XDG_DATA_HOME": str(tmp_path)}, ignore, store=store):
            pytest.fail("the trace was opened")
    assert not store.is_open


async def test_a_trace_that_cannot_be_opened_leaves_no_exporter_of_spans_running(
    tmp_path: Path,
) -> None:
    trace, otel = TraceConfig(path=str(tmp_path)), OtelConfig(endpoint="http://127.0.0.1:9")
    config = structs.replace(echo_config(), trace=trace, otel=otel)
    before = threading.enumerate()
    with pytest.raises(StoreError):
        async with open_engine(config, {"XDG_DATA_HOME": str(tmp_path)}, ignore):
            pytest.fail("the trace was opened")
    assert [thread.name for thread in threading.enumerate() if thread not in before] == []


async def test_a_store_that_cannot_be_closed_leaves_no_trace_open(tmp_path: Path) -> None:
    class Stuck(SQLiteStore):
        async def close(self) -> None:
            raise StoreError("cannot be closed")

    config = structs.replace(echo_config(), trace=TraceConfig(path=str(tmp_path / "trace.db")))
    store, environment = Stuck(None, now=lambda: 0), {"XDG_DATA_HOME": str(tmp_path)}
    before = threading.enumerate()

    async def open_and_close() -> None:
        async with open_engine(config, environment, ignore, store=store) as engine:
            await engine.services.worker.run(lambda: None)
            assert len(threading.enumerate()) == len(before) + 2  # the trace, the worker

    with pytest.raises(StoreError, match="cannot be closed"):
        await open_and_close()
    left = [each for each in threading.enumerate() if each not in before]
    for thread in left:
        thread.join(1.0)
    assert [thread.name for thread in left if thread.is_alive()] == []


async def test_an_engine_that_cannot_be_made_leaves_nothing_open(tmp_path: Path) -> None:
    """`[vision] model` is checked when everything else is open."""
    store = RecordedStore(None, now=lambda: 0)
    config = structs.replace(echo_config(), vision=VisionConfig(model="echo/unknown-model"))
    before = threading.enumerate()
    with pytest.raises(ConfigError):
        async with open_engine(config, {"XDG_DATA_HOME": str(tmp_path)}, ignore, store=store):
            pytest.fail("the engine was made")
    assert not store.is_open
    assert [thread.name for thread in threading.enumerate() if thread not in before] == []


async def test_the_store_is_open_as_long_as_the_engine(tmp_path: Path) -> None:
    store = RecordedStore(None, now=lambda: 0)
    async with open_engine(echo_config(), {"XDG_DATA_HOME": str(tmp_path)}, ignore, store=store):
        assert store.is_open
    assert not store.is_open
