"""Due poll: finds for all consumers of a node what no notification tells them."""

from __future__ import annotations

from functools import partial
from typing import Protocol

from headrace.consume.consumer import Consumer
from headrace.db import Loop, Pool, StopSignal, Subscription

POLL_S, REST_S = 1.0, 10.0
"""Pauses between polls for all consumers: after events or something due, and after a quiet time."""

_DUE = "select topic_id, consumer_id, topics from headrace.due_consumers(%s)"
_TOPICS = "select topic, topic_id from headrace.topic where namespace = headrace.current_namespace(%s)"


class PolledConsumer(Protocol):
    """A consumer that sleeps until it is woken."""

    @property
    def consumer(self) -> Consumer: ...

    @property
    def consumer_id(self) -> int: ...

    @property
    def topic_id(self) -> int: ...

    def wake(self) -> None:
        """Lets it look for events, retries and dead letters to redrive."""

    def check_topic_soon(self) -> None:
        """Lets it register with the topic, if it was dropped and created again."""


class DuePoll:
    """Wakes the consumers of a node that may have something to do, by one statement for all of them on a database, until `stop` is set.

    A consumer sleeps until it is notified. Promises: what no notification says is found within a second while events come, and within ten
    after a quiet time: a retry that becomes due, a dead letter to redrive, a partition whose holder died, a notification that was lost
    with its connection, a topic that was dropped and created again. However many topics and consumers a node has, they cost one
    transaction in ten seconds per namespace while they are idle."""

    def __init__(self, pool: Pool, appended: Subscription, stop: StopSignal, *, name: str = "due consumers") -> None:
        """`appended` is notified when a log has grown."""
        self._pool = pool
        self._stop = stop
        self._name = name
        self.loop = Loop(name, stop, step=self._step, wake_up=appended, pauses_s=(POLL_S, REST_S), is_poll=True, pool=pool)
        self._polls: dict[str | None, Loop] = {}
        """Those of one namespace fail without harm to the others."""
        self._consumers: dict[str | None, list[PolledConsumer]] = {}
        self._topics: dict[str | None, str] = {}
        """What identifies the topics of each namespace, as of the last poll."""

    def add(self, consumer: PolledConsumer) -> None:
        self._consumers.setdefault(consumer.consumer.namespace, []).append(consumer)

    def remove(self, consumer: PolledConsumer) -> None:
        self._consumers[consumer.consumer.namespace].remove(consumer)

    async def _step(self) -> None:
        for namespace in [namespace for namespace, consumers in self._consumers.items() if consumers]:
            if namespace not in self._polls:
                name = f"{self._name} of {namespace or 'the default namespace'}"
                self._polls[namespace] = Loop(name, self._stop, pool=self._pool)
            await self._polls[namespace].attempt(partial(self.poll_once, namespace))

    async def poll_once(self, namespace: str | None) -> None:
        """Wakes the consumers of a namespace that may have something to do."""
        async with self._pool.connection() as conn:
            rows = await (await conn.execute(_DUE, (namespace,))).fetchall()
        topic_ids = {topic_id for topic_id, consumer_id, _ in rows if consumer_id is None}
        consumer_ids = {consumer_id for _, consumer_id, _ in rows}
        for consumer in self._consumers[namespace]:
            if consumer.topic_id in topic_ids or consumer.consumer_id in consumer_ids:
                consumer.wake()
                self.loop.reset_pace()
        [topics] = [topics for _, _, topics in rows if topics is not None]
        if self._topics.get(namespace) != topics:
            await self._compare_topics(namespace)
            self._topics[namespace] = topics

    async def _compare_topics(self, namespace: str | None) -> None:
        async with self._pool.connection() as conn:
            rows = await (await conn.execute(_TOPICS, (namespace,))).fetchall()
        topic_ids: dict[str, int] = dict(rows)
        for consumer in self._consumers[namespace]:
            if topic_ids.get(consumer.consumer.topic) != consumer.topic_id:
                consumer.check_topic_soon()
