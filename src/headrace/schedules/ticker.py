"""Ticker: the loop of a node that keeps schedules planned and fires what is due.

Owns: one node's share of it. Promises: any number may run; a schedule is fired by one at a time. Where pg_cron fires a
schedule the ticker only stands by, and fires what pg_cron has left lying for STANDBY_S. A schedule that cannot be fired is
marked with its error and tried again; the others go on."""

from __future__ import annotations

import asyncio
import logging
import time

import psycopg
from psycopg.rows import class_row

from headrace.core import HeadraceError, Invalid
from headrace.db import AsyncConnection, Pool, Subscription, Target, is_transient, map_error, query, retry_until_connected
from headrace.schedules.pg_cron import sync_cron_jobs
from headrace.schedules.schedule import Unplanned

logger = logging.getLogger(__name__)

STANDBY_S = 10.0
REST_MIN_S = 0.05
"""Between looks when another node holds what is due."""
REST_MAX_S = 30.0
"""Longest rest without a notification: for one that was lost with a connection."""
SYNC_S = 600.0
"""How often pg_cron's jobs are compared when no schedule has changed."""
TRIM_S = 3600.0

_UNPLANNED = query("schedules/unplanned")
_PLAN = query("schedules/plan")


class Ticker:
    """Plans and fires the schedules of one database until told to stop."""

    def __init__(self, pool: Pool, bell: Subscription, stop: asyncio.Event, target: Target) -> None:
        self._pool = pool
        self._bell = bell
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
            if await self._bell.wait(await retry_until_connected("schedules", self._rest_s)):
                self._synced_at = -SYNC_S

    async def plan_once(self) -> int:
        """Makes the plans longer that need it; returns how many schedules were looked at."""
        async with self._pool.connection() as conn:
            async with conn.cursor(row_factory=class_row(Unplanned)) as cursor:
                found = await (await cursor.execute(_UNPLANNED, {"schedule_id": None})).fetchall()
            for schedule in found:
                await self._plan(conn, schedule)
        return len(found)

    async def _plan(self, conn: AsyncConnection, schedule: Unplanned) -> None:
        try:
            made = await asyncio.to_thread(schedule.plan)
        except Invalid as error:
            logger.warning("schedule %s cannot be planned: %s", schedule.schedule_id, error)
            given = (schedule.schedule_id, schedule.cron, schedule.zone, str(error))
            await conn.execute("select headrace_internal.refuse_schedule(%s, %s, %s, %s)", given)
            return
        await conn.execute(_PLAN, schedule.parameters(made))

    async def fire_once(self) -> bool:
        """Fires the due ticks of one schedule, in one transaction; says whether there was one."""
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
                await self._fail(conn, claimed[0], _told(error))
                return True
        self.fired += row[0] if row else 0
        return True

    async def _fail(self, conn: AsyncConnection, schedule_id: int, error: str) -> None:
        self.failures += 1
        logger.warning("schedule %s could not be fired: %s; it will be tried again", schedule_id, error)
        await conn.execute("select headrace_internal.fail_schedule(%s, %s)", (schedule_id, error))

    async def _rest_s(self) -> float:
        async with self._pool.connection() as conn:
            row = await (await conn.execute("select headrace_internal.schedule_rest_s(%s)", (STANDBY_S,))).fetchone()
        rest_s = row[0] if row else None
        return REST_MAX_S if rest_s is None else min(max(rest_s, REST_MIN_S), REST_MAX_S)

    async def _sync(self) -> None:
        """Brings pg_cron's jobs up to date, where it is. Without it, or without the right to, this ticker fires everything."""
        self._synced_at = time.monotonic()
        try:
            await sync_cron_jobs(self._target)
        except (HeadraceError, psycopg.Error) as error:
            logger.warning("pg_cron does not take the schedules of %s: %s; nodes fire them", self._target, str(error).strip())

    async def _trim(self) -> None:
        async with self._pool.connection() as conn:
            await conn.execute("select headrace_internal.trim_schedule_ticks()")
        self._trimmed_at = time.monotonic()


def _told(error: psycopg.Error) -> str:
    """What went wrong, without the statements it happened in."""
    return str(map_error(error) or error.diag.message_primary or error)
