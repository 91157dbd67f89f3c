"""Ticker: the loop of a node that plans schedules and fires their due ticks.

Promises: any number of tickers may run; one at a time fires a schedule. If pg_cron fires a schedule, the ticker only stands by
and fires ticks that pg_cron is STANDBY_S late with. A schedule that cannot be planned or fired is recorded with its error and
retried; the others go on."""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import timedelta

import psycopg
from psycopg.rows import class_row

from headrace.core import HeadraceError, Invalid
from headrace.db import (
    AsyncConnection,
    Loop,
    Pool,
    StopSignal,
    Subscription,
    Target,
    Unit,
    clear_failure,
    error_line,
    fetch_value_async,
    is_unreachable,
    map_error,
    query,
    record_failure,
)
from headrace.schedules.pg_cron import sync_cron_jobs
from headrace.schedules.schedule import WRITE_PLAN, UnplannedSchedule

logger = logging.getLogger(__name__)

STANDBY_S = 10.0
WAIT_MIN_S = 0.05
"""Shortest wait, while another node holds what is due."""
WAIT_MAX_S = 30.0
"""Longest wait without a notification: one may be lost with its connection."""
RETRY_S = 1.0
"""Longest wait while a step fails."""
SYNC_S = 600.0
"""How often pg_cron's jobs are compared if no schedule has changed."""
TRIM_S = 3600.0
KEEP_TICKS = timedelta(days=90)
_CLEAR_FAILURE = """
    select headrace_internal.clear_failure('schedule', s.namespace, s.schedule)
    from headrace_internal.schedule s where s.schedule_id = %s"""


class Ticker:
    """Plans and fires the schedules of one database until `stop` is set."""

    def __init__(self, pool: Pool, subscription: Subscription, stop: StopSignal, target: Target) -> None:
        self._pool = pool
        self._target = target
        self._synced_at = -SYNC_S
        self._trimmed_at = time.monotonic()
        self.loop = Loop("schedules", stop, step=self._step, wake_up=subscription, pool=pool)
        # The steps fail apart from each other: ticks are fired although nothing can be planned.
        self._steps = {step: Loop(f"schedules: {step}", stop, pool=pool) for step in ("plan", "fire", "trim", "wait", "pg_cron")}
        self._last_id: int | None = None
        """The schedule that was claimed last: another namespace has the next turn."""
        self.fired = 0
        """How many events this ticker has fired."""
        self.failures = 0

    async def _step(self) -> float:
        if self.loop.is_notified:
            self._synced_at = -SYNC_S
        planned = await self._steps["plan"].attempt(self.plan_once)
        if planned or time.monotonic() - self._synced_at >= SYNC_S:
            await self._steps["pg_cron"].attempt(self._sync)
        if await self._steps["fire"].attempt(self.fire_once):
            return 0
        if time.monotonic() - self._trimmed_at > TRIM_S:
            await self._steps["trim"].attempt(self._trim)
        wait_s = await self._steps["wait"].attempt(self._wait_s)
        is_failing = any(steps.is_failing for steps in self._steps.values())
        return RETRY_S if wait_s is None or is_failing else wait_s

    async def plan_once(self) -> int:
        """Extends the plans that need it; returns for how many schedules."""
        async with self._pool.connection() as conn:
            rows = await (await conn.execute(query("schedules/unplanned"))).fetchall()
        for schedule_id, namespace, name in rows:
            unit = Unit("schedule plan", namespace, name)
            try:
                async with self._pool.connection() as conn:
                    await self._plan(conn, schedule_id)
            except Exception as error:
                # Also a lock: whoever holds a schedule must not delay those behind it.
                if is_unreachable(error):
                    raise
                self.failures += 1
                logger.warning("%s failed: %s; it will be retried", unit, error_line(error))
                await record_failure(self._pool, unit, error)
            else:
                await clear_failure(self._pool, unit)
        return len(rows)

    async def _plan(self, conn: AsyncConnection, schedule_id: int) -> None:
        async with conn.cursor(row_factory=class_row(UnplannedSchedule)) as cursor:
            schedule = await (await cursor.execute(query("schedules/to_plan"), {"schedule_id": schedule_id})).fetchone()
        if schedule is None:
            return
        try:
            plan = await asyncio.to_thread(schedule.plan)
        except Invalid as error:
            logger.warning("schedule %s cannot be planned: %s", schedule.schedule_id, error)
            key = {"schedule_id": schedule.schedule_id, "cron": schedule.cron, "zone": schedule.zone}
            await conn.execute(query("schedules/mark_invalid"), key | {"error": str(error)})
            return
        await conn.execute(WRITE_PLAN, schedule.plan_parameters(plan))

    async def fire_once(self) -> bool:
        """Fires the due ticks of one schedule, in one transaction; returns False if none is due."""
        schedule_id: int | None = None
        try:
            async with self._pool.connection() as conn, conn.transaction():
                parameters = (STANDBY_S, self._last_id)
                claimed = await (await conn.execute("select headrace_internal.claim_schedule(%s, %s)", parameters)).fetchone()
                if claimed is None or claimed[0] is None:
                    return False
                schedule_id = self._last_id = claimed[0]
                await self._fire(conn, claimed[0])
        except Exception as error:
            if schedule_id is None or is_unreachable(error):
                raise
            # Not even its failure could be written into its row.
            await self._record(schedule_id, error)
        return True

    async def _fire(self, conn: AsyncConnection, schedule_id: int) -> None:
        try:
            async with conn.transaction():
                row = await (await conn.execute("select headrace.run_schedule(%s)", (schedule_id,))).fetchone()
        except psycopg.Error as error:
            # Any other error is this schedule's, also a deadlock or a timeout: it is due first, and would stop those behind it.
            if is_unreachable(error) or conn.broken:
                raise
            self.failures += 1
            message = str(map_error(error) or error_line(error))
            logger.warning("schedule %s could not be fired: %s; it will be retried", schedule_id, message)
            await conn.execute(query("schedules/fail"), {"schedule_id": schedule_id, "error": message})
        else:
            self.fired += row[0] if row else 0
            await conn.execute(_CLEAR_FAILURE, (schedule_id,))

    async def _record(self, schedule_id: int, error: Exception) -> None:
        self.failures += 1
        statement = "select s.namespace, s.schedule from headrace_internal.schedule s where s.schedule_id = %s"
        async with self._pool.connection() as conn:
            row = await (await conn.execute(statement, (schedule_id,))).fetchone()
        if row is not None:
            logger.warning("schedule %s/%s could not be fired: %s; it will be retried", *row, error_line(error))
            await record_failure(self._pool, Unit("schedule", *row), error)

    async def _wait_s(self) -> float:
        wait_s = await fetch_value_async(self._pool, query("schedules/rest_s"), {"standby_s": STANDBY_S})
        return WAIT_MAX_S if wait_s is None else min(max(wait_s, WAIT_MIN_S), WAIT_MAX_S)

    async def _sync(self) -> None:
        """Updates the jobs of pg_cron. If it is missing, or our role may not use it, this ticker fires everything."""
        self._synced_at = time.monotonic()
        try:
            async with self._pool.connection() as conn:
                await sync_cron_jobs(conn, self._target)
        except (HeadraceError, psycopg.Error) as error:
            logger.warning(
                "the pg_cron jobs of %s could not be updated: %s; nodes fire its schedules", self._target, str(error).strip()
            )

    async def _trim(self) -> None:
        async with self._pool.connection() as conn:
            await conn.execute(query("schedules/trim_ticks"), {"keep": KEEP_TICKS})
        self._trimmed_at = time.monotonic()
