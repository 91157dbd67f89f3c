"""Listener: one connection that receives NOTIFY for all loops of a process.

Promises: a subscriber wakes up when its channel is notified, and after every (re)connection, since a notification may have been
missed before it. A notification carries no data that could be lost: whoever wakes up looks into the tables.
A loop of this process that has notified others in its own transaction may wake its neighbours itself after the commit, which is earlier
than the server's message; that message is then ignored here."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TypeVar

import psycopg
import psycopg.sql

from headrace.db.connections import AsyncConnection, Target
from headrace.db.loops import Loop, Subscription
from headrace.db.pools import connect_loop

logger = logging.getLogger(__name__)

RECONNECT_S = 0.1
"""Pause after a lost connection, so that one that is lost at once does not make a busy loop."""

DELIVERED_MAX = 1000
"""Notifications remembered as delivered. Behind a pooler the server's messages come from other backends and never take them away."""
NAME_CHARS_MAX = 64
"""Length of a name in a notification: any role may send any name."""

SubscriptionType = TypeVar("SubscriptionType", bound=Subscription)


class Listener:
    """LISTENs for its subscriptions. The payload `a,b` wakes the subscribers with filter `a` or `b`, an empty payload all."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._subscriptions: list[Subscription] = []
        self._loop = Loop(f"listener of {target}", step=self._listen)
        self._delivered: Counter[tuple[int, str, str]] = Counter()
        """Notifications that have woken their subscribers before the server's message came, by backend, channel and payload."""
        self._held: dict[int, list[psycopg.Notify]] = {}
        """Messages of backends whose transaction may have committed and not delivered yet."""

    def subscribe(self, channel: str) -> Subscription:
        """Subscribes to a channel. Call it before `run`; later only for a channel that has a subscription already."""
        return self.add(Subscription(channel))

    def add(self, subscription: SubscriptionType) -> SubscriptionType:
        """Adds a subscription; see `subscribe`. Subscriptions are notified in the order in which they were added."""
        self._subscriptions.append(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Ends a subscription."""
        self._subscriptions.remove(subscription)

    def notify_all(self) -> None:
        """Wakes every subscriber."""
        for subscription in self._subscriptions:
            subscription.notify()

    def deliver(self, channel: str, payload: str, *, backend_pid: int, but_not: Collection[Subscription] = ()) -> None:
        """Wakes the subscribers of a notification that a transaction of this process has just committed, `but_not` those that know."""
        self._notify(channel, payload, but_not)
        if len(self._delivered) >= DELIVERED_MAX:
            self._delivered.clear()
        self._delivered[backend_pid, channel, payload] += 1

    @contextmanager
    def holding(self, backend_pid: int) -> Iterator[None]:
        """Holds back the server's messages from a backend until the end of the block, in which its transaction commits and is delivered: the
        message may come before the answer is read."""
        held = self._held[backend_pid] = []
        try:
            yield
        finally:
            del self._held[backend_pid]
            for notification in held:
                self._receive(notification)

    async def run(self) -> None:
        """Listens until cancelled, and connects again after a lost connection."""
        await self._loop.run()

    async def _listen(self) -> float:
        conn = await self._loop.retry(self._connect)
        assert conn is not None, "only a stop signal ends the wait, and this loop has none"
        try:
            self._delivered.clear()
            self.notify_all()
            async for notification in conn.notifies():
                self._receive(notification)
        except psycopg.Error as error:
            logger.warning("listener of %s lost its connection: %s", self._target, error)
        finally:
            await conn.close()
        return RECONNECT_S

    async def _connect(self) -> AsyncConnection:
        conn = await connect_loop(self._target)
        try:
            for channel in {subscription.channel for subscription in self._subscriptions}:
                await conn.execute(psycopg.sql.SQL("listen {}").format(psycopg.sql.Identifier(channel)))
        except BaseException:
            await conn.close()
            raise
        return conn

    def _receive(self, notification: psycopg.Notify) -> None:
        if (held := self._held.get(notification.pid)) is not None:
            held.append(notification)
            return
        key = (notification.pid, notification.channel, notification.payload)
        if self._delivered[key] > 1:
            self._delivered[key] -= 1
        elif self._delivered.pop(key, 0) == 0:
            self._notify(notification.channel, notification.payload)

    def _notify(self, channel: str, payload: str, but_not: Collection[Subscription] = ()) -> None:
        # Every role may notify, with whatever payload: names mean only what they are compared with.
        names = [name for name in payload.split(",") if len(name) <= NAME_CHARS_MAX] if payload else []
        if payload and not names:
            return
        for subscription in self._subscriptions:
            if (
                subscription.channel == channel
                and subscription not in but_not
                and (not names or not subscription.filter or subscription.filter in names)
            ):
                subscription.notify(names)
