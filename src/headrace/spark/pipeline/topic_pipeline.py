"""One topic on one database: batches of events and timers, each of them one transaction.

Spark computes first, without any lock: which rules fire where, and how correlators see the events. Then, with the cursors in
hand, the batch looks whether all still stands as it was; if so, everything is written and the cursors move, else the work is
thrown away. So nothing is held while Spark works, and nothing is done twice."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import psycopg

from headrace.core import UnknownTopic
from headrace.db import Connection, is_transient, map_database_errors, query
from headrace.spark import Access, CorrelatorSpec
from headrace.spark.pipeline.computing import Computed, Computing, Part
from headrace.spark.pipeline.halving import Halving
from headrace.spark.pipeline.snapshots import ActiveVersions, ConsumerSnapshot, read_standings, read_topic
from headrace.spark.pipeline.timers import fire_timers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

EVENTS_MAX = 500_000
"""Events of one batch: a key's state is written once per batch, so larger ones cost less; all of them pass through the driver."""


@dataclass(frozen=True, kw_only=True)
class BatchDone:
    """What one batch did: the events after a position, up to another, or timers alone. Nothing, when it was thrown away because
    something else had moved meanwhile."""

    shard: str
    topic: str
    from_position: int
    upto: int
    firings: int = 0
    outputs: int = 0
    timers: int = 0
    took_s: float = 0.0
    lag_events: int = 0
    """What is in the log behind it."""

    @property
    def events(self) -> int:
        return self.upto - self.from_position


class TopicPipeline:
    """Runs a topic's rules and correlators on Spark, batch by batch, over a connection of its own in autocommit mode."""

    def __init__(
        self,
        session: SparkSession,
        access: Access,
        conn: Connection,
        topic: str,
        *,
        shard: str,
        namespace: str | None = None,
        events_max: int = EVENTS_MAX,
    ) -> None:
        self._conn = conn
        self._namespace = namespace
        self._events_max = events_max
        self.topic = topic
        self.shard = shard
        self.run_id: UUID = uuid4()
        with map_database_errors():
            self.topic_id = read_topic(conn, topic, namespace).topic_id
        self._in_force = ActiveVersions(self.topic_id)
        self._computing = Computing(session, access, shard=shard, topic=topic, topic_id=self.topic_id, events_max=events_max)
        self._halving = Halving(events_max)
        self._passed_at: datetime | None = None

    def close(self) -> None:
        """Waits for what Spark is still at."""
        self._computing.close()

    def step(self) -> BatchDone | None:
        """One batch of events; None when nothing is due, or the topic runs in the database."""
        began = time.perf_counter()
        found = read_topic(self._conn, self.topic, self._namespace)
        if found.topic_id != self.topic_id:
            raise UnknownTopic(f"topic {self.topic!r} was dropped and made anew; start the pipeline again")
        parts = self._parts(found.head) if found.engine == "spark" else []
        if not parts:
            return None
        return self._commit(parts, self._computing.take(parts, found.head), found.head, began)

    def tick(self) -> BatchDone | None:
        """Timers that are due though no event of their key has come; None when there are none.

        Those due by the last event that was passed may fire at once: no event to come is earlier. When all events are passed
        the time of the topic is fixed, and those due by now fire."""
        for standing in read_standings(self._conn, self.topic_id):
            if standing.correlator_id is not None and standing.ready and not standing.simple:
                spec = self._in_force.correlator(self._conn, standing)
                done = self._tick(standing, spec) if spec is not None else None
                if done is not None:
                    return done
        return None

    def next_due_s(self) -> float | None:
        """How long until the next timer is due."""
        row = self._conn.execute(query("spark/pipeline/next_due_s"), {"topic_id": self.topic_id}).fetchone()
        return None if row is None or row[0] is None else float(row[0])

    def _parts(self, head: int) -> list[Part]:
        due = [one for one in read_standings(self._conn, self.topic_id) if one.ready and one.position < head]
        if not due:
            return []
        upto = min(head, min(one.position for one in due) + self._events_max)
        parts: list[Part] = []
        for one in due:
            own = min(upto, one.position + self._halving.limit(one))
            if own <= one.position:
                continue
            if one.correlator_id is None:
                parts.append(Part(one, own, rules=self._in_force.rules(self._conn, one)))
            elif (spec := self._in_force.correlator(self._conn, one)) is not None:
                parts.append(Part(one, own, correlator=spec))
        return parts

    def _commit(self, parts: Sequence[Part], computed: Sequence[Computed], head: int, began: float) -> BatchDone:
        first = min(part.standing.position for part in parts)
        ends: list[int] = []
        failed: list[tuple[Part, str]] = []
        firings = outputs = 0
        with map_database_errors(), self._conn.transaction():
            standing = self._held([part.standing for part in parts])
            for one in computed:
                if one.part.standing not in standing:
                    continue
                try:
                    with self._conn.transaction():
                        fired, pushed, came_to = self._write(one)
                except psycopg.Error as error:
                    if is_transient(error) or self._conn.broken:
                        raise
                    failed.append((one.part, str(error)))
                    continue
                firings, outputs = firings + fired, outputs + pushed
                ends.append(came_to)
                self._halving.succeeded(one.part)
            # A consumer may stand further back than the others when it failed; the batch came as far as any of them.
            upto = max(ends, default=first)
            done = self._done(first, upto, began, firings=firings, outputs=outputs, lag_events=head - upto)
            if ends:
                self._record(done)
        for part, text in failed:
            self._fail(part, text)
        if upto > first:
            self._passed_at = self._time_of(min(ends))
        return replace(done, took_s=time.perf_counter() - began)

    def _held(self, planned: Sequence[ConsumerSnapshot]) -> list[ConsumerSnapshot]:
        """Those that nobody else has, on this engine, as they stand now that their cursors are held."""
        given = {"consumer_ids": [one.consumer_id for one in planned]}
        held = {row[0] for row in self._conn.execute(query("spark/pipeline/hold"), given).fetchall()}
        # Looked at with the cursors in hand: who moves a topic to another engine holds them as well.
        if read_topic(self._conn, self.topic, self._namespace).engine != "spark":
            return []
        return [one for one in read_standings(self._conn, self.topic_id) if one.consumer_id in held]

    def _write(self, done: Computed) -> tuple[int, int, int]:
        """A consumer's share, in a transaction: firings, outputs, and how far it came."""
        conn, part, standing = self._conn, done.part, done.part.standing
        firings = outputs = 0
        came_to: int | None = None
        if standing.correlator_id is None:
            if done.hits[0]:
                row = conn.execute("select headrace_internal.fire_rules(%s, %s, %s)", (self.topic_id, *done.hits)).fetchone()
                firings = int(row[0]) if row else 0
            conn.execute("select headrace_internal.place_firings(%s, %s)", (self.topic_id, part.upto))
        elif done.micro is not None:
            from headrace.spark.pipeline.correlations import keep_micro_batch

            outputs, came_to = keep_micro_batch(conn, standing.correlator_id, standing.version_id, done.micro)
        upto = part.upto if came_to is None else came_to
        if upto > standing.position:
            conn.execute("select headrace.advance(%s, -1, %s)", (standing.consumer_id, upto))
        return firings, outputs, upto

    def _tick(self, standing: ConsumerSnapshot, spec: CorrelatorSpec) -> BatchDone | None:
        began = time.perf_counter()
        conn = self._conn
        assert standing.correlator_id is not None
        with map_database_errors():
            for settled in (self._passed_at, None):
                given = {"correlator_id": standing.correlator_id, "settled": settled}
                if conn.execute(query("spark/pipeline/any_due"), given).fetchone() is None:
                    continue
                if settled is None:
                    # In a transaction of its own: the sequencer must not wait for the firing.
                    row = conn.execute("select headrace_internal.settle_time(%s)", (self.topic_id,)).fetchone()
                    settled = row[0] if row else None
                if settled is None:
                    continue
                with conn.transaction():
                    fired = fire_timers(conn, standing.correlator_id, standing.version_id, spec, settled)
                    if fired is None:
                        continue
                    at = standing.position
                    done = self._done(at, at, began, outputs=fired.outputs, timers=fired.keys)
                    self._record(done)
                return replace(done, took_s=time.perf_counter() - began)
        return None

    def _done(self, first: int, upto: int, began: float, **counts: int) -> BatchDone:
        took_s = time.perf_counter() - began
        return BatchDone(shard=self.shard, topic=self.topic, from_position=first, upto=upto, took_s=took_s, **counts)

    def _record(self, done: BatchDone) -> None:
        """Writes a batch into the ledger, in its own transaction."""
        given = {
            "topic_id": self.topic_id, "run_id": self.run_id, "from_position": done.from_position, "upto": done.upto,
            "firings": done.firings, "outputs": done.outputs, "timers": done.timers, "took_ms": 1000 * done.took_s,
        }  # fmt: skip
        self._conn.execute(query("spark/pipeline/record"), given)

    def _time_of(self, position: int) -> datetime | None:
        row = self._conn.execute(query("spark/pipeline/passed_at"), {"topic_id": self.topic_id, "position": position}).fetchone()
        return row[0] if row else None

    def _fail(self, part: Part, error: str) -> None:
        """A batch that the database refuses is halved until the event at fault is alone; that one is tried again with growing
        pauses. The other consumers go on."""
        consumer_id, first_line = part.standing.consumer_id, error.partition("\n")[0]
        logger.error("consumer %s of %s: %s events failed: %s", consumer_id, self.topic, part.events, first_line)
        if self._halving.failed(part):
            given = {"consumer_id": consumer_id, "position": part.standing.position, "error": error}
            self._conn.execute(query("spark/pipeline/fail"), given)
