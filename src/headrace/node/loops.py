"""Loops of a process: its event loop, and supervised background loops, which neither end the node nor end silently."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")
RESTART_S = 5.0
"""Short enough that a node does not count as lost because one heartbeat failed."""


def new_loop() -> asyncio.AbstractEventLoop:
    """A new event loop: uvloop's if it is installed, because it uses less CPU, else asyncio's own."""
    loop = import_module("uvloop").new_event_loop() if find_spec("uvloop") is not None else asyncio.new_event_loop()
    assert isinstance(loop, asyncio.AbstractEventLoop)
    return loop


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine to its end in a new loop, like asyncio.run."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)


def supervise(name: str, loop: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
    """Starts a loop that runs until cancelled. An error of the loop is logged, and after a pause the loop starts again."""
    return asyncio.create_task(_restart_on_error(name, loop), name=name)


async def _restart_on_error(name: str, loop: Callable[[], Awaitable[None]]) -> None:
    while True:
        try:
            await loop()
        except Exception:
            logger.exception("%s failed; it starts again in %.0f s", name, RESTART_S)
        await asyncio.sleep(RESTART_S)
