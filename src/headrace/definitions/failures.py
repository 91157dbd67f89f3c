"""Failures: batches that the database rejects."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg

from headrace.db import AsyncConnection, is_transient, query
from headrace.definitions.loops import InternalConsumer

logger = logging.getLogger(__name__)


class Failures:
    """Counts failed batches, and keeps them from ending a loop."""

    def __init__(self) -> None:
        self.count = 0

    @asynccontextmanager
    async def recorded(self, conn: AsyncConnection, consumer: InternalConsumer) -> AsyncIterator[None]:
        """A batch that fails in here is tried again, event by event and with growing pauses; other consumers go on.

        Enter it outside of the batch's transaction. A transient error passes: `retry_until_connected` handles it."""
        try:
            yield
        except psycopg.Error as error:
            if is_transient(error):
                raise
            self.count += 1
            parameters = {
                "topic_id": consumer.topic_id,
                "consumer_id": consumer.consumer_id,
                "max": consumer.batch,
                "error": str(error),
            }
            await conn.execute(query("definitions/fail"), parameters)
            logger.error("%s failed: %s; the batch will be tried again", consumer, error)
