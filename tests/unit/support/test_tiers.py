"""The list of what `make test` leaves out names files that exist, each once."""

from __future__ import annotations

from tests.support import tiers


def test_every_path_of_the_list_exists() -> None:
    assert [path for path in sorted(tiers.PATHS) if not (tiers.TESTS / path).exists()] == []


def test_no_path_is_listed_twice() -> None:
    listed = [path for paths in tiers.CHECK_ONLY.values() for path in paths.split()]
    assert len(listed) == len(tiers.PATHS)


def test_a_listed_file_and_a_listed_directory_are_for_make_check_only() -> None:
    assert tiers.is_for_check_only(tiers.TESTS / "simulation")
    assert tiers.is_for_check_only(tiers.TESTS / "e2e" / "test_cli.py")
    assert not tiers.is_for_check_only(tiers.TESTS / "e2e" / "test_http.py")
    assert not tiers.is_for_check_only(tiers.TESTS.parent)
