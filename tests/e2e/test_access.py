"""Authentication: API keys, loopback addresses without keys, and Host headers."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Literal

import pytest

from antiphon.config import LogConfig
from antiphon.server.log_output import open_log
from tests.support.client_answers import Answer
from tests.support.commands import run
from tests.support.gateways import Running, running, settings
from tests.support.shared_gateway import UVLOOP
from tests.support.stream_reader import open_stream

KEYS = {"alice": "sk-alice-0123456789", "bob": "sk-bob-9876543210", "umlaut": "schlüssel-über"}
BODY = b'{"model": "echo/echo", "input": "Hello?"}'


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


@pytest.fixture(scope="module")
async def gateway_with_keys(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    """A gateway with keys."""
    config = settings(tmp_path_factory.mktemp("guarded"), api_keys=KEYS)
    async with running(config) as gateway:
        yield gateway


@pytest.fixture(scope="module")
async def gateway_without_keys(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    async with running(settings(tmp_path_factory.mktemp("unguarded"))) as gateway:
        yield gateway


async def send_request(
    gateway: Running, *headers: bytes, method: str = "POST", path: str = "/v1/responses"
) -> Answer:
    """Send a request with these headers and the required ones."""
    needed = [b"content-type: application/json", b"content-length: %d" % len(BODY)]
    if not any(header.lower().startswith(b"host:") for header in headers):
        needed.append(b"host: localhost")
    first = f"{method} {path} HTTP/1.1".encode()
    async with open_stream(gateway.gateway.port) as listener:
        listener.write(b"\r\n".join([first, *needed, *headers]) + b"\r\n\r\n" + BODY)
        return await listener.rest()


def bearer(key: str) -> bytes:
    return b"authorization: Bearer " + key.encode()


# With keys


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize(
    "form", [b"authorization: Bearer %b", b"Authorization: bearer  %b ", b"x-api-key: %b"]
)
async def test_every_api_key_is_accepted_and_logged_by_name(
    gateway_with_keys: Running, name: str, form: bytes
) -> None:
    gateway_with_keys.log.clear()
    answer = await send_request(gateway_with_keys, form % KEYS[name].encode())
    assert answer.status == 200
    [entry] = gateway_with_keys.log
    assert entry.facts["client"] == name


WRONG: Mapping[str, bytes] = {
    "none": b"x-nothing: 1",
    "wrong": bearer("sk-wrong"),
    "empty": b"authorization: Bearer ",
    "only the scheme": b"authorization: Bearer",
    "another scheme": b"authorization: Basic " + KEYS["alice"].encode(),
    "no scheme": b"authorization: " + KEYS["alice"].encode(),
    "a beginning": bearer(KEYS["alice"][:-1]),
    "more than it": bearer(KEYS["alice"] + "0"),
    "another case": bearer(KEYS["alice"].upper()),
    "a name": bearer("alice"),
    "two at once": bearer(f"{KEYS['alice']} {KEYS['bob']}"),
    "no utf-8": b"authorization: Bearer \xff\xfe\xed\xa0\x80",
    "an empty x-api-key": b"x-api-key: ",
    "very long": bearer("k" * 30_000),
}


@pytest.mark.parametrize("header", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/responses"), ("GET", "/v1/models"), ("GET", "/v1/nowhere")],
)
async def test_requests_without_a_valid_key_are_rejected(
    gateway_with_keys: Running, header: bytes, method: str, path: str
) -> None:
    answer = await send_request(gateway_with_keys, header, method=method, path=path)
    assert (answer.status, answer.error["code"]) == (401, "invalid_api_key")
    assert not gateway_with_keys.engine.active


async def test_health_needs_no_key(gateway_with_keys: Running) -> None:
    async with gateway_with_keys.client.get(
        gateway_with_keys.base_url.removesuffix("/v1") + "/health/ready"
    ) as response:
        assert response.status == 200


async def test_with_api_keys_the_host_header_is_not_checked(gateway_with_keys: Running) -> None:
    answer = await send_request(gateway_with_keys, b"host: gateway.example", bearer(KEYS["bob"]))
    assert answer.status == 200


@pytest.mark.parametrize("style", ["json", "text"])
async def test_an_api_key_is_never_logged(tmp_path: Path, style: Literal["json", "text"]) -> None:
    """Neither a valid nor an invalid key is in the log or in an answer."""
    journal = io.StringIO()
    emit = open_log(LogConfig(level="debug", format=style), journal)
    secrets = (KEYS["alice"], "sk-intruder-1234567")
    async with running(settings(tmp_path, api_keys=KEYS)) as gateway:
        answers = [await send_request(gateway, bearer(key)) for key in secrets]
        for entry in gateway.log:
            emit(entry)
    assert [answer.status for answer in answers] == [200, 401]
    assert "alice" in journal.getvalue()
    everything = journal.getvalue().encode() + repr(answers).encode() + read_files(tmp_path)
    for secret in secrets:
        assert secret.encode() not in everything


def read_files(directory: Path) -> bytes:
    """All bytes of all files."""
    return b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())


# Without keys


@pytest.mark.parametrize(
    "host",
    [b"localhost", b"LocalHost:8484", b"127.0.0.1", b"127.0.0.1:8484", b"[::1]", b"[::1]:8484"],
)
async def test_loopback_clients_need_no_key(gateway_without_keys: Running, host: bytes) -> None:
    assert (await send_request(gateway_without_keys, b"host: " + host)).status == 200


@pytest.mark.parametrize(
    "host",
    [
        b"attacker.example",
        b"attacker.example:8484",
        b"localhost.attacker.example",
        b"127.0.0.1.attacker.example",
        b"127.0.0.1@attacker.example",
        b"0.0.0.0",
        b"10.0.0.7",
        b"[2001:db8::1]",
        b"[::1",
        b"::ffff:8.8.8.8",
        b"%31",
        b"\xff",
    ],
)
async def test_a_request_with_a_foreign_host_header_is_rejected(
    gateway_without_keys: Running, host: bytes
) -> None:
    """DNS rebinding: a web page could otherwise reach the gateway under its own host name."""
    answer = await send_request(gateway_without_keys, b"host: " + host)
    assert (answer.status, answer.error["code"]) == (403, "forbidden")


def test_serving_a_public_address_without_keys_is_refused(tmp_path: Path) -> None:
    ended = run(tmp_path, "serve", "--host", "0.0.0.0", "--port", "0")
    assert ended.returncode != 0
    message = ended.stderr.decode()
    assert "0.0.0.0" in message
    assert "api_keys" in message
    assert "Traceback" not in message
