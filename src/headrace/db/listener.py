"""Listener: one connection that hears NOTIFY for all loops of a process.

Promises: a subscriber wakes up when its channel was notified, and after every (re)connection, since what happened before
was not heard. It never carries data one could lose: who wakes up looks into the tables."""

from __future__ import annotations

import asyncio
import logging

import psycopg
import psycopg.sql

from headrace.db.connections import AsyncConnection, Target, connect_async
from headrace.db.retry import is_transient, retry_until_connected

logger = logging.getLogger(__name__)


class Subscription:
    """The ear of one loop, or of several that share the work, on a channel; with a `word`, only for payloads that contain it.

    A ring wakes one waiter. Who finds work rings again, so that as many wake up as there is work for."""

    def __init__(self, channel: str) -> None:
        self.channel = channel
        self.word: str | None = None
        self._rung: asyncio.Queue[None] = asyncio.Queue(maxsize=1)

    def ring(self) -> None:
        if not self._rung.full():
            self._rung.put_nowait(None)

    async def wait(self, timeout_s: float) -> bool:
        """Waits for a notification, at most so long; says whether there was one."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._rung.get()
        except TimeoutError:
            return False
        return True


class Listener:
    """LISTENs on behalf of subscriptions. A channel's payload `a,b` wakes the subscribers of `a` and of `b`; an empty one all."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._subscriptions: list[Subscription] = []

    def subscribe(self, channel: str) -> Subscription:
        """An ear for a channel. Before `run`."""
        subscription = Subscription(channel)
        self._subscriptions.append(subscription)
        return subscription

    async def run(self) -> None:
        """Listens until cancelled; a lost connection is made again."""
        while True:
            conn = await retry_until_connected(f"listener of {self._target}", self._listen)
            try:
                await self._hear(conn)
            except psycopg.Error as error:
                if not is_transient(error):
                    raise
                logger.warning("listener of %s lost its connection: %s", self._target, error)
            finally:
                await conn.close()

    async def _listen(self) -> AsyncConnection:
        conn = await connect_async(self._target)
        try:
            for channel in {subscription.channel for subscription in self._subscriptions}:
                await conn.execute(psycopg.sql.SQL("listen {}").format(psycopg.sql.Identifier(channel)))
        except BaseException:
            await conn.close()
            raise
        return conn

    async def _hear(self, conn: AsyncConnection) -> None:
        self._ring_all()
        async for notification in conn.notifies():
            self._ring(notification.channel, notification.payload)

    def _ring(self, channel: str, payload: str) -> None:
        words = set(payload.split(",")) if payload else None
        for subscription in self._subscriptions:
            if subscription.channel == channel and (not words or not subscription.word or subscription.word in words):
                subscription.ring()

    def _ring_all(self) -> None:
        for subscription in self._subscriptions:
            subscription.ring()
