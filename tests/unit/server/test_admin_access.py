"""Access of operators: the admin key, else this machine only, and never through a proxy."""

from __future__ import annotations

import pytest

from antiphon.errors import InvalidRequest
from antiphon.server.admin_access import check_admin
from antiphon.server.http import HTTPRequest

KEY = "key of the operator"


def request(remote: str = "127.0.0.1", **headers: str) -> HTTPRequest:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HTTPRequest.with_body("GET", "/metrics", {"host": "localhost", **named}, b"", remote)


@pytest.mark.parametrize("host", ["localhost", "localhost:8484", "127.0.0.1:8484", "[::1]:8484"])
def test_without_a_key_this_machine_has_access(host: str) -> None:
    check_admin(request(host=host), "")


@pytest.mark.parametrize(
    "other",
    [
        request(remote="10.0.0.7"),
        request(host="gateway.example"),
        request(x_forwarded_for="10.0.0.7"),
        request(forwarded="for=10.0.0.7"),
        request(authorization=f"Bearer {KEY}", remote="10.0.0.7"),
    ],
)
def test_without_a_key_nobody_else_has_access(other: HTTPRequest) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_admin(other, "")
    assert caught.value.status == 403


def test_the_key_gives_access_from_everywhere() -> None:
    check_admin(request(remote="10.0.0.7", authorization=f"Bearer {KEY}"), KEY)


@pytest.mark.parametrize("authorization", ["", "Bearer wrong", f"Basic {KEY}", "Bearer \udcff"])
def test_without_the_key_this_machine_has_no_access_either(authorization: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_admin(request(authorization=authorization), KEY)
    assert caught.value.status == 401
