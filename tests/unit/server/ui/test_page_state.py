"""State of the page: live updates end with the process, or for those whose key was replaced."""

from __future__ import annotations

from pathlib import Path

from antiphon.engine.runtime import Runtime
from antiphon.server.ui.access import PageSession
from antiphon.server.ui.page_state import PageState


async def test_live_updates_that_have_begun_end_when_the_admin_key_changes() -> None:
    page = PageState(None, Runtime())
    begun = page.stopping
    page.revoke()
    assert begun.is_set()
    assert not page.stopping.is_set()


async def test_no_live_updates_begin_during_a_shutdown() -> None:
    page = PageState(None, Runtime())
    page.stop()
    assert page.stopping.is_set()


def list_files(directory: Path) -> list[str]:
    return [path.name for path in directory.rglob("*") if path.is_file()]


async def test_ended_sessions_are_written_to_the_data_directory_of_a_server(
    tmp_path: Path,
) -> None:
    for environment in (None, {"XDG_DATA_HOME": str(tmp_path)}):
        PageState(environment, Runtime()).ended_sessions.add(PageSession(2**40, "an id"))
    assert list_files(tmp_path) == ["page-sessions-ended"]
