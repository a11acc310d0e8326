"""An answer leaves no reference cycles."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from tests.support.gateways import running, settings

ASK = {"model": "echo/echo", "input": "Hello?"}


@pytest.mark.parametrize("streamed", [False, True])
async def test_objects_of_an_answer_are_freed_without_the_garbage_collector(
    tmp_path: Path, *, streamed: bool
) -> None:
    async with running(settings(tmp_path)) as gateway:
        ask = gateway.stream if streamed else gateway.post
        await ask(ASK)  # what is made once is made now
        gc.collect()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            await ask(ASK)
            gc.collect()
            left = {type(each).__name__ for each in gc.garbage if _is_ours(each)}
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
    assert left == set()


def _is_ours(value: object) -> bool:
    return type(value).__module__.startswith("antiphon.")
