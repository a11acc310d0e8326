"""Run the command line: in a pipe or on a terminal, in a subprocess or in this process."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

from antiphon.cli.main import main

SOURCE = Path(__file__).parents[2] / "src"
COMMAND = (sys.executable, "-m", "antiphon.cli.main")
PATIENCE_S = 60.0

# Runs the rest of its arguments with standard input as the terminal that Ctrl-C comes from. A test
# run in the background ignores Ctrl-C, and its subprocesses would inherit that.
_ON_OUR_TERMINAL = (
    sys.executable,
    "-Sc",
    "import fcntl, os, signal, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    " signal.signal(signal.SIGINT, signal.SIG_DFL); os.execvp(sys.argv[1], sys.argv[1:])",
)


def environment(home: Path, **more: str) -> dict[str, str]:
    """Environment without the keys and settings of the user who runs the tests.

    No certificate authority is trusted: to load those of the system is a tenth of a start.
    """
    return {
        "ANTIPHON_LOCAL_SERVERS": "off",
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(SOURCE),
        "SSL_CERT_FILE": os.devnull,
        "TZ": "UTC",
        **more,
    }


def own_settings(home: Path) -> Path:
    """Path of the user's own configuration; creates its directory."""
    path = home / ".config" / "antiphon" / "antiphon.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def run(
    home: Path, *args: str, given: bytes = b"", **more: str
) -> subprocess.CompletedProcess[bytes]:
    """Run the command in a pipe. `given` is standard input, `more` more environment."""
    return subprocess.run(
        [*COMMAND, *args],
        input=given,
        capture_output=True,
        cwd=home,
        env=environment(home, **more),
        timeout=PATIENCE_S,
        check=False,
    )


def without_styles(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


class Terminal:
    """A command on a pseudo-terminal of a hundred columns."""

    def __init__(self, process: subprocess.Popen[bytes], keyboard: int) -> None:
        self.process = process
        self._keyboard = keyboard
        self._seen = b""

    def type(self, line: str) -> None:
        os.write(self._keyboard, f"{line}\n".encode())

    def interrupt(self) -> int:
        """Press Ctrl-C; return the exit status.

        Pressed just before a command waits for its keyboard, it is noticed only with the next key;
        so one that stays silent is pressed again: not soon, because a slow machine may be ending
        the command.
        """
        for _ in range(int(PATIENCE_S / 5)):
            os.write(self._keyboard, b"\x03")
            while select.select([self._keyboard], [], [], 5.0)[0]:
                if not self._take():
                    return self.process.wait(PATIENCE_S)
        raise AssertionError(f"it does not stop; there is:\n{self.plain}")

    def wait_for(self, text: str) -> str:
        """Wait for this text; return all output so far, without colours."""
        while text not in self.plain and self._look():
            pass
        assert text in self.plain, f"{text!r} does not come; there is:\n{self.plain}"
        return self.plain

    def read_more(self) -> bool:
        """Read what it prints within a second; whether there was something."""
        return bool(select.select([self._keyboard], [], [], 1.0)[0]) and self._take()

    def wait(self) -> int:
        """Read all output; return the exit status."""
        while self._look():
            pass
        return self.process.wait(PATIENCE_S)

    @property
    def shown(self) -> str:
        return self._seen.decode("utf-8", "replace")  # a read may end within a character

    @property
    def plain(self) -> str:
        return without_styles(self.shown).replace("\r\n", "\n")

    def _look(self) -> bool:
        """Wait for more output and read it; False at the end."""
        ready, _, _ = select.select([self._keyboard], [], [], PATIENCE_S)
        assert ready, f"nothing more comes; there is:\n{self.plain}"
        return self._take()

    def _take(self) -> bool:
        try:
            data = os.read(self._keyboard, 65536)
        except OSError:  # so Linux says that the other side has closed
            return False
        self._seen += data
        return bool(data)


@contextmanager
def on_terminal(
    home: Path, *args: str, command: Sequence[str] = COMMAND, **more: str
) -> Iterator[Terminal]:
    keyboard, screen = pty.openpty()
    process = subprocess.Popen(
        [*_ON_OUR_TERMINAL, *command, *args],
        stdin=screen,
        stdout=screen,
        stderr=screen,
        cwd=home,
        env=environment(home, **{"TERM": "xterm-256color", "COLUMNS": "100", **more}),
        start_new_session=True,
    )
    os.close(screen)
    try:
        yield Terminal(process, keyboard)
    finally:
        process.kill()
        process.wait()
        os.close(keyboard)


@contextmanager
def serving(home: Path, *args: str, **more: str) -> Iterator[str]:
    """Run a gateway in a subprocess; yield its base URL."""
    process = subprocess.Popen(
        [*COMMAND, "serve", "--port", "0", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=home,
        env=environment(home, **more),
    )
    try:
        assert process.stdout is not None
        with process.stdout as out:
            line = out.readline().decode()
            found = re.search(r"http://\S+", line)
            assert found, f"the gateway did not start: {line!r}"
            yield found[0]
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()


class Screen(io.StringIO):
    """Standard output, as a terminal of a hundred columns."""

    def isatty(self) -> bool:
        return True

    def run(self, *args: str) -> int:
        with redirect_stdout(self):
            return main(args)

    @property
    def plain(self) -> str:
        return without_styles(self.getvalue())

    def rows(self) -> list[list[str]]:
        """The words of each line that has some."""
        return [line.split() for line in self.plain.splitlines() if line.strip()]
