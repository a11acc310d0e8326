"""Lists of tools, by server and credential, for a while."""

from __future__ import annotations

from antiphon.core.mcp.values import McpTool, McpToolList
from antiphon.mcp import list_cache
from antiphon.mcp.list_cache import ListCache
from antiphon.mcp.policy import Endpoint
from antiphon.mcp.urls import read_url

TOOLS = McpToolList(tools=(McpTool(name="a"),))


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


def endpoint(url: str = "https://host/mcp", **headers: str) -> Endpoint:
    location = read_url(url)
    assert location is not None
    return Endpoint(label="a", location=location, headers=headers, is_trusted=True)


def test_a_list_is_remembered_until_it_expires() -> None:
    clock = Clock()
    cache = ListCache(10, clock)
    key = cache.make_key(endpoint())
    assert cache.get(key) is None
    cache.add(key, TOOLS, 100)
    clock.advance(9)
    assert cache.get(key) == TOOLS
    clock.advance(1)
    assert cache.get(key) is None


def test_each_server_and_credential_has_its_own_list() -> None:
    cache = ListCache(10, Clock())
    others = [
        endpoint(authorization="one"),
        endpoint(authorization="two"),
        endpoint(),
        endpoint("https://host/other"),
    ]
    assert len({cache.make_key(each) for each in others}) == 4


def test_the_key_does_not_contain_the_credential_and_differs_by_process() -> None:
    named = endpoint(authorization="canary")
    key = ListCache(10, Clock()).make_key(named)
    assert b"canary" not in key
    assert key != ListCache(10, Clock()).make_key(named)


def test_a_list_that_has_changed_is_forgotten() -> None:
    cache = ListCache(10, Clock())
    key = cache.make_key(endpoint())
    cache.add(key, TOOLS, 100)
    cache.forget(key)
    cache.forget(key)
    assert cache.get(key) is None


def test_the_oldest_lists_make_room_by_number_and_by_bytes() -> None:
    cache = ListCache(10, Clock())
    for number in range(list_cache.MAX_ENTRIES + 1):
        cache.add(str(number).encode(), TOOLS, 1)
    assert cache.get(b"0") is None
    assert cache.get(b"1") == TOOLS
    cache.add(b"large", TOOLS, list_cache.MAX_BYTES)
    assert cache.get(b"1") is None
    assert cache.get(b"large") == TOOLS
