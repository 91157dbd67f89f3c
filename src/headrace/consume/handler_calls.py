"""Handler calls: the one place where handlers run, those of consumers and those of actions.

Async functions run on the event loop, plain functions in a thread, both with a session in the transaction that is open.
Promises: a handler that ends that transaction, or leaves it aborted, raises; its effects never count as done. Whatever a handler
raises, its caller gets an Exception, unless the caller itself is being cancelled."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import iscoroutinefunction
from itertools import groupby
from typing import Any, TypeAlias

from headrace.consume.failures import HandlerError, HandlerInterrupted, describe_error, error_summary
from headrace.core import Conflict, HandlerTimeout
from headrace.db import connection_lost_error
from headrace.drivers import HandlerConnection, SessionStep, concurrency_error, request_for
from headrace.observe.tracing import switch

logger = logging.getLogger(__name__)

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
