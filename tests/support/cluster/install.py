"""Install the programs that a cluster needs, where they are missing: PostgreSQL, Redis, nginx."""

from __future__ import annotations

import os
import shutil
import subprocess

from tests.support import postgres

_PATH = f"{os.environ['PATH']}:/usr/sbin"
_PACKAGES = {"nginx": "nginx-light", "systemd-analyze": "systemd"}


def install() -> None:
    postgres.install()
    names = ["nginx", "systemd-analyze"]
    missing = [_PACKAGES[name] for name in names if shutil.which(name, path=_PATH) is None]
    if not any(shutil.which(name, path=_PATH) for name in ("redis-server", "valkey-server")):
        missing.append("redis-server")
    if missing:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "-qq", "update"], check=True)
        command = ["apt-get", "-qq", "install", "-y", "--no-install-recommends", *missing]
        subprocess.run(command, check=True, env=environment)


if __name__ == "__main__":
    install()
