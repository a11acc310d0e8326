"""Addresses that are not public, in every form."""

from __future__ import annotations

from antiphon.mcp.addresses import is_internal, resolve_name
from tests.support.tables import table


@table(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "192.0.2.1",
        "::1",
        "::",
        "fe80::1",
        "fe80::1%eth0",
        "fd00::1",
        "ff02::1",
        "2001:db8::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::1",
        "2001:0:7f00:1::",
        "::127.0.0.1",
        "nonsense",
    ],
)
def test_an_address_that_is_not_public_is_internal(address: str) -> None:
    assert is_internal(address)


@table(
    "address",
    ["8.8.8.8", "1.1.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"],
)
def test_a_public_address_is_not_internal(address: str) -> None:
    assert not is_internal(address)


async def test_numbers_in_other_notations_are_resolved_before_they_are_checked() -> None:
    assert await resolve_name("2130706433", 80) == ["127.0.0.1"]
    assert await resolve_name("0x7f.1", 80) == ["127.0.0.1"]
