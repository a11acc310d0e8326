"""Installs Debian's chromium if there is none. Run as `python -m tests.support.pages.install`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from tests.support.pages.browser import CHROMIUM

COMMANDS = (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", CHROMIUM])


def main() -> int:
    if shutil.which(CHROMIUM):
        return 0
    if shutil.which("apt-get") is None:
        sys.stderr.write(f"{CHROMIUM} is not installed, and neither is apt-get: install it.\n")
        return 1
    prefix = [] if os.geteuid() == 0 else ["sudo"]
    for command in COMMANDS:
        subprocess.run([*prefix, *command], check=True, stdout=subprocess.DEVNULL)
    return 0


if __name__ == "__main__":
    sys.exit(main())
