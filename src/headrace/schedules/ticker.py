"""Ticker: the loop of a node that plans schedules and fires their due ticks.

Promises: any number of tickers may run; one at a time fires a schedule. If pg_cron fires a schedule, the ticker only stands by
and fires ticks that pg_cron is STANDBY_S late with. A schedule that cannot be fired is marked with its error and retried; the
others go on."""

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
    Pool,
    Subscription,
    Target,
    fetch_value_async,
    is_transient,
    map_error,
    query,
    retry_until_connected,
)
from headrace.schedules.pg_cron import sync_cron_jobs
from headrace.schedules.schedule import WRITE_PLAN, UnplannedSchedule

logger = logging.getLogger(__name__)

STANDBY_S = 10.0
WAIT_MIN_S = 0.05
"""Shortest wait, while another node holds what is due."""
WAIT_MAX_S = 30.0
"""Longest wait without a notification: one may be lost with its connection."""
SYNC_S = 600.0
"""How often pg_cron's jobs are compared if no schedule has changed."""
TRIM_S = 3600.0
KEEP_TICKS = timedelta(days=90)


class Ticker:
    """Plans and fires the schedules of one database until `stop` is set."""

    def __init__(self, pool: Pool, subscription: Subscription, stop: asyncio.Event, target: Target) -> None:
        self._pool = pool
        self._subscription = subscription
        self._stop = stop
        self._target = target
        self._synced_at = -SYNC_S
        self._trimmed_at = time.monotonic()
        self.fired = 0
        """How many events this ticker has fired."""
        self.failures = 0

    async def run(self) -> None:
        while not self._stop.is_set():
            planned = await retry_until_connected("schedules", self.plan_once)
            if planned or time.monotonic() - self._synced_at >= SYNC_S:
                await self._sync()
            if await retry_until_connected("schedules", self.fire_once):
                continue
            if time.monotonic() - self._trimmed_at > TRIM_S:
                await retry_until_connected("schedules", self._trim)
            if await self._subscription.wait(await retry_until_connected("schedules", self._wait_s)):
                self._synced_at = -SYNC_S

    async def plan_once(self) -> int:
        """Extends the plans that need it; returns for how many schedules."""
        async with self._pool.connection() as conn:
            async with conn.cursor(row_factory=class_row(UnplannedSchedule)) as cursor:
                schedules = await (await cursor.execute(query("schedules/to_plan"), {"schedule_id": None})).fetchall()
            for schedule in schedules:
                await self._plan(conn, schedule)
        return len(schedules)

    async def _plan(self, conn: AsyncConnection, schedule: UnplannedSchedule) -> None:
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
        async with self._pool.connection() as conn, conn.transaction():
            claimed = await (await conn.execute("select headrace_internal.claim_schedule(%s)", (STANDBY_S,))).fetchone()
            if claimed is None or claimed[0] is None:
                return False
            try:
                async with conn.transaction():
                    row = await (await conn.execute("select headrace.run_schedule(%s)", claimed)).fetchone()
            except psycopg.Error as error:
                if is_transient(error):
                    raise
                await self._fail(conn, claimed[0], _message(error))
                return True
        self.fired += row[0] if row else 0
        return True

    async def _fail(self, conn: AsyncConnection, schedule_id: int, error: str) -> None:
        self.failures += 1
        logger.warning("schedule %s could not be fired: %s; it will be retried", schedule_id, error)
        await conn.execute(query("schedules/fail"), {"schedule_id": schedule_id, "error": error})

    async def _wait_s(self) -> float:
        wait_s = await fetch_value_async(self._pool, "select headrace_internal.schedule_rest_s(%s)", (STANDBY_S,))
        return WAIT_MAX_S if wait_s is None else min(max(wait_s, WAIT_MIN_S), WAIT_MAX_S)

    async def _sync(self) -> None:
        """Updates the jobs of pg_cron. If it is missing, or our role may not use it, this ticker fires everything."""
        self._synced_at = time.monotonic()
        try:
            await sync_cron_jobs(self._target)
        except (HeadraceError, psycopg.Error) as error:
            logger.warning(
                "the pg_cron jobs of %s could not be updated: %s; nodes fire its schedules", self._target, str(error).strip()
            )

    async def _trim(self) -> None:
        async with self._pool.connection() as conn:
            await conn.execute(query("schedules/trim_ticks"), {"keep": KEEP_TICKS})
        self._trimmed_at = time.monotonic()


def _message(error: psycopg.Error) -> str:
    """The message of an error, without its context."""
    return str(map_error(error) or error.diag.message_primary or error)
