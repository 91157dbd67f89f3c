"""The event loop of a process: uvloop's where it is installed, which takes less of the processor, else asyncio's."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar

T = TypeVar("T")


def new_loop() -> asyncio.AbstractEventLoop:
    """An event loop that nobody runs yet."""
    made = import_module("uvloop").new_event_loop() if find_spec("uvloop") is not None else asyncio.new_event_loop()
    assert isinstance(made, asyncio.AbstractEventLoop)
    return made


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine to its end in a loop of its own, as asyncio.run does."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)
