"""URLs of PostgreSQL databases."""

from __future__ import annotations

import pytest

from antiphon.errors import StoreError
from antiphon.store.postgres.address import DEFAULT_SCHEMA, parse_address

URL = "postgresql://me:s%40fe@db.example:5433/main?sslmode=verify-full&connect_timeout=2&schema=a_1"


def test_our_own_options_are_taken_out_and_the_others_are_left_to_the_driver() -> None:
    address = parse_address(URL)
    assert address.dsn == "postgresql://me:s%40fe@db.example:5433/main?sslmode=verify-full"
    assert (address.schema, address.connect_s) == ("a_1", 2.0)
    assert address.options()["server_settings"]["search_path"] == '"a_1"'


def test_the_name_of_a_database_has_no_password() -> None:
    assert parse_address(URL).name == "postgresql://db.example:5433/main"
    socket = parse_address("postgresql:///main?host=/run/postgresql")
    assert (socket.name, socket.schema) == ("postgresql:///run/postgresql/main", DEFAULT_SCHEMA)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:secret@db:port/x",
        "postgresql://me:secret@db/x?connect_timeout=soon",
        "postgresql://me:secret@db/x?schema=a;b",
        "postgresql://me:secret@db/x?schema=",
    ],
)
def test_a_wrong_url_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(StoreError) as caught:
        parse_address(url)
    assert "secret" not in caught.value.message
