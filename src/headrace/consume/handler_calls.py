"""Handler calls: the one place where handlers run, those of consumers and those of actions; and what is recorded and logged of their errors.

Async functions run on the event loop, plain functions in a thread, both with a session in the transaction that is open.
Promises: a handler that ends that transaction, or leaves it aborted, raises; its effects never count as done. Whatever a handler
raises, its caller gets an Exception, unless the caller itself is being cancelled. An event can be handled while no other handler of the
process runs: if a process dies, everybody loses what its handlers had in hand, and only of an event that was handled alone it is certain
that it did it. Who wants to be alone waits for running handlers, at most 10 s, and none begins meanwhile."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import time
import traceback
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from inspect import iscoroutinefunction
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeAlias
from weakref import WeakKeyDictionary

from headrace.core import (
    Bury,
    Conflict,
    DeliveryError,
    Discard,
    HandlerOutcome,
    HandlerTimeout,
    Retry,
    TargetGone,
    TargetRefused,
    error_text,
)
from headrace.db import connection_lost_error
from headrace.drivers import HandlerConnection, SessionStep, concurrency_error, request_for
from headrace.observe.tracing import switch

logger = logging.getLogger(__name__)

TRACEBACK_CHARS_MAX = 20_000


class HandlerInterrupted(Exception):
    """A handler raised what is no Exception, such as CancelledError or SystemExit, although nobody stops its worker. It counts as a
    failure of the handler; its cause is what the handler raised."""


_CALLERS = (str(Path(__file__).parents[1]), str(Path(asyncio.__file__).parent), str(Path(concurrent.futures.__file__).parent))

Verdict: TypeAlias = Literal["discard", "bury", "refuse", "retry"]
"""What a handler asked for instead of the failure policy; `refuse`: no attempt is left, and the policy says what follows."""


_VERDICTS: Mapping[type[Exception], Verdict] = {
    Discard: "discard",
    Bury: "bury",
    TargetRefused: "refuse",
    # The relay is disabled meanwhile; the event waits for its end.
    TargetGone: "retry",
}


@dataclass(frozen=True)
class HandlerError:
    """An error that a handler raised."""

    error: BaseException
    summary: str
    """Class and message."""
    traceback: str
    verdict: Verdict | None
    after_s: float | None
    """The pause that a Retry asked for."""

    @property
    def line(self) -> str:
        """Class and first line of the message, for a log and for tables."""
        return first_line(self.summary)

    @property
    def exc_info(self) -> tuple[type[BaseException], BaseException, TracebackType | None] | None:
        """What the log shows as a traceback; nothing for an outcome that the handler chose, or for text that no log can encode."""
        if isinstance(self.error, HandlerOutcome | DeliveryError) and self.error.__cause__ is None:
            return None
        if not _is_encodable(self.error):
            return None
        return type(self.error), self.error, _handler_frames(self.error)


def describe_error(error: BaseException) -> HandlerError:
    """Everything that is kept of an error."""
    if isinstance(error, HandlerInterrupted) and error.__cause__ is not None:
        error = error.__cause__
    verdict = next((verdict for kind, verdict in _VERDICTS.items() if isinstance(error, kind)), None)
    after_s = error.after_s if isinstance(error, Retry) else error.retry_after_s if isinstance(error, DeliveryError) else None
    return HandlerError(error, error_summary(error), traceback_text(error), verdict, after_s)


def error_summary(error: BaseException) -> str:
    """Class and message of an error; dead letters are grouped by its first line."""
    message = error_text(error)
    return storable_text(f"{type(error).__name__}: {message}" if message else type(error).__name__)


def traceback_text(error: BaseException) -> str:
    """The traceback as text. Of a long one the middle is left out: its end names the error."""
    text = storable_text("".join(traceback.format_exception(type(error), error, _handler_frames(error))))
    half = TRACEBACK_CHARS_MAX // 2 - 10
    return text if len(text) <= TRACEBACK_CHARS_MAX else f"{text[:half]}\n  …\n{text[-half:]}"


def _handler_frames(error: BaseException) -> TracebackType | None:
    """The traceback from the handler on: the frames of headrace that called it help nobody."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_CALLERS):
        frames = frames.tb_next
    return frames or error.__traceback__


def _is_encodable(error: BaseException) -> bool:
    text = "".join(traceback.format_exception(error))
    return storable_text(text) == text


def first_line(text: str) -> str:
    return text.split("\n", 1)[0]


def storable_text(text: str) -> str:
    """The text without characters that PostgreSQL cannot store."""
    return text.replace("\0", "�").encode("utf-8", "replace").decode()


ALONE_WAIT_S = 10.0
"""How long to wait for handlers that run. One that takes longer goes on beside the event."""


class HandlerGate:
    """The gate of one event loop."""

    def __init__(self) -> None:
        self._running = 0
        self._turn = asyncio.Lock()
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._is_idle = asyncio.Event()

    @asynccontextmanager
    async def shared(self) -> AsyncIterator[None]:
        """For a claim and its handlers, which run beside others."""
        while not self._is_open.is_set():
            await self._is_open.wait()
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                self._is_idle.set()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """For a claim and its handler, which no other runs beside."""
        async with self._turn:
            self._is_open.clear()
            try:
                if self._running:
                    self._is_idle.clear()
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._is_idle.wait(), ALONE_WAIT_S)
                yield
            finally:
                self._is_open.set()


_gates: WeakKeyDictionary[asyncio.AbstractEventLoop, HandlerGate] = WeakKeyDictionary()


def handler_gate() -> HandlerGate:
    """The gate of the running event loop, and so of all nodes that run on it: they die together."""
    loop = asyncio.get_running_loop()
    gate = _gates.get(loop)
    if gate is None:
        gate = _gates[loop] = HandlerGate()
    return gate


_IDLE_TOO_LONG = "25P03"


@dataclass(frozen=True, kw_only=True)
class HandlerGroup:
    """Handlers that run one after the other with the same argument: an action, an event or a batch of events."""

    handlers: tuple[Callable[..., Any], ...]
    session: Any = None
    """The application's `session`: what a handler gets whose annotation does not say it."""
    destination: str = ""
    """The topic or action, for traces."""
    consumer: str | None = None
    """The name of the consumer, for traces; None for an action."""

    @cached_property
    def steps(self) -> tuple[SessionStep, ...]:
        """Each handler with the session it asks for; raises Invalid or Conflict."""
        steps = tuple(
            SessionStep(handler, request_for(handler, self.session), iscoroutinefunction(handler)) for handler in self.handlers
        )
        if len({id(step.request.source) for step in steps}) > 1:
            kinds = ", ".join(f"{step.name} gets {step.request.kind}" for step in steps)
            raise Conflict(
                f"handlers that share a transaction need sessions of one connection, but {kinds}; "
                "give them the same annotation, or annotations that the node's own connection serves"
            )
        return steps

    @property
    def source(self) -> Any:
        """Where the transaction comes from; None: the node's own connections."""
        return self.steps[0].request.source if self.steps else None

    @cached_property
    def is_sync(self) -> bool:
        """Are all handlers plain functions? Then one thread may run many calls in a row."""
        return not any(step.is_async for step in self.steps)


HandlerCall: TypeAlias = tuple[HandlerGroup, Any]
"""The handlers to call and their argument."""


async def call_handlers(calls: Sequence[HandlerCall], conn: HandlerConnection) -> list[float]:
    """Makes the calls in order, in the transaction open on the connection; returns the seconds that each took."""
    durations_s: list[float] = []
    # A hop into a thread costs more than many handlers: consecutive calls of plain functions share one hop.
    for is_sync, run in groupby(calls, key=lambda call: call[0].is_sync):
        if is_sync:
            durations_s += await asyncio.to_thread(_call_sync, list(run), conn)
        else:
            durations_s += [await _call(group, argument, conn) for group, argument in run]
    return durations_s


async def _call(group: HandlerGroup, argument: Any, conn: HandlerConnection) -> float:
    task = asyncio.current_task()
    started = time.perf_counter()
    span = None if switch.tracer is None else switch.tracer.start_process(group.destination, group.consumer, argument)
    try:
        for step in group.steps:
            if step.is_async:
                async with conn.session(step) as session:
                    await step.handler(argument, session)
            else:
                await asyncio.to_thread(_call_step, step, argument, conn)
    except BaseException as error:
        if span is not None:
            span.end(error)
        if isinstance(error, Exception) or _is_stopped(task, error):
            raise
        raise HandlerInterrupted(error_summary(error)) from error
    if span is not None:
        span.end()
    return time.perf_counter() - started


def _call_sync(calls: Sequence[HandlerCall], conn: HandlerConnection) -> list[float]:
    durations_s: list[float] = []
    for group, argument in calls:
        started = time.perf_counter()
        span = None if switch.tracer is None else switch.tracer.start_process(group.destination, group.consumer, argument)
        try:
            for step in group.steps:
                _call_step(step, argument, conn)
        except BaseException as error:
            if span is not None:
                span.end(error)
            raise
        if span is not None:
            span.end()
        durations_s.append(time.perf_counter() - started)
    return durations_s


def _is_stopped(task: asyncio.Task[Any] | None, error: BaseException) -> bool:
    """Is the task that called a handler itself being ended? Otherwise it was the handler that raised this."""
    if isinstance(error, GeneratorExit):
        # Whoever closes the coroutine does so from outside of its task.
        return _running_task() is not task
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


def _running_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None  # No event loop runs: the coroutine is collected.


def _call_step(step: SessionStep, argument: object, conn: HandlerConnection) -> None:
    try:
        with conn.sync_session(step) as session:
            step.handler(argument, session)
    except Exception as error:
        if isinstance(error, StopIteration):
            # No future can hold it: whoever waits for the thread would wait for ever.
            raise HandlerInterrupted(error_summary(error)) from error
        raise
    except BaseException as error:
        # Here and not where the thread is awaited: SystemExit and KeyboardInterrupt would end the event loop.
        raise HandlerInterrupted(error_summary(error)) from error


async def run_after_commit(conn: HandlerConnection) -> None:
    """Calls what handlers left for after the commit. The transaction is done, so an error is only logged."""
    functions, conn.after_commit = conn.after_commit, []
    if functions:
        await asyncio.to_thread(_run_functions, functions)


def _run_functions(functions: Sequence[Callable[[], object]]) -> None:
    for function in functions:
        try:
            function()
        except BaseException:
            logger.exception("a function left for after the commit failed; the commit stands")


def handler_error(conn: HandlerConnection, error: Exception, *, is_overdue: bool = False) -> HandlerError:
    """What to record of a handler's own error. An error that the database caused is raised again: it is no failed attempt.
    `is_overdue`: see `is_session_ended`."""
    if is_session_ended(conn, error, is_overdue=is_overdue):
        limit = "the handler left its transaction idle for longer than the session's limit; set timeout_s, or shorten the handler"
        return describe_error(HandlerTimeout(limit))
    if conn.is_lost:
        raise connection_lost_error(error) from error
    if (cause := concurrency_error(error)) is not None:
        raise cause from error
    return describe_error(error)


def is_session_ended(conn: HandlerConnection, error: Exception, *, is_overdue: bool) -> bool:
    """Has the server ended the session, because the handler left it idle for too long? Not every driver tells what the server said
    last: with `is_overdue`, the handler took longer than that, so if the connection is lost, that is why."""
    return getattr(error, "sqlstate", None) == _IDLE_TOO_LONG or (is_overdue and conn.is_lost)
