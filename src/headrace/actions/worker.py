"""Worker: carries claimed actions to their handlers.

Owns: one lane on one node. Promises: handlers and the ack of their action share a transaction, so effects made through it
happen exactly once; an action whose lease ended is acked by nobody but who holds it then; one that fails is tried again with
growing pauses, then buried with its error.

A batch is handled in one transaction. When one of its actions fails, all of it is rolled back and done again one by one, so
what handlers do outside the transaction may happen twice: at least once, as everywhere."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial

from headrace.actions.action import Claim
from headrace.actions.handlers import call_all
from headrace.actions.lanes import Bucket, Lane, Pace
from headrace.actions.leases import LeaseExtender
from headrace.actions.queue import NOWHERE, Queue, told
from headrace.core import LeaseLost
from headrace.db import TRANSIENT, AsyncConnection, Pool, Subscription, as_lost, map_error, retry_until_connected

logger = logging.getLogger(__name__)

LOOK_S = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1)
"""Pauses between looks that found nothing, before the worker asks to be called."""
IDLE_S = 1.0
"""Longest wait without a call: for delayed and failed actions that fall due, and for a call lost with a connection."""
LOOK_BACK_S = 0.1
"""While there is enough fresh work, a worker looks this often for redelivered actions, and for what it has passed by."""


class Prefetch:
    """The next batch of a worker, claimed while it handles this one, so that neither side waits for the other."""

    def __init__(self) -> None:
        self._task: asyncio.Task[list[Claim]] | None = None
        self._since = 0.0

    def begin(self, claim: Coroutine[None, None, list[Claim]]) -> None:
        self._since = time.monotonic()
        self._task = asyncio.create_task(claim)

    async def take(self) -> tuple[list[Claim], float]:
        """What was claimed, and how many seconds ago."""
        if self._task is None:
            return [], 0.0
        task, self._task = self._task, None
        return await task, time.monotonic() - self._since

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


class ActionWorker:
    """Runs one lane on one database until told to stop."""

    def __init__(
        self, lane: Lane, queue: Queue, pool: Pool, keeper: LeaseExtender, bell: Subscription, stop: asyncio.Event
    ) -> None:
        self._lane = lane
        self._queue = queue
        self._pool = pool
        self._keeper = keeper
        self._bell = bell
        self._stop = stop
        self._names = list(lane.handlings)
        self._pace = Pace(lane.batch_max)
        self._bucket = Bucket(lane.rate_per_s) if lane.rate_per_s else None
        self._looked_back_at = 0.0
        self._just_retried = False
        self._after = NOWHERE
        self._claiming = asyncio.Lock()
        self._owed: dict[bool, list[Claim]] = {True: [], False: []}
        self.handled = 0
        """How many actions this worker has handled."""
        self.failures = 0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(self._lane.workers):
                group.create_task(self._work())

    async def _work(self) -> None:
        idle = 0
        ahead = Prefetch()
        try:
            while not self._stop.is_set():
                if await retry_until_connected(self._lane.name, partial(self.handle_once, ahead)):
                    idle = 0
                    continue
                await self._rest(idle)
                idle += 1
            claims, _ = await ahead.take()
            if claims:
                await self._queue.release(claims, begun=False)
        finally:
            ahead.cancel()

    async def _rest(self, idle: int) -> None:
        if self._bucket and (wait_s := self._bucket.wait_s()):
            await self._bell.wait(wait_s)
        elif idle < len(LOOK_S):
            await self._bell.wait(LOOK_S[idle])
        else:
            await retry_until_connected(self._lane.name, lambda: self._queue.rest(asleep=True))
            # One more look follows each call to rest: what came in between did not ring.
            if idle > len(LOOK_S) and await self._bell.wait(IDLE_S):
                await retry_until_connected(self._lane.name, lambda: self._queue.rest(asleep=False))

    async def handle_once(self, ahead: Prefetch | None = None) -> bool:
        """Handles one batch, if there is one, and has the next one claimed meanwhile; says whether there was one."""
        await self._settle()
        claims = await self._next(ahead) if ahead else await self._claim()
        if not claims:
            return False
        if ahead and len(claims) >= self._pace.size > 1 and not self._bucket and not self._lane.ordered:
            ahead.begin(self._claim())
        with self._keeper.holding(claims):
            await self._handle(claims)
        return True

    async def _next(self, ahead: Prefetch) -> list[Claim]:
        claims, age_s = await ahead.take()
        if claims and age_s > self._queue.lease_s / 3:
            # The batch before took long, and nobody made these leases longer.
            await self._queue.release(claims, begun=False)
            claims = []
        return claims or await self._claim()

    async def _settle(self) -> None:
        """Gives back what a lost connection left in our hands."""
        for begun in self._owed:
            # Taken out first: the lane's other workers come by while this one waits.
            owed, self._owed[begun] = self._owed[begun], []
            if not owed:
                continue
            try:
                await self._queue.release(owed, begun=begun)
            except Exception:
                self._owed[begun] += owed
                raise

    async def _claim(self) -> list[Claim]:
        most = self._bucket.take(self._pace.size) if self._bucket else self._pace.size
        if most == 0:
            return []
        # Where many are due again, fresh and redelivered ones take turns.
        look_back = not self._just_retried and time.monotonic() - self._looked_back_at > LOOK_BACK_S
        self._just_retried = False
        claims = await self._claim_retried() if look_back else []
        claims = claims or await self._claim_fresh(most)
        if not claims and not look_back:
            claims = await self._claim_retried()
        if self._bucket:
            self._bucket.give_back(most - len(claims))
        return claims

    async def _claim_retried(self) -> list[Claim]:
        claims = await self._queue.claim_retried(self._names, ordered=self._lane.ordered)
        self._after = NOWHERE
        self._just_retried = bool(claims)
        self._looked_back_at = 0.0 if claims else time.monotonic()
        return claims

    async def _claim_fresh(self, most: int) -> list[Claim]:
        if self._lane.ordered:
            return await self._queue.claim_ordered(self._names[0], most)
        # One claim at a time: side by side they would walk over each other's rows.
        async with self._claiming:
            return await self._claim_after(most)

    async def _claim_after(self, most: int) -> list[Claim]:
        claims = await self._queue.claim(self._names, most, after=self._after)
        # Where the end was reached, what comes next may be anywhere: committed late, given back, or due only then.
        ordinary = [claim.msg_id for claim in claims if claim.action.priority == 0] if len(claims) == most else []
        self._after = max(ordinary, default=NOWHERE)
        return claims

    async def _handle(self, claims: Sequence[Claim]) -> None:
        began = time.monotonic()
        if len(claims) == 1 or not await self._handle_batch(claims):
            await self._handle_singly(claims)
        self._pace.took(len(claims), time.monotonic() - began)

    async def _handle_batch(self, claims: Sequence[Claim]) -> bool:
        """All in one transaction; False where that failed, and nothing was done."""
        async with self._connection(claims) as conn:
            try:
                async with conn.transaction():
                    durations_s = await call_all(self._lane.handlings, claims, conn)
                    await self._queue.ack(conn, claims, durations_s)
            except Exception as error:
                if conn.broken or conn.closed:
                    self._owed[True] += claims
                    raise as_lost(error) from error
                logger.info("%s: a batch of %s failed and is done one by one: %s", self._lane.name, len(claims), told(error))
                return False
        self.handled += len(claims)
        return True

    async def _handle_singly(self, claims: Sequence[Claim]) -> None:
        """One after the other. What follows a failed one of its key, where order matters, is given back."""
        held_back: list[Claim] = []
        waiting: set[str] = set()
        for place, claim in enumerate(claims):
            if self._lane.ordered and claim.action.key in waiting:
                held_back.append(claim)
                continue
            try:
                done = await self._handle_one(claim)
            except Exception:
                self._owed[False] += [*held_back, *claims[place + 1 :]]
                raise
            if not done and claim.action.key is not None:
                waiting.add(claim.action.key)
        if held_back:
            await self._queue.release(held_back, begun=False)

    async def _handle_one(self, claim: Claim) -> bool:
        """One action in a transaction of its own; says whether it was done."""
        policy = self._lane.handlings[claim.action.action].policy
        if claim.attempt > policy.attempts:
            await self._queue.bury_lost(claim, policy.attempts)
            return False
        began = time.perf_counter()
        async with self._connection([claim]) as conn:
            try:
                async with conn.transaction():
                    durations_s = await call_all(self._lane.handlings, [claim], conn)
                    await self._queue.ack(conn, [claim], durations_s)
            except Exception as error:
                if conn.broken or conn.closed:
                    self._owed[True].append(claim)
                    raise as_lost(error) from error
                if isinstance(ours := map_error(error), LeaseLost):
                    logger.warning("%s: %s", _name(claim), ours)
                    return False
                failed = error
            else:
                self.handled += 1
                return True
        await self._fail(claim, failed, time.perf_counter() - began)
        return False

    @asynccontextmanager
    async def _connection(self, claims: Sequence[Claim]) -> AsyncIterator[AsyncConnection]:
        """A connection for the handlers; where there is none, the claims are given back as never begun."""
        try:
            conn = await self._pool.getconn()
        except TRANSIENT:
            self._owed[False] += claims
            raise
        try:
            yield conn
        finally:
            await self._pool.putconn(conn)

    async def _fail(self, claim: Claim, error: Exception, duration_s: float) -> None:
        self.failures += 1
        policy = self._lane.handlings[claim.action.action].policy
        follows = await self._queue.fail(claim, policy, error, duration_s)
        logger.warning("%s, attempt %s failed: %s; %s", _name(claim), claim.attempt, told(error), _FOLLOWS[follows])


_FOLLOWS = {"retry": "it will be tried again", "dead": "it is a dead letter now", None: "another node has it"}


def _name(claim: Claim) -> str:
    return f"action {claim.action.action} {claim.action.id}"
