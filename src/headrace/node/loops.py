"""Loops of a process: its event loop, and supervised background loops, which neither end the node nor end silently."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar

from headrace.db import LoopSteps

T = TypeVar("T")


def new_loop() -> asyncio.AbstractEventLoop:
    """A new event loop: uvloop's if it is installed, because it uses less CPU, else asyncio's own."""
    loop = import_module("uvloop").new_event_loop() if find_spec("uvloop") is not None else asyncio.new_event_loop()
    assert isinstance(loop, asyncio.AbstractEventLoop)
    return loop


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine to its end in a new loop, like asyncio.run."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)


def supervise(name: str, loop: Callable[[], Coroutine[Any, Any, None]], stop: asyncio.Event | None = None) -> asyncio.Task[None]:
    """Starts a loop that runs until cancelled or until it sees the stop signal. Whatever else ends it, it starts again after a pause."""
    return asyncio.create_task(LoopSteps(name, stop).keep_running(loop), name=name)
