"""A private PostgreSQL server for tests: in a temporary directory, on a free port of its own.

`make postgres` installs the Debian package `postgresql` if the server is missing, and sets
ANTIPHON_POSTGRES: without it, tests that need a database are not run at all. With
ANTIPHON_TEST_STORE=postgres, the gateways of other tests store in PostgreSQL, too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from hashlib import blake2s
from itertools import count
from pathlib import Path

from tests.support.ports import ReservedPort

ENABLED = bool(os.environ.get("ANTIPHON_POSTGRES"))
IS_TEST_STORE = os.environ.get("ANTIPHON_TEST_STORE") == "postgres"
"""Whether gateways of tests store in PostgreSQL, where a test does not say otherwise."""
_USER = "postgres"
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "log_min_messages": "fatal",
    "logging_collector": "off",
}


def find_programs() -> Path | None:
    """Return the directory of initdb and postgres, the newest version first."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)
    found = shutil.which("initdb")
    return installed[0].parent if installed else Path(found).parent if found else None


class PostgresServer:
    """A cluster that can be stopped, killed and started again."""

    def __init__(
        self, directory: Path, *, is_durable: bool = False, certificate: Path | None = None
    ) -> None:
        """Without `is_durable` nothing is synchronised to disk, which makes tests fast. With a file
        of a key and its certificate it serves TLS as well."""
        programs = find_programs()
        if programs is None:
            raise RuntimeError("PostgreSQL is not installed: run `make postgres`.")
        self._programs = programs
        self._data = directory / "data"
        self._reserved = ReservedPort()
        self.port = self._reserved.number
        self._settings = dict(_SETTINGS)
        if not is_durable:
            self._settings |= {"fsync": "off", "full_page_writes": "off"}
        self._schemas = count()
        self._initialize(directory)
        if certificate is not None:
            self._add_certificate(certificate)

    @property
    def url(self) -> str:
        return f"postgresql://{_USER}@127.0.0.1:{self.port}/postgres"

    def new_url(self) -> str:
        """Return the URL of a schema that nobody has used."""
        return f"{self.url}?schema=test_{next(self._schemas)}"

    @property
    def process_id(self) -> int | None:
        """None if it does not run."""
        try:
            number = int((self._data / "postmaster.pid").read_text().split()[0])
            os.kill(number, 0)
        except (FileNotFoundError, ProcessLookupError):
            return None
        return None if _is_zombie(number) else number

    def start(self) -> None:
        options = " ".join(f"-c {name}={value or chr(39) * 2}" for name, value in self._options())
        self._control("start", "-o", options, "-l", str(self._data / "server.log"))

    def stop(self, mode: str = "fast") -> None:
        """Stop it: `fast` ends the connections, `immediate` is a crash."""
        self._control("stop", "-m", mode)

    def close(self) -> None:
        """Stop it for good, if it runs."""
        if self.process_id is not None:
            self.stop("immediate")
        self._reserved.release()

    def _options(self) -> list[tuple[str, str]]:
        return [("port", str(self.port)), *self._settings.items()]

    def _initialize(self, directory: Path) -> None:
        if os.geteuid() == 0:
            shutil.chown(directory, _USER)
        arguments = ["-D", str(self._data), "-U", _USER, "-A", "trust", "-E", "UTF8", "--no-sync"]
        self._run("initdb", *arguments, "--locale=C")

    def _add_certificate(self, certificate: Path) -> None:
        copy = self._data / "server.pem"
        copy.write_bytes(certificate.read_bytes())
        copy.chmod(0o600)
        if os.geteuid() == 0:
            shutil.chown(copy, _USER)
        files = {"ssl_cert_file": str(copy), "ssl_key_file": str(copy)}
        self._settings |= {"ssl": "on", **files}

    def _control(self, *arguments: str) -> None:
        self._run("pg_ctl", "-D", str(self._data), "-w", "-s", *arguments)

    def _run(self, program: str, *arguments: str) -> None:
        """Run a program of the server, which refuses to run as root."""
        command = [str(self._programs / program), *arguments]
        if os.geteuid() == 0:
            command = ["runuser", "-u", _USER, "--", *command]
        # In a session of its own: Ctrl-C is for the program that has started it.
        subprocess.run(
            command, check=True, cwd="/", stdout=subprocess.DEVNULL, start_new_session=True
        )


def _is_zombie(process_id: int) -> bool:
    """Whether a process has ended that nobody has waited for: there may be no init to do it."""
    try:
        fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return fields[0] == "Z"


@contextmanager
def run_server(
    *, is_durable: bool = False, certificate: Path | None = None
) -> Iterator[PostgresServer]:
    """Run a server, and remove it with its data in the end."""
    with tempfile.TemporaryDirectory(prefix="antiphon-postgres-") as directory:
        server = PostgresServer(Path(directory), is_durable=is_durable, certificate=certificate)
        server.start()
        try:
            yield server
        finally:
            server.close()


_shared = ExitStack()


@cache
def start_shared() -> PostgresServer:
    """Return the server of this process, started with the first call."""
    return _shared.enter_context(run_server())


def stop_shared() -> None:
    """Remove the server of this process, if it was started."""
    _shared.close()
    start_shared.cache_clear()


def url_of(directory: Path) -> str:
    """Return the URL of the schema that stands for a directory: the same for the same one."""
    name = blake2s(str(directory).encode(), digest_size=8).hexdigest()
    return f"{start_shared().url}?schema=test_{name}"


def install() -> None:
    """Install the server if it is missing."""
    if find_programs() is None:
        apt = ["apt-get", "-qq"]
        subprocess.run([*apt, "update"], check=True)
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run([*apt, "install", "-y", "postgresql"], check=True, env=environment)
    if find_programs() is None:
        sys.exit("PostgreSQL could not be installed: install initdb, pg_ctl and postgres.")


if __name__ == "__main__":
    install()
