"""A store that cannot be used while the gateway runs: reported, answered without, and healed.

Real files: the directory is moved or deleted, the file is replaced, the disk takes no more bytes.
"""

from __future__ import annotations

import asyncio
import resource
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from antiphon.config import StoreConfig, TraceConfig
from antiphon.engine.runtime import Runtime
from tests.support.client_answers import Answer, post_request, send_raw
from tests.support.gateways import Running, replaced, running, settings


class Outage:
    """A gateway whose store is in a directory of its own, and its clock."""

    def __init__(self, gateway: Running, directory: Path, clock: list[float]) -> None:
        self.gateway = gateway
        self.directory = directory
        self._clock = clock

    async def ready(self) -> Answer:
        self._clock[0] += 60  # whatever was remembered is too old
        return await send_raw(self.gateway, "GET", "/health/ready")

    async def ask(self, **body: Any) -> Answer:
        answer = await self.post(**body)
        assert answer.status == 200, answer.body
        assert answer.response["status"] == "completed"
        return answer

    async def post(self, **body: Any) -> Answer:
        return await post_request(self.gateway, {"model": "echo/echo", "input": "Hello?", **body})

    async def check_unavailable(self) -> None:
        """The outage is reported, and answers say that they are not stored."""
        answer = await self.ready()
        assert answer.status == 503
        assert answer.document == {"status": "store unavailable", "store": "turns.db"}
        for stream in (False, True):
            assert (await self.ask(stream=stream)).response["store"] is False

    async def check_available(self) -> None:
        answer = await self.ready()
        assert (answer.status, answer.document) == (200, {"status": "ok"})
        first = (await self.ask(stream=True)).response
        assert first["store"] is True
        await self.ask(previous_response_id=first["id"])

    def events(self) -> list[str]:
        return [entry.event for entry in self.gateway.log if entry.event.startswith("store.")]


@asynccontextmanager
async def outage(tmp_path: Path) -> AsyncIterator[Outage]:
    directory = tmp_path / "data"
    clock = [1000.0]
    config = replaced(
        settings(tmp_path),
        store=StoreConfig(url=f"sqlite:///{directory / 'turns.db'}"),
        trace=TraceConfig(path=str(directory / "trace.db")),
    )
    async with running(config, Runtime(monotonic=lambda: clock[0])) as gateway:
        yield Outage(gateway, directory, clock)


async def test_a_store_whose_directory_is_moved_away_heals_when_it_is_back(tmp_path: Path) -> None:
    async with outage(tmp_path) as setup:
        before = (await setup.ask()).response["id"]
        setup.directory.rename(tmp_path / "elsewhere")
        await setup.check_unavailable()
        continued = await setup.post(previous_response_id=before)
        assert (continued.status, continued.error["type"]) == (500, "server_error")
        assert not setup.directory.exists()
        (tmp_path / "elsewhere").rename(setup.directory)
        await setup.check_available()
        await setup.ask(previous_response_id=before)
        assert setup.events()[0] == "store.unavailable"
        assert setup.events()[-1] == "store.available"


async def test_a_store_whose_directory_is_deleted_heals_when_it_is_back(tmp_path: Path) -> None:
    async with outage(tmp_path) as setup:
        before = (await setup.ask()).response["id"]
        shutil.rmtree(setup.directory)
        await setup.check_unavailable()
        setup.directory.mkdir()
        await setup.check_available()
        gone = await setup.post(previous_response_id=before)
        assert gone.error["code"] == "previous_response_not_found"
    assert (setup.directory / "turns.db").exists()
    assert (setup.directory / "trace.db").exists()


async def test_a_store_that_is_replaced_by_a_backup_goes_on_with_the_backup(
    tmp_path: Path,
) -> None:
    async with outage(tmp_path) as setup:
        kept = (await setup.ask()).response["id"]
        shutil.copytree(setup.directory, tmp_path / "backup")  # with what is only in the log yet
        lost = (await setup.ask()).response["id"]
        setup.directory.rename(tmp_path / "elsewhere")
        (tmp_path / "backup").rename(setup.directory)
        await setup.check_available()
        await setup.ask(previous_response_id=kept)
        gone = await setup.post(previous_response_id=lost)
        assert gone.error["code"] == "previous_response_not_found"


@contextmanager
def full_disk() -> Iterator[None]:
    """No file of this process can grow, as on a disk without space."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_store_on_a_full_disk_heals_when_there_is_space_again(tmp_path: Path) -> None:
    async with outage(tmp_path) as setup:
        before = (await setup.ask()).response["id"]
        with full_disk():
            await setup.check_unavailable()
        await setup.check_available()
        await setup.ask(previous_response_id=before)


async def test_probes_at_the_same_time_check_the_store_once(tmp_path: Path) -> None:
    async with outage(tmp_path) as setup:
        await setup.ready()
        store = setup.gateway.engine.services.store
        before = store.transactions  # type: ignore[attr-defined]
        probes = (send_raw(setup.gateway, "GET", "/health/ready") for _ in range(20))
        assert {answer.status for answer in await asyncio.gather(*probes)} == {200}
        assert store.transactions == before  # type: ignore[attr-defined]
