"""Loops: a room gives a loop its step, and the loop does the rest: it waits, wakes, retries with growing pauses, and stops.

Promises: no error ends a loop. It is counted, logged when it changes, and recorded in the database, where the doctor finds it. A loop
never sleeps through a wake-up or the stop signal. Tasks are cancelled for certain."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

import psycopg

from headrace.core import error_text

if TYPE_CHECKING:
    from headrace.db.pools import Pool

logger = logging.getLogger(__name__)

T = TypeVar("T")
CANCEL_AGAIN_S = 0.2
PAUSE_MIN_S, PAUSE_MAX_S = 0.1, 5.0
"""Bounds of the pauses after failed steps."""
TRANSIENT_MAX = 3
"""A transient error is recorded when a step has failed this often in a row."""
NAMES_MAX = 10_000
"""Names that a subscription keeps until it is asked for them; any role may notify faster than it asks, or of a channel whose subscriber
never asks."""

# Deadlocks, serialization failures and a pool's timeout are operational errors too.
TRANSIENT_ERRORS = (psycopg.OperationalError, psycopg.InterfaceError)
# psycopg counts these as internal errors: a standby that is not promoted yet or a server that became read-only, and sessions
# that the server ended because a transaction was idle or open for too long.
_READ_ONLY = "25006"
_TRANSIENT_SQLSTATES = {_READ_ONLY, "25P03", "25P04"}


def is_transient(error: BaseException) -> bool:
    """True if a retry may help. Our own errors are not transient, although psycopg counts unknown SQLSTATEs as operational."""
    sqlstate = getattr(error, "sqlstate", None) or ""
    return sqlstate in _TRANSIENT_SQLSTATES or (isinstance(error, TRANSIENT_ERRORS) and not sqlstate.startswith("HR"))


def is_unreachable(error: BaseException) -> bool:
    """True if the database is down or takes no writes, so that nothing can be recorded in it."""
    sqlstate = getattr(error, "sqlstate", None) or ""
    return (isinstance(error, TRANSIENT_ERRORS) and not sqlstate) or sqlstate.startswith((_READ_ONLY, "08", "57P"))


def connection_lost_error(error: Exception) -> Exception:
    """The error to raise if the connection was lost while a handler ran. The handler's own error would count as a fault of the
    loop, although the node is healthy: the handler's work is rolled back and retried."""
    return error if is_transient(error) else psycopg.OperationalError(f"the connection was lost while a handler ran: {error!r}")


def error_line(error: BaseException) -> str:
    """The message of an error in one line, without the context that PostgreSQL adds."""
    diag = getattr(error, "diag", None)
    message = (diag.message_primary if diag is not None else None) or error_text(error) or type(error).__name__
    return (
        " ".join(message.split()) if isinstance(error, psycopg.Error) else f"{type(error).__name__}: {' '.join(message.split())}"
    )


@dataclass(frozen=True)
class Unit:
    """What a loop works on, and fails on without harm to the others: a topic, a schedule, a correlator, a whole loop."""

    kind: str
    namespace: str | None
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


async def record_failure(pool: Pool, unit: Unit, error: BaseException | str) -> None:
    """Records the failure of a unit, where doctor and trace find it. Best effort: a loop must survive also when this fails."""
    message = error if isinstance(error, str) else error_line(error)
    statement = "select headrace_internal.record_failure(%s, %s, %s, %s, p_backoff_max_s => 30)"
    await _note(pool, statement, (unit.kind, unit.namespace, unit.name, message))


async def clear_failure(pool: Pool, unit: Unit) -> None:
    """Deletes the record of a unit that works again."""
    await _note(pool, "select headrace_internal.clear_failure(%s, %s, %s)", (unit.kind, unit.namespace, unit.name))


async def _note(pool: Pool, statement: str, parameters: tuple[str | None, ...]) -> None:
    try:
        async with pool.connection() as conn, conn.transaction():
            await conn.execute(statement, tuple(part and part.replace("\0", "") for part in parameters))
    except Exception as error:  # noqa: BLE001 - a role with few rights may not, and the next failure tries again
        logger.debug("a failure could not be recorded: %s", error)


@dataclass(frozen=True)
class LoopFailure:
    """A loop whose last step has failed. It goes on trying."""

    loop: str
    error: str
    in_a_row: int
    """How many steps have failed since the last success."""


class LoopMonitor:
    """Knows the loops that were created while it watched, and which of them fail now.

    An error that no retry mends counts at once, and so does a lost database, except for side work; a deadlock or a timeout counts
    after three in a row."""

    def __init__(self, on_failure: Callable[[LoopFailure], None] | None = None) -> None:
        """`on_failure` is called once for each new error of a loop."""
        self._on_failure = on_failure
        self._loops: WeakSet[Loop] = WeakSet()
        self.failure_counts: Counter[str] = Counter()
        """How many steps of each loop have failed; also of loops that are gone."""

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Watches the loops that are created in the block, and in tasks that are started in it."""
        token = _monitor.set(self)
        try:
            yield
        finally:
            _monitor.reset(token)

    def add(self, loop: Loop) -> None:
        self._loops.add(loop)

    def failures(self) -> list[LoopFailure]:
        """The loops that fail now."""
        return sorted((loop.failure for loop in self._loops if loop.failure is not None), key=lambda failure: failure.loop)

    def report(self, failure: LoopFailure) -> None:
        if self._on_failure is None:
            return
        try:
            self._on_failure(failure)
        except Exception:
            logger.exception("on_failure raised for %s", failure.loop)


_monitor: ContextVar[LoopMonitor | None] = ContextVar("headrace_loop_monitor", default=None)


class Subscription:
    """Wakes one loop, or several loops that share work, when a channel is notified; with a `filter`, only for payloads that
    contain it.

    A notification wakes one waiter. A loop that finds work notifies again, so that as many wake up as there is work for."""

    def __init__(self, channel: str) -> None:
        self.channel = channel
        self.filter: str | None = None
        self._pending: asyncio.Queue[None] = asyncio.Queue(maxsize=1)
        self._names: set[str] = set()
        self._is_for_all = False

    def notify(self, names: Collection[str] = ()) -> None:
        """Wakes one waiter, now or when it next waits. `names`: what the notification is about; none: everything."""
        self._names.update(names)
        self._is_for_all |= not names
        if len(self._names) > NAMES_MAX:
            self._names, self._is_for_all = set(), True
        if not self._pending.full():
            self._pending.put_nowait(None)

    def take_names(self) -> frozenset[str] | None:
        """What the notifications since the last call were about; None: everything."""
        names = None if self._is_for_all else frozenset(self._names)
        self._names, self._is_for_all = set(), False
        return names

    def clear(self) -> None:
        """Forgets a notification that nobody has waited for."""
        if self._pending.full():
            self._pending.get_nowait()

    async def wait(self, timeout_s: float | None) -> bool:
        """Waits for a notification, at most `timeout_s` (None: for ever); returns whether there was one."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._pending.get()
        except TimeoutError:
            return False
        return True


class StopSignal(asyncio.Event):
    """Ends the loops that were given it. Those that rest wake up."""

    def __init__(self) -> None:
        super().__init__()
        self._loops: WeakSet[Loop] = WeakSet()

    def add(self, loop: Loop) -> None:
        self._loops.add(loop)

    def set(self) -> None:
        super().set()
        for loop in list(self._loops):
            loop.wake()


class Loop:
    """Runs a step again and again. Whatever the step raises, the loop goes on, and the step is tried again after a growing pause.

    A step returns for how many seconds the loop may rest: 0 while there may be more to do, infinity until it is woken, None to leave that
    to the loop's own pace. Nothing is lost by an error: a step works in a transaction, and the next attempt finds what is due."""

    def __init__(
        self,
        name: str,
        stop: StopSignal | None = None,
        *,
        step: Callable[[], Awaitable[float | None]] | None = None,
        wake_up: Subscription | None = None,
        pauses_s: tuple[float, float] = (PAUSE_MIN_S, PAUSE_MAX_S),
        is_poll: bool = False,
        delay_s: float = 0.0,
        pool: Pool | None = None,
        unit: Unit | None = None,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """`wake_up` ends a rest; without it only `wake` does, and what came before a step began is done by that step. The loop's own pace:
        the first of `pauses_s`, then twice as long each time, up to the second. A poll asks for what no notification says: it rests for
        the first pause in any case, so that work that flows does not make more polls than that. `delay_s`: before the first step.

        `pool` records failures, of `unit` or of the loop as a whole. A loop that is not wanted any more ends."""
        self.name = name
        self.failures = 0
        """How many steps have failed."""
        self.is_notified = False
        """True if a wake-up has ended the last rest."""
        self._step = step
        self._stop = stop or StopSignal()
        self._stop.add(self)
        self._is_shared = wake_up is not None
        self._wake_up = wake_up or Subscription(name)
        self._pause_min_s, self._pause_max_s = pauses_s
        self._pause_s = self._pause_min_s
        self._is_poll = is_poll
        self._delay_s = delay_s
        self._pool = pool
        self._unit = unit or Unit("loop", None, name)
        self._is_wanted = is_wanted
        self._in_a_row = 0
        self._retry_at = 0.0
        self._logged: str | None = None
        self._is_recorded = True  # Perhaps, by a node that has died since.
        self.failure: LoopFailure | None = None
        """The current failure, if it counts; see LoopMonitor."""
        self._reported: str | None = None
        self._monitor = _monitor.get()
        if self._monitor is not None:
            self._monitor.add(self)

    @property
    def is_failing(self) -> bool:
        """True if the last step has failed."""
        return self._in_a_row > 0

    def wake(self) -> None:
        """Ends a rest, or the next one."""
        self._wake_up.notify()

    def reset_pace(self) -> None:
        """There was work, so more may become due soon: the next pause is short."""
        self._pause_s = self._pause_min_s

    async def run(self) -> None:
        """Runs until the stop signal, in a task of its own. Whatever ends that before, an error or a cancellation, is a failure, and the
        loop starts again after a pause."""
        try:
            await self._sleep(self._delay_s)
            while self._goes_on():
                task = asyncio.create_task(self._run_steps(), name=self.name)
                try:
                    await asyncio.wait([task])
                finally:
                    await cancel_tasks(task)
                if (error := self._end_of(task)) is not None:
                    await self._fail(error)
                    await self._sleep(self._retry_at - time.monotonic())
        finally:
            # It has ended, so it fails no more, whoever keeps it.
            self.failure = None

    def _end_of(self, task: asyncio.Task[None]) -> Exception | None:
        """What has ended the steps of the loop too early; None if they have ended by themselves, or if the loop has to end."""
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            return error
        if not self._goes_on() or not (task.cancelled() or error):
            return None
        how = f"ended by {error_line(error)}" if error else "cancelled"
        failure = RuntimeError(f"the loop was {how}, and not by its node; a handler may have done it")
        failure.__cause__ = error
        return failure

    async def _run_steps(self) -> None:
        assert self._step is not None, f"the loop {self.name} has no step of its own"
        while self._goes_on():
            if not self._is_shared:
                self._wake_up.clear()
            rest_s = await self.retry(self._step)
            self.is_notified = await self._rest(rest_s) if rest_s != 0 and self._goes_on() else False
        # The stop signal has woken one of the loops that share the subscription.
        self._wake_up.notify()

    def _goes_on(self) -> bool:
        return not self._stop.is_set() and self._is_wanted()

    async def _rest(self, rest_s: float | None) -> bool:
        """Rests; returns whether a wake-up has ended it."""
        if rest_s is None:
            rest_s, self._pause_s = self._pause_s, min(2 * self._pause_s, self._pause_max_s)
        if self._is_poll:
            await self._sleep(self._pause_min_s)
            rest_s -= self._pause_min_s
        is_notified = await self._wake_up.wait(None if math.isinf(rest_s) else rest_s)
        if is_notified:
            self.reset_pace()
        return is_notified

    async def _sleep(self, pause_s: float) -> None:
        """Sleeps; only the stop signal ends it."""
        if pause_s > 0:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), pause_s)

    async def retry(self, step: Callable[[], Awaitable[T]]) -> T | None:
        """Runs one step until it succeeds; returns its result, or None if the loop has to end before."""
        while True:
            try:
                result = await step()
            except Exception as error:  # noqa: BLE001 - nothing but a stop signal ends a loop
                await self._fail(error)
                if not self._goes_on():
                    return None
                await self._sleep(self._retry_at - time.monotonic())
            else:
                await self._succeed()
                return result

    async def attempt(self, step: Callable[[], Awaitable[T]]) -> T | None:
        """Runs one step once; returns None if it fails, and at once if it failed a moment ago. For side work: the loop goes on."""
        if time.monotonic() < self._retry_at:
            return None
        try:
            result = await step()
        except Exception as error:  # noqa: BLE001 - nothing but a stop signal ends a loop
            await self._fail(error, is_side_work=True)
            return None
        await self._succeed()
        return result

    async def _fail(self, error: Exception, *, is_side_work: bool = False) -> None:
        self.failures += 1
        if self._monitor is not None:
            self._monitor.failure_counts[self.name] += 1
        self._in_a_row += 1
        self._retry_at = time.monotonic() + pause_s(self._in_a_row)
        line = error_line(error)
        is_late = self._in_a_row >= TRANSIENT_MAX
        # Side work may run once a minute: it would show an outage long after its end, and the loops show it at once.
        if is_late or not is_transient(error) or (is_unreachable(error) and not is_side_work):
            self.failure = LoopFailure(self.name, line, self._in_a_row)
            if self._monitor is not None and line != self._reported:
                self._reported = line
                self._monitor.report(self.failure)
        if line != self._logged:
            self._logged = line
            if is_transient(error):
                logger.warning("%s: %s; retrying", self.name, line)
            else:
                logger.error(
                    "%s failed: %s; retrying", self.name, line, exc_info=None if isinstance(error, psycopg.Error) else error
                )
        if self._pool is not None and not is_unreachable(error) and (not is_transient(error) or is_late):
            self._is_recorded = True
            await record_failure(self._pool, self._unit, error)

    async def _succeed(self) -> None:
        self._in_a_row, self._retry_at = 0, 0.0
        self.failure = self._reported = None
        if self._logged is not None:
            logger.info("%s works again", self.name)
            self._logged = None
        if self._is_recorded and self._pool is not None:
            self._is_recorded = False
            await clear_failure(self._pool, self._unit)


def pause_s(failures: int) -> float:
    """The pause after a number of failures in a row: doubled each time, with jitter between a half and all of it."""
    from tenacity import AsyncRetrying, RetryCallState, wait_exponential, wait_random_exponential

    wait = wait_exponential(multiplier=PAUSE_MIN_S / 2, max=PAUSE_MAX_S / 2) + wait_random_exponential(
        multiplier=PAUSE_MIN_S / 2, max=PAUSE_MAX_S / 2
    )
    state = RetryCallState(AsyncRetrying(), None, (), {})
    state.attempt_number = failures
    return wait(state)


async def cancel_tasks(*tasks: asyncio.Task[Any], within_s: float = float("inf")) -> None:
    """Cancels tasks and waits until they have ended, even if the caller is cancelled meanwhile; then it raises that cancellation.
    After `within_s` it waits no longer: a handler may ignore every cancellation.

    Once is not enough: asyncio.wait_for of Python 3.11, which psycopg uses, loses a cancellation that comes with a result."""
    await run_to_end(_cancel(set(tasks), time.monotonic() + within_s))


async def _cancel(running: set[asyncio.Task[Any]], until: float) -> None:
    while running and time.monotonic() < until:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=CANCEL_AGAIN_S)


async def run_to_end(step: Coroutine[Any, Any, None]) -> None:
    """Runs a step of the clean-up to its end, however often the caller is cancelled meanwhile; then it raises the cancellation.

    Whoever cancels a task by `cancel_tasks` does so again every 0.2 s, and would break off the clean-up of what the task owns."""
    task = asyncio.create_task(step, name="clean-up")
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancellation = error
    try:
        task.result()
        if cancellation is not None:
            raise cancellation
    finally:
        # The error's traceback holds this frame: without this, both and everything the callers have stay until they are collected.
        cancellation = None
