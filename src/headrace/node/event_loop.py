"""The event loop of a process, and the block monitor: it warns when a handler blocks the loop, and names the handler.

A thread asks the loop for a heartbeat. If none comes in time, it looks at the stack of the loop's thread: the frame of a handler
tells which one blocks. So a handler that behaves costs nothing."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import CodeType, FrameType
from typing import Any, TypeVar

from headrace.node.application import Application

logger = logging.getLogger(__name__)

T = TypeVar("T")

THRESHOLD_S = 0.25
"""A loop that is silent for longer is blocked."""
EVERY_S = 0.25
"""How often the loop is asked. A block of THRESHOLD_S + EVERY_S is always noticed."""
STILL_S = 5.0
"""A block that lasts this long is reported before it ends: perhaps it never does."""
QUIET_S = 60.0
"""At most one warning per handler in this time."""


def new_loop() -> asyncio.AbstractEventLoop:
    """A new event loop: uvloop's if it is installed, because it uses less CPU, else asyncio's own."""
    loop = import_module("uvloop").new_event_loop() if find_spec("uvloop") is not None else asyncio.new_event_loop()
    assert isinstance(loop, asyncio.AbstractEventLoop)
    return loop


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine to its end in a new loop, like asyncio.run."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)


def handler_codes(app: Application) -> dict[CodeType, str]:
    """The code of every handler of an application, with the handler's name for messages."""
    codes: dict[CodeType, str] = {}
    for consumer in app.consumers:
        codes |= dict.fromkeys(_codes(consumer.handler), f"consumer {consumer.topic}/{consumer.name}")
    for action, group in app.action_handlers.items():
        for handler in group.handlers:
            codes |= dict.fromkeys(_codes(handler), f"handler of action {action}")
    return codes


def _codes(function: Any) -> Iterator[CodeType]:
    """The code of a function and of those it wraps, except for our own wrappers, which all handlers share."""
    while function is not None:
        function = getattr(function, "__func__", function)
        code = getattr(function, "__code__", None) or getattr(vars(type(function)).get("__call__"), "__code__", None)
        if isinstance(code, CodeType) and not code.co_filename.startswith(_OWN_FILES):
            yield code
        links = ("func", "__wrapped__", "after_commit_function")
        function = next((inner for link in links if (inner := getattr(function, link, None)) is not None), None)


_OWN_FILES = (str(sys.modules["headrace.consume"].__path__[0]), str(sys.modules["headrace.actions"].__path__[0]))


class BlockMonitor:
    """Watches one event loop."""

    def __init__(self, codes: Mapping[CodeType, str]) -> None:
        self._codes = codes
        self._warned_at: dict[str, float] = {}
        self._stop = threading.Event()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watches the running loop while the block runs."""
        if not self._codes:
            yield
            return
        arguments = (asyncio.get_running_loop(), threading.get_ident())
        thread = threading.Thread(target=self._watch, args=arguments, name="headrace block monitor", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()

    def _watch(self, loop: asyncio.AbstractEventLoop, thread_id: int) -> None:
        while not self._stop.wait(EVERY_S):
            answer = threading.Event()
            asked_at = time.monotonic()
            try:
                loop.call_soon_threadsafe(answer.set)
            except RuntimeError:
                return  # The loop is closed.
            if answer.wait(THRESHOLD_S):
                continue
            place = self._blocking_handler(sys._current_frames().get(thread_id))
            is_over = answer.wait(STILL_S - THRESHOLD_S)
            if place is not None:
                self._warn(*place, seconds=time.monotonic() - asked_at, is_over=is_over)
            while not is_over and not self._stop.is_set():
                is_over = answer.wait(EVERY_S)

    def _blocking_handler(self, frame: FrameType | None) -> tuple[str, str] | None:
        """The name of the handler on the stack, and the line of its own code that runs."""
        for outer in _frames(frame):
            if outer.f_code in self._codes:
                return self._codes[outer.f_code], f"{outer.f_code.co_filename}:{outer.f_lineno}"
        return None

    def _warn(self, handler: str, line: str, *, seconds: float, is_over: bool) -> None:
        now = time.monotonic()
        if now - self._warned_at.get(handler, -QUIET_S) < QUIET_S:
            return
        self._warned_at[handler] = now
        logger.warning(
            "%s %s the event loop for %.1f s at %s, and nothing else ran on this node meanwhile; await an async call instead, "
            "or make the handler a plain def, which runs in a thread",
            handler, "blocked" if is_over else "has been blocking", seconds, line,
            extra={"handler": handler, "blocked_s": round(seconds, 1)},
        )  # fmt: skip


def _frames(frame: FrameType | None) -> Iterable[FrameType]:
    """A frame and those that called it, innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back
