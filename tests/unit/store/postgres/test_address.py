"""URLs of PostgreSQL databases."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.errors import StoreError
from antiphon.store.postgres.address import DEFAULT_SCHEMA, parse_address
from tests.support.tables import table

URL = "postgresql://me:s%40fe@db.example:5433/main?sslmode=verify-full&connect_timeout=2&schema=a_1"


def test_our_own_options_are_taken_out_and_the_others_are_left_to_the_driver() -> None:
    address = parse_address(URL)
    assert address.dsn == "postgresql://me:s%40fe@db.example:5433/main?sslmode=verify-full"
    assert (address.schema, address.connect_s) == ("a_1", 2.0)
    assert address.session().startswith('SET search_path TO "a_1"; ')


def test_a_connection_has_no_parameters_that_a_pooler_refuses() -> None:
    assert parse_address(URL).options()["server_settings"] == {"application_name": "antiphon"}


def test_settings_of_the_url_go_before_our_own() -> None:
    address = parse_address(f"{URL}&tcp_keepalives_idle=60&application_name=gateways")
    assert "tcp_keepalives_idle" not in address.session()
    assert "tcp_keepalives_count" in address.session()
    assert address.options()["server_settings"] == {}
    assert address.dsn.endswith("&tcp_keepalives_idle=60&application_name=gateways")


@pytest.mark.parametrize("hosts", ["a:5432,b:5433", "a,b", "[::1]:5432,[::2]", "10.0.0.1"])
def test_a_url_may_have_several_hosts(hosts: str) -> None:
    url = f"postgresql://me:secret@{hosts}/main?target_session_attrs=read-write"
    assert parse_address(url).dsn == url
    assert parse_address(url).name == f"postgresql://{hosts}/main"


def test_a_file_for_tls_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    parse_address(URL).check_files()
    address = parse_address(f"{URL}&sslrootcert={tmp_path}/root.crt")
    with pytest.raises(StoreError, match=r"root\.crt' of `sslrootcert` cannot be read"):
        address.check_files()
    (tmp_path / "root.crt").touch()
    address.check_files()


def test_a_user_name_in_the_options_may_have_an_at_sign() -> None:
    for start in ("postgresql:///x?host=/run&", "postgresql://me@db/x?", "postgresql://db/x?"):
        assert parse_address(f"{start}user=me@team").name.endswith("/x")


def test_the_name_of_a_database_has_no_password() -> None:
    assert parse_address(URL).name == "postgresql://db.example:5433/main"
    socket = parse_address("postgresql:///main?host=/run/postgresql")
    assert (socket.name, socket.schema) == ("postgresql:///run/postgresql/main", DEFAULT_SCHEMA)


@table(
    "url",
    [
        "postgresql://me:secret@db:port/x",
        "postgresql://me:secret@db:5432,other:port/x",
        f"postgresql://me:secret@db/x?schema={'long_name_' * 6}",
        "postgresql://me:secret@db/x?connect_timeout=soon",
        "postgresql://me:secret@db/x?schema=a;b",
        "postgresql://me:secret@db/x?schema=",
        "postgresql://me:a@secret/b@db/x",
        "postgresql://me:1/secret@db/x",
        "postgresql://me:1#secret@db/x",
        "postgresql://me:1?secret@db/x",
    ],
)
def test_a_wrong_url_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(StoreError) as caught:
        parse_address(url)
    assert "secret" not in caught.value.message
