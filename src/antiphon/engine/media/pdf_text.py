"""Text of PDF files, for models without file input.

1. A file is read in a process of its own (`pdf_worker`): a hostile one can neither delay other
   requests nor take the gateway's memory. Time, memory, pages and processes are bounded.
2. A text is cached by the hash of its file, because clients send it again with every turn.
3. Reading never fails a request: a file without readable text has the text "".
4. Clients take turns: the files of one, however many and slow, delay those of another by a few.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from antiphon.core.history.text_files import read_content
from antiphon.engine.media import pdf_worker

ReadPDFs: TypeAlias = Callable[[Sequence[str], str], Awaitable[Mapping[str, str]]]
"""The texts of PDF files by their content (`file_data`); with the name of the client."""

_TIMEOUT_S = 20.0
_MAX_CONCURRENT = 2
_MAX_CACHED_CHARACTERS = 16 * 1024 * 1024


class PDFReader:
    """Reads the text of PDF files. One per process."""

    def __init__(
        self, timeout_s: float = _TIMEOUT_S, max_cached: int = _MAX_CACHED_CHARACTERS
    ) -> None:
        self._timeout_s = timeout_s
        self._room = max_cached
        self._slots = asyncio.Semaphore(_MAX_CONCURRENT)
        self._places: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """The place of each client among those who wait for a slot."""
        self._texts: OrderedDict[str, str] = OrderedDict()
        """By the hash of the file, the last used at the end."""
        self.started = 0
        """The number of processes that have been started."""

    async def __call__(self, contents: Sequence[str], client: str) -> Mapping[str, str]:
        texts = await asyncio.gather(*(self._read(each, client) for each in contents))
        return dict(zip(contents, texts, strict=True))

    async def _read(self, data: str, client: str) -> str:
        content = await asyncio.to_thread(read_content, data)  # it may be large
        key = hashlib.sha256(content).hexdigest()
        if key not in self._texts:
            async with self._places[client]:
                await self._slots.acquire()
            try:
                if key not in self._texts:  # another request may have read the same file by now
                    text = await self._run_worker(content)
                    if text is None:
                        return ""
                    self._store(key, text)
            finally:
                self._slots.release()
        self._texts.move_to_end(key)
        return self._texts[key]

    def _store(self, key: str, text: str) -> None:
        """Cache a text; drop the least recently used ones, but never the newest."""
        self._texts[key] = text
        self._room -= len(text)
        while self._room < 0 and len(self._texts) > 1:
            _, dropped = self._texts.popitem(last=False)
            self._room += len(dropped)

    async def _start_worker(self) -> Process:
        """Start the process, without the secrets in the environment of this one."""
        self.started += 1
        environment = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
        command = (sys.executable, "-P", pdf_worker.__file__)
        return await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=environment
        )

    async def _run_worker(self, content: bytes) -> str | None:
        """Read a file; None if no process can be started now, so that a later turn tries again."""
        try:
            process = await self._start_worker()
        except OSError:
            return None
        try:
            async with asyncio.timeout(self._timeout_s):
                text, _ = await process.communicate(content)
            return text.decode() if process.returncode == 0 else ""
        except TimeoutError:
            return ""
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


def make_pdf_reader() -> ReadPDFs | None:
    """Make the reader; None if the extra `antiphon[pdf]` is not installed."""
    return PDFReader() if importlib.util.find_spec("pypdf") is not None else None
