"""Sweep: actions that no node handles become dead letters.

Promises: none does because nodes were away for a while, instead of gone. Whoever was away itself (the database was down, the
machine asleep) finds nobody's sign of life fresh, and gives the others the time to give one before it judges."""

from __future__ import annotations

import asyncio
import logging

from headrace.actions import Queue
from headrace.db import retry_until_connected

logger = logging.getLogger(__name__)

SWEEP_S = 2.0
AWAY_S = 30.0
"""So long after its last look it was away. Signs of life come every 30 s and count for 90: a shorter absence loses nobody."""
BACK_S = 60.0
"""By then every node that is back has given a sign of life."""


class Sweep:
    """The sweeping of one node on one database. Time is the database's, which goes on while a machine sleeps."""

    def __init__(self, queue: Queue, *, unhandled_s: float) -> None:
        self._queue = queue
        self._unhandled_s = unhandled_s
        self._looked_s: float | None = None
        self._judges_from_s = 0.0

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_S)
            buried = await retry_until_connected("sweep", self.once)
            if buried:
                logger.warning("%s actions that no node handles are dead letters now", buried)

    async def once(self) -> int:
        """How many were buried."""
        now_s = await self._queue.clock_s()
        if self._looked_s is not None and now_s - self._looked_s > AWAY_S:
            self._judges_from_s = now_s + BACK_S
        self._looked_s = now_s
        return await self._queue.bury_unhandled(self._unhandled_s) if now_s >= self._judges_from_s else 0
