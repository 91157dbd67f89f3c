"""Keeper: makes the leases of running handlers longer.

Owns: what this node holds. Promises: while a handler runs and the node lives, its lease does not end; a lease that is lost all
the same is told, and the fence refuses the ack."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from headrace.actions.action import Claim
from headrace.actions.queue import Queue
from headrace.db import retry_until_connected

logger = logging.getLogger(__name__)


class LeaseExtender:
    """Extends every third of a lease what has been held for longer than that."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._held: dict[int, tuple[float, Sequence[Claim]]] = {}
        self._number = 0

    @contextmanager
    def holding(self, claims: Sequence[Claim]) -> Iterator[None]:
        """The claims are held while the block runs."""
        self._number += 1
        number = self._number
        self._held[number] = (time.monotonic(), claims)
        try:
            yield
        finally:
            del self._held[number]

    async def run(self) -> None:
        """Extends until cancelled."""
        third_s = self._queue.lease_s / 3
        while True:
            await asyncio.sleep(third_s)
            await retry_until_connected("leases", partial(self.extend, older_s=third_s))

    async def extend(self, *, older_s: float = 0) -> int:
        """Extends what has been held for so long; returns how many leases."""
        now = time.monotonic()
        due = [claim for since, claims in self._held.values() if now - since >= older_s for claim in claims]
        if not due:
            return 0
        held = await self._queue.extend(due)
        if held < len(due):
            logger.warning(
                "%s of %s leases were not made longer: being acked, or lost to another node", len(due) - held, len(due)
            )
        return held
