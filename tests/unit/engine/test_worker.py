"""The worker thread of large requests."""

from __future__ import annotations

import asyncio
import threading

import pytest

from antiphon.engine.runtime import WorkerThread


async def test_functions_run_in_one_thread_that_is_not_the_loop() -> None:
    worker = WorkerThread()
    threads = await asyncio.gather(*(worker.run(threading.get_ident) for _ in range(3)))
    worker.close()
    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()


async def test_the_loop_goes_on_while_a_function_runs() -> None:
    worker, gate = WorkerThread(), threading.Event()
    waiting = asyncio.ensure_future(worker.run(gate.wait))
    await asyncio.sleep(0)
    assert not waiting.done()
    gate.set()
    assert await waiting is True
    worker.close()


async def test_an_error_reaches_the_caller() -> None:
    worker = WorkerThread()
    with pytest.raises(ZeroDivisionError):
        await worker.run(lambda: 1 // 0)
    worker.close()
