"""Worker: delivers claimed actions to their handlers.

Owns: one worker pool on one node. Promises: handlers and the ack of their action share a transaction, so effects made through
it happen exactly once; only the holder of an action's lease acks it; a failed action is retried with growing pauses, then
buried with its error.

A batch is handled in one transaction. If one of its actions fails, the batch is rolled back and handled again one by one, so
effects outside the transaction may happen twice: at least once, as everywhere."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from headrace.actions.action import Claim
from headrace.actions.handlers import AdaptiveBatchSize, WorkerPool, call_action_handlers
from headrace.actions.queue import MSG_ID_MAX, LeaseExtender, Queue
from headrace.consume import describe_error, error_summary, first_line, handler_gate, run_after_commit
from headrace.core import DurationHistogram, LeaseLost, TokenBucket
from headrace.db import (
    TRANSIENT_ERRORS,
    EventRate,
    Loop,
    Pool,
    StopSignal,
    Subscription,
    Unit,
    connection_lost_error,
    map_error,
)
from headrace.drivers import HandlerConnection, Sources

logger = logging.getLogger(__name__)

POLL_S, RARE_POLL_S = (0.005, 0.01, 0.025, 0.05, 0.1), (0.025, 0.1)
"""Pauses after claims that found nothing, before the worker sleeps and waits for a notification; the second while few actions come."""
IDLE_S = 1.0
"""Longest sleep without a notification while actions are in the queue: delayed and failed ones become due."""
EMPTY_S = 10.0
"""The same while the queue is empty: a notification may be lost with its connection."""
CLAIMS_IN_FLIGHT = 2
"""How many claims of a worker pool run at once: the server works on one while this process reads the rows of another."""
RETRIED_POLL_S = 0.1
"""While there is enough fresh work, how often a worker checks for redelivered actions and for those behind `after`."""


class Prefetch:
    """The next batch of a worker, claimed while it handles the current one, so that neither waits for the other."""

    def __init__(self) -> None:
        self._task: asyncio.Task[list[Claim]] | None = None
        self._started_at = 0.0

    def start(self, claim: Coroutine[None, None, list[Claim]]) -> None:
        self._started_at = time.monotonic()
        self._task = asyncio.create_task(claim)

    async def take(self) -> tuple[list[Claim], float]:
        """The claims, and how many seconds ago their claim started."""
        if self._task is None:
            return [], 0.0
        task, self._task = self._task, None
        return await task, time.monotonic() - self._started_at

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


class ActionWorker:
    """Runs one worker pool on one database until `stop` is set."""

    def __init__(
        self,
        worker_pool: WorkerPool,
        queue: Queue,
        pool: Pool,
        leases: LeaseExtender,
        subscription: Subscription,
        stop: StopSignal,
        *,
        sources: Sources | None = None,
    ) -> None:
        self._worker_pool = worker_pool
        self._sources = sources or Sources(pool)
        self._queue = queue
        self._pool = pool
        self._leases = leases
        self._subscription = subscription
        self._stop = stop
        self._names = list(worker_pool.handlers)
        self._has_one_source = len({id(group.source) for group in worker_pool.handlers.values()}) == 1
        self._batch_size = AdaptiveBatchSize(worker_pool.batch_max)
        self._rate = TokenBucket(worker_pool.rate_per_s) if worker_pool.rate_per_s else None
        self._retried_checked_at = 0.0
        self._just_retried = False
        self._after = MSG_ID_MAX
        self._claims_in_flight = asyncio.Semaphore(CLAIMS_IN_FLIGHT)
        self._to_release: dict[bool, list[Claim]] = {True: [], False: []}
        """Claims left by a lost connection, by whether the attempt counts: it does if handlers were called."""
        self._rests = self._loop("rest")
        self._watch = asyncio.Lock()
        """Held by the one idle worker that watches the queue for all."""
        self._recent = EventRate()
        self._is_drained = False
        """The last claim got less than it asked for."""
        self._idle = 0
        """How many claims in a row have found nothing."""
        self._is_resting = False
        """One of the workers marks the queue asleep, or waits for a notification since."""
        self._was_notified = False
        """A notification has ended the wait, and no action was found since."""
        self.handled = 0
        """How many actions this worker has handled."""
        self.handled_by_action: Counter[str] = Counter(dict.fromkeys(self._names, 0))
        self.durations = {name: DurationHistogram() for name in self._names}
        self.failures = 0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(self._worker_pool.workers):
                group.create_task(self._run_worker())

    async def _run_worker(self) -> None:
        prefetch = Prefetch()
        loop = self._loop("actions", partial(self._work, prefetch))
        try:
            await loop.run()
            await loop.attempt(partial(self._release_prefetched, prefetch))
        finally:
            prefetch.cancel()

    async def _work(self, prefetch: Prefetch) -> float:
        """The step of a worker. The one that finds nothing rests in it, and the others wait for that."""
        if await self.handle_once(prefetch):
            self._idle = 0
            if not self._is_drained:
                return 0
        async with self._watch:
            if not self._stop.is_set():
                await self._sleep(self._idle)
                self._idle += 1
        return 0

    @property
    def _polls_s(self) -> Sequence[float]:
        return RARE_POLL_S if self._recent.is_low else POLL_S

    def _loop(self, kind: str, step: Callable[[], Awaitable[float]] | None = None) -> Loop:
        unit = Unit(kind, self._queue.namespace, self._worker_pool.name)
        name = f"{self._worker_pool.name}: {kind}"
        return Loop(name, self._stop, step=step, wake_up=self._subscription, pool=self._pool, unit=unit)

    async def _release_prefetched(self, prefetch: Prefetch) -> None:
        claims, _ = await prefetch.take()
        if claims:
            await self._queue.release(claims, count_attempt=False)

    async def _sleep(self, idle: int) -> None:
        if self._rate and (wait_s := self._rate.wait_s()):
            await self._subscription.wait(wait_s)
        elif idle < len(self._polls_s):
            await self._subscription.wait(self._polls_s[idle])
        else:
            self._was_notified, self._is_resting = False, True
            try:
                await self._rest(is_first=idle == len(self._polls_s))
            finally:
                self._is_resting = False

    async def _rest(self, *, is_first: bool) -> None:
        """Returns when there may be something to claim."""
        is_empty = True
        while is_empty and not self._was_notified and not self._stop.is_set():
            await self._rests.attempt(partial(self._queue.set_asleep, True))
            if is_first:
                # Claim once more before the first wait: an action sent just before set_asleep made no notification.
                return
            is_empty = bool(await self._rests.attempt(self._queue.is_empty))
            self._was_notified = await self._subscription.wait(EMPTY_S if is_empty else IDLE_S)
        if self._was_notified:
            self._idle = 0

    async def _end_rest(self) -> None:
        """With work in hand, marks the queue awake if a notification brought it, which has woken all other workers and nodes as well:
        those that find nothing mark the queue asleep again. Otherwise they sleep on, and need the next notification."""
        if not self._was_notified:
            return
        self._was_notified = False
        await self._rests.attempt(partial(self._queue.set_asleep, False))
        if self._is_resting:
            # It marked the queue asleep before we marked it awake, and would wait for a notification that nobody sends.
            self._subscription.notify()

    async def handle_once(self, prefetch: Prefetch | None = None) -> bool:
        """Handles one batch and prefetches the next one meanwhile; returns False if nothing is due."""
        async with handler_gate().shared():
            return await self._handle_once(prefetch)

    async def _handle_once(self, prefetch: Prefetch | None) -> bool:
        await self.release_leftovers()
        claims = await self._next(prefetch) if prefetch else await self._claim(is_last=True)
        if not claims:
            return False
        self._recent.count(len(claims))
        await self._end_rest()
        is_full = len(claims) >= self._batch_size.size > 1
        if prefetch and is_full and not self._rate and not self._worker_pool.ordered:
            prefetch.start(self._claim())
        with self._leases.holding(claims):
            try:
                await self._handle(claims)
            except asyncio.CancelledError:
                # Without this they would wait for the end of their lease. What is acked already is not held any more.
                self._to_release[True] += claims
                raise
        return True

    async def _next(self, prefetch: Prefetch) -> list[Claim]:
        claims, age_s = await prefetch.take()
        if claims and age_s > self._queue.lease_s / 3:
            # The batch before took long, and nobody has extended these leases.
            await self._queue.release(claims, count_attempt=False)
            claims = []
        return claims or await self._claim()

    async def release_leftovers(self) -> None:
        """Returns claims to the queue that a lost connection left behind."""
        for count_attempt in self._to_release:
            # Emptied before the release, because other workers of the pool may get here while this one waits.
            claims, self._to_release[count_attempt] = self._to_release[count_attempt], []
            if not claims:
                continue
            try:
                await self._queue.release(claims, count_attempt=count_attempt)
            except Exception:
                self._to_release[count_attempt] += claims
                raise

    async def _claim(self, *, is_last: bool = False) -> list[Claim]:
        """`is_last`: no other claim follows soon, so retried actions are looked for in any case."""
        limit = self._rate.take_up_to(self._batch_size.size) if self._rate else self._batch_size.size
        if limit == 0:
            return []
        # If many retries are due, fresh and retried actions take turns.
        was_retried, self._just_retried = self._just_retried, False
        check_retried = not was_retried and time.monotonic() - self._retried_checked_at > RETRIED_POLL_S
        claims = await self._claim_retried() if check_retried else []
        claims = claims or await self._claim_fresh(limit)
        if not claims and not check_retried and (was_retried or is_last):
            claims = await self._claim_retried()
        # A retried action comes alone, whatever is due behind it.
        self._is_drained = len(claims) < limit and not self._just_retried
        if self._rate:
            self._rate.give_back(limit - len(claims))
        return claims

    async def _claim_retried(self) -> list[Claim]:
        claims = await self._queue.claim_retried(self._names, ordered=self._worker_pool.ordered)
        self._after = MSG_ID_MAX
        self._just_retried = bool(claims)
        self._retried_checked_at = 0.0 if claims else time.monotonic()
        return claims

    async def _claim_fresh(self, limit: int) -> list[Claim]:
        if self._worker_pool.ordered:
            return await self._queue.claim_ordered(self._names[0], limit)
        async with self._claims_in_flight:
            after = self._after
            if after < MSG_ID_MAX:
                # This claim takes `limit` actions after `after`, so there are none left up to here: the next claim starts behind.
                self._after += limit
            claims = await self._queue.claim(self._names, limit, after=after)
        self._advance(claims, after, is_end=len(claims) < limit)
        return claims

    def _advance(self, claims: Sequence[Claim], after: int, *, is_end: bool) -> None:
        """Moves `_after` behind what was claimed. At the end of the queue, the next action may be anywhere: committed late,
        released, or due only then."""
        last = MSG_ID_MAX if is_end else max((claim.msg_id for claim in claims if claim.action.priority == 0), default=MSG_ID_MAX)
        if MSG_ID_MAX in (after, last):
            self._after = last
        elif self._after < MSG_ID_MAX:
            self._after = max(self._after, last)

    async def _handle(self, claims: Sequence[Claim]) -> None:
        started = time.monotonic()
        groups = self._by_source(claims)
        for index, group in enumerate(groups):
            try:
                if len(group) == 1 or not await self._handle_batch(group):
                    await self._handle_singly(group)
            except Exception:
                self._to_release[False] += [claim for later in groups[index + 1 :] for claim in later]
                raise
        self._batch_size.adapt(len(claims), time.monotonic() - started)

    def _by_source(self, claims: Sequence[Claim]) -> list[list[Claim]]:
        """The claims, apart by where the transaction of their handlers comes from."""
        if self._has_one_source:
            return [list(claims)]
        groups: dict[int, list[Claim]] = {}
        for claim in claims:
            groups.setdefault(id(self._worker_pool.handlers[claim.action.action].source), []).append(claim)
        return list(groups.values())

    async def _handle_batch(self, claims: Sequence[Claim]) -> bool:
        """Handles all claims in one transaction; returns False if that failed, and then nothing is done."""
        async with self._connection(claims) as conn:
            try:
                await self._call_and_ack(conn, claims)
            except Exception as error:  # noqa: BLE001 - a handler may raise anything
                await self._roll_back(conn, claims, error)
                name, summary = self._worker_pool.name, first_line(error_summary(error))
                logger.info("%s: a batch of %s failed and is handled one by one: %s", name, len(claims), summary)
                return False
        return True

    async def _handle_singly(self, claims: Sequence[Claim]) -> None:
        """Handles the claims one by one. In an ordered pool, those that follow a failed action of their key are released."""
        held_back: list[Claim] = []
        failed_keys: set[str] = set()
        for index, claim in enumerate(claims):
            if self._worker_pool.ordered and claim.action.key in failed_keys:
                held_back.append(claim)
                continue
            try:
                is_done = await self._handle_single(claim)
            except Exception:
                self._to_release[False] += [*held_back, *claims[index + 1 :]]
                raise
            if not is_done and claim.action.key is not None:
                failed_keys.add(claim.action.key)
        if held_back:
            await self._queue.release(held_back, count_attempt=False)

    async def _handle_single(self, claim: Claim) -> bool:
        """Handles one action in its own transaction; returns whether it is done."""
        policy = self._worker_pool.handlers[claim.action.action].policy
        if claim.attempt > policy.attempts:
            await self._queue.bury_lost(claim, policy.attempts)
            return False
        started = time.perf_counter()
        async with self._connection([claim]) as conn:
            try:
                await self._call_and_ack(conn, [claim])
                return True
            except Exception as error:  # noqa: BLE001 - a handler may raise anything
                await self._roll_back(conn, [claim], error)
                if isinstance(lease_lost := map_error(error), LeaseLost):
                    logger.warning("%s: %s", _name(claim), lease_lost)
                    return False
                failure = describe_error(error)
        self.failures += 1
        outcome = await self._queue.fail(claim, policy, failure, time.perf_counter() - started)
        action = claim.action
        fields = {"action": action.action, "action_id": str(action.id), "attempt": claim.attempt, "error": failure.line}
        message = "%s, attempt %s failed: %s; %s"
        logger.warning(
            message, _name(claim), claim.attempt, failure.line, _OUTCOMES[outcome], exc_info=failure.exc_info, extra=fields
        )
        return False

    async def _call_and_ack(self, conn: HandlerConnection, claims: Sequence[Claim]) -> None:
        await conn.begin()
        durations_s = await call_action_handlers(self._worker_pool.handlers, claims, conn)
        for claim, duration_s in zip(claims, durations_s, strict=True):
            self.durations[claim.action.action].observe(duration_s)
        await self._queue.ack_and_commit(conn, claims, durations_s)
        self.handled += len(claims)
        self.handled_by_action.update(claim.action.action for claim in claims)
        await run_after_commit(conn)

    async def _roll_back(self, conn: HandlerConnection, claims: Sequence[Claim], error: Exception) -> None:
        """After an error of a handler. If the connection was lost, the claims are released, and the attempt counts."""
        try:
            if conn.is_lost:
                raise connection_lost_error(error) from error
            await conn.rollback()
        except TRANSIENT_ERRORS:
            self._to_release[True] += claims
            raise

    @asynccontextmanager
    async def _connection(self, claims: Sequence[Claim]) -> AsyncIterator[HandlerConnection]:
        """A connection for the handlers. If there is none, the claims are released, and the attempt does not count."""
        async with AsyncExitStack() as stack:
            try:
                source = self._sources.source(self._worker_pool.handlers[claims[0].action.action].source)
                conn = await stack.enter_async_context(source.connect())
            except Exception:
                self._to_release[False] += claims
                raise
            yield conn


_OUTCOMES = {
    "retry": "it will be retried",
    "dead": "it was moved to the dead letters",
    "discarded": "it was discarded",
    None: "another node holds it",
}


def _name(claim: Claim) -> str:
    return f"action {claim.action.action} {claim.action.id}"
