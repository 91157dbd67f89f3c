"""Failures: batches that the database refuses."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg

from headrace.db import AsyncConnection, is_transient, query
from headrace.definitions.loops import InternalConsumer

logger = logging.getLogger(__name__)


class Failures:
    """Counts them, and keeps them from ending a loop."""

    def __init__(self) -> None:
        self.count = 0

    @asynccontextmanager
    async def recorded(self, conn: AsyncConnection, thing: InternalConsumer) -> AsyncIterator[None]:
        """A batch that is refused in here is tried again, event by event and with growing pauses; the others go on.

        To be entered outside of the batch's transaction. An error that waiting may mend passes: `persist` knows what to do."""
        try:
            yield
        except psycopg.Error as error:
            if is_transient(error):
                raise
            self.count += 1
            given = {"topic_id": thing.topic_id, "consumer_id": thing.consumer_id, "max": thing.batch, "error": str(error)}
            await conn.execute(query("definitions/fail"), given)
            logger.error("%s failed: %s; the batch will be tried again", thing, error)
