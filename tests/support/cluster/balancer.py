"""nginx in front of gateways, with the site of deploy/."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support.ports import ReservedPort
from tests.support.waiting import until_async

SITE = Path(__file__).parents[3] / "deploy" / "nginx.conf"
_FRAME = """
pid {directory}/nginx.pid;
error_log stderr;
daemon off;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    include {directory}/site.conf;
}}
"""
_TLS = (
    "    ssl_certificate     /etc/ssl/antiphon/fullchain.pem;\n",
    "    ssl_certificate_key /etc/ssl/antiphon/privkey.pem;\n",
)


def write_site(
    directory: Path, gateways: Sequence[str], port: int, certificate: Path | None
) -> list[str]:
    """Write the site for these gateways; return the command that serves it. `certificate` is a file
    with a key and its certificate; without one, it is served without TLS."""
    site = SITE.read_text()
    server = "    server gateway:8484 max_fails=3 fail_timeout=5s;\n"
    listen = f"listen 127.0.0.1:{port}"
    replaced = {
        server: "".join(server.replace("gateway:8484", each) for each in gateways),
        "listen 443 ssl": listen if certificate is None else f"{listen} ssl",
        _TLS[0]: "" if certificate is None else f"ssl_certificate {certificate};\n",
        _TLS[1]: "" if certificate is None else f"ssl_certificate_key {certificate};\n",
    }
    for old, new in replaced.items():
        assert site.count(old) == 1, old
        site = site.replace(old, new)
    (directory / "site.conf").write_text(site)
    (directory / "nginx.conf").write_text(_FRAME.format(directory=directory))
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    assert program, "nginx is not installed: run `make cluster-test`"
    return [program, "-c", str(directory / "nginx.conf"), "-e", "stderr"]


@dataclass(frozen=True)
class Balancer:
    """nginx on a port of this machine."""

    port: int
    process: asyncio.subprocess.Process

    @property
    def process_id(self) -> int | None:
        """None if it does not run."""
        return self.process.pid if self.process.returncode is None else None


@asynccontextmanager
async def run_nginx(
    directory: Path, gateways: Sequence[str], certificate: Path | None = None
) -> AsyncIterator[Balancer]:
    """Run nginx in front of these gateways."""
    reserved = ReservedPort()
    port = reserved.number
    command = write_site(directory, gateways, port, certificate)
    process = await asyncio.create_subprocess_exec(*command, start_new_session=True)

    async def listens() -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        writer.close()
        return True

    try:
        await until_async(listens, "nginx listens")
        yield Balancer(port, process)
    finally:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGTERM)  # `terminate` would take its status from the loop
        await process.wait()
        with suppress(ProcessLookupError):  # workers outlive a master that was killed
            os.killpg(process.pid, signal.SIGKILL)
        reserved.release()
