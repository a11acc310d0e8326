"""`make gateways`: a cluster to try, which stops with Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import sys

import pytest

from tests.support.cluster.http_client import open_client, send

pytestmark = pytest.mark.anyio


async def test_the_cluster_to_try_answers_behind_nginx_and_stops() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.cluster.show", stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(60), open_client() as client:
            url = (await process.stdout.readline()).decode().strip()
            body = {"model": "echo/echo", "input": "Hello?"}
            for _ in range(3):
                status, response = await send(client, "POST", f"{url}/responses", body)
                assert (status, response["status"], response["store"]) == (200, "completed", True)
            process.send_signal(signal.SIGINT)
            await process.communicate()
        assert process.returncode == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
