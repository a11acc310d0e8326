"""The client of a configuration: off by default, and problems of `[mcp]` with their place."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from antiphon.config import Config, McpConfig, McpServerConfig, parse_config
from antiphon.core.mcp.values import McpServer
from antiphon.errors import ConfigError
from antiphon.mcp.client import McpClient
from antiphon.mcp.open_client import check_mcp, open_mcp
from tests.support.tables import table


def test_there_is_no_client_without_servers_and_allowed_urls() -> None:
    assert open_mcp(Config(), time.monotonic) is None


def test_a_client_says_what_it_refuses_and_what_needs_an_approval() -> None:
    servers = {"a": McpServerConfig(url="https://a.example/mcp", require_approval="never")}
    client = open_mcp(Config(mcp=McpConfig(servers=servers)), time.monotonic)
    assert isinstance(client, McpClient)
    assert client.find_refusal(McpServer(label="a")) == ""
    assert client.find_refusal(McpServer(label="b")) != ""
    assert not client.requires_approval(McpServer(label="a"))


def test_headers_come_from_the_environment_and_are_not_shown() -> None:
    text = '[mcp.servers.a]\nurl = "https://a.example/"\nheaders = {x-key = "${KEY}"}\n'
    config = parse_config(text, {"KEY": "canary"}, name="antiphon.toml")
    assert config.mcp.servers["a"].headers == {"x-key": "canary"}
    assert "canary" not in repr(config)


@table(
    ("text", "problem"),
    [
        (
            "[mcp.servers.a]\n",
            "antiphon.toml:1: mcp.servers.a.url: must be a URL such as https://host/mcp",
        ),
        (
            '[mcp.servers.a]\nurl = "https://u:p@a.example/"\n',
            "antiphon.toml:2: mcp.servers.a.url: must be a URL such as https://host/mcp",
        ),
        (
            '[mcp.servers.a]\nurl = "https://a/"\nheaders = { host = "b" }\n',
            "antiphon.toml:3: mcp.servers.a.headers.host: belongs to the protocol and cannot be"
            " set",
        ),
        (
            '[mcp]\nallow = ["https://*.example/"]\n',
            "antiphon.toml:2: mcp.allow: 'https://*.example/' is not a URL such as"
            " https://host/path, without user name, `..` and wildcards",
        ),
    ],
)
def test_a_mistake_in_the_configuration_is_named_with_its_place(text: str, problem: str) -> None:
    config = parse_config(text, {}, name="antiphon.toml")
    with pytest.raises(ConfigError) as caught:
        check_mcp(config)
    assert caught.value.message == problem


WITHOUT_PACKAGE = """
import sys, time
sys.modules["mcp"] = None
from antiphon.config import parse_config
from antiphon.errors import ConfigError
from antiphon.mcp.open_client import open_mcp
config = parse_config('[mcp]\\nallow = ["https://a.example/"]', {}, name="a.toml")
try:
    open_mcp(config, time.monotonic)
except ConfigError as error:
    print(error.message)
"""


def run_python(program: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **variables},
    )
    return done.stdout.strip()


def test_a_configuration_without_the_package_names_the_command_that_installs_it() -> None:
    assert run_python(WITHOUT_PACKAGE) == (
        "a.toml:1: mcp: needs the packages mcp and httpx2. Install them into Antiphon's"
        f" environment: pip --python {sys.executable} install mcp httpx2"
    )


@table(("text", "expected"), [("", "False"), ('[mcp]\nallow = ["https://a.example/"]', "True")])
def test_the_package_is_imported_by_a_gateway_with_servers_before_its_first_request(
    text: str, expected: str
) -> None:
    program = f"""
import sys, time
from antiphon.config import parse_config
from antiphon.mcp.open_client import open_mcp
open_mcp(parse_config({text!r}, {{}}, name="a.toml"), time.monotonic)
print("mcp" in sys.modules)
"""
    assert run_python(program) == expected


def test_certificates_that_cannot_be_loaded_are_not_a_fault_of_the_server() -> None:
    program = """
import asyncio, time
from antiphon.config import parse_config
from antiphon.core.mcp.values import McpServer
from antiphon.mcp.open_client import open_mcp

async def list_tools():
    config = parse_config('[mcp.servers.a]\\nurl = "https://127.0.0.1:1/"', {}, name="a.toml")
    sessions = open_mcp(config, time.monotonic).open_sessions()
    print((await sessions.list_tools(McpServer(label="a"))).problem.message)
    await sessions.close()

asyncio.run(list_tools())
"""
    assert run_python(program, SSL_CERT_FILE=os.devnull) == (
        "MCP server 'a' could not be called (SSLError)."
    )
