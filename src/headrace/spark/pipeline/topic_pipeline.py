"""One topic on one database: batches of events and of timers, each of them one transaction.

Spark computes first, without any lock: which rules fire, and how correlators classify the events. Then the batch locks the
cursors and checks that nothing has changed meanwhile; if so, it writes everything and moves the cursors, else it discards the
work. So nothing is locked while Spark works, and nothing is done twice."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, LiteralString
from uuid import UUID, uuid4

import psycopg

from headrace.core import UnknownTopic
from headrace.db import Connection, is_transient, map_database_errors, query
from headrace.evaluate import CorrelatorSpec
from headrace.spark.credentials import Access
from headrace.spark.pipeline.computation import BatchComputer, BatchLimits, Computed, Part
from headrace.spark.pipeline.topics import ActiveVersions, ConsumerSnapshot, read_snapshots, read_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.evaluate import WarmStates

logger = logging.getLogger(__name__)

EVENTS_MAX = 500_000
"""Events of one batch: a key's state is written once per batch, so larger batches cost less; all of it passes the driver."""


@dataclass(frozen=True, kw_only=True)
class BatchDone:
    """The result of one batch: the events after `from_position` up to `upto`, or timers alone. It is empty if the batch was
    discarded because something else had moved meanwhile. `lag_events` are left in the log."""

    shard: str
    topic: str
    from_position: int
    upto: int
    firings: int = 0
    outputs: int = 0
    timers: int = 0
    took_s: float = 0.0
    lag_events: int = 0

    @property
    def events(self) -> int:
        return self.upto - self.from_position


class TopicPipeline:
    """Runs a topic's rules and correlators on Spark, batch by batch, over its own connection in autocommit mode."""

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
        self._versions = ActiveVersions(self.topic_id)
        self._computer = BatchComputer(session, access, shard=shard, topic=topic, topic_id=self.topic_id, events_max=events_max)
        self._limits = BatchLimits(events_max)
        self._passed_at: datetime | None = None
        self._warm: dict[int, WarmStates] = {}

    def close(self) -> None:
        """Waits for the running Spark job."""
        self._computer.close()

    def step(self) -> BatchDone | None:
        """Runs one batch of events; None if there is nothing to do, or the topic runs in the database."""
        started = time.perf_counter()
        topic = read_topic(self._conn, self.topic, self._namespace)
        if topic.topic_id != self.topic_id:
            raise UnknownTopic(f"topic {self.topic!r} was dropped and created again; restart the pipeline")
        parts = self._parts(topic.head) if topic.engine == "spark" else []
        if not parts:
            return None
        return self._commit(parts, self._computer.take(parts, topic.head), topic.head, started)

    def tick(self) -> BatchDone | None:
        """Fires timers that are due although no event of their key has come; None if there are none.

        Timers due by the last handled event fire at once: no later event is earlier. Once all events are handled, the time of
        the topic is settled, and those due by then fire."""
        for snapshot in read_snapshots(self._conn, self.topic_id):
            if snapshot.correlator_id is not None and snapshot.ready and not snapshot.simple:
                spec = self._versions.correlator(self._conn, snapshot)
                done = self._fire_timers(snapshot, snapshot.correlator_id, spec) if spec is not None else None
                if done is not None:
                    return done
        return None

    def next_due_s(self) -> float | None:
        """Seconds until the next timer is due; None if no timer waits for the clock."""
        due_s: float | None = self._value(query("spark/next_due_s"), {"topic_id": self.topic_id})
        return due_s

    def _parts(self, head: int) -> list[Part]:
        due = [snapshot for snapshot in read_snapshots(self._conn, self.topic_id) if snapshot.ready and snapshot.position < head]
        batch_end = min(head, min((snapshot.position for snapshot in due), default=head) + self._events_max)
        parts: list[Part] = []
        for snapshot in due:
            upto = min(batch_end, snapshot.position + self._limits.limit(snapshot))
            if upto <= snapshot.position:
                continue
            if snapshot.correlator_id is None:
                parts.append(Part(snapshot, upto, rules=self._versions.rules(self._conn, snapshot.version_id)))
            elif (spec := self._versions.correlator(self._conn, snapshot)) is not None:
                parts.append(Part(snapshot, upto, correlator=spec))
        return parts

    def _commit(self, parts: Sequence[Part], computed: Sequence[Computed], head: int, started: float) -> BatchDone:
        first = min(part.snapshot.position for part in parts)
        ends: list[int] = []
        failures: list[tuple[Part, str]] = []
        firings = outputs = 0
        with map_database_errors(), self._conn.transaction():
            unchanged = self._lock_cursors([part.snapshot for part in parts])
            for result in computed:
                if result.part.snapshot not in unchanged:
                    continue
                try:
                    with self._conn.transaction():
                        part_firings, part_outputs, end = self._write(result)
                except psycopg.Error as error:
                    if is_transient(error) or self._conn.broken:
                        raise
                    failures.append((result.part, str(error)))
                    continue
                firings, outputs = firings + part_firings, outputs + part_outputs
                ends.append(end)
                self._limits.record_success(result.part)
            # A consumer that failed may be further back; the batch ends where the first of them is.
            upto = max(ends, default=first)
            done = self._done(first, upto, started, firings=firings, outputs=outputs, lag_events=head - upto)
            if ends:
                self._record(done)
        for part, text in failures:
            self._fail(part, text)
        if upto > first:
            position = {"topic_id": self.topic_id, "position": min(ends)}
            self._passed_at = self._value(query("log/appended_at"), position)
        return replace(done, took_s=time.perf_counter() - started)

    def _lock_cursors(self, snapshots: Sequence[ConsumerSnapshot]) -> list[ConsumerSnapshot]:
        """Locks the cursors that no other session holds, and reads their consumers again."""
        parameters = {"consumer_ids": [snapshot.consumer_id for snapshot in snapshots]}
        locked = {row[0] for row in self._conn.execute(query("spark/lock_cursors"), parameters).fetchall()}
        # Read after locking: moving a topic to another engine locks the cursors too.
        if read_topic(self._conn, self.topic, self._namespace).engine != "spark":
            return []
        return [snapshot for snapshot in read_snapshots(self._conn, self.topic_id) if snapshot.consumer_id in locked]

    def _write(self, result: Computed) -> tuple[int, int, int]:
        """Writes a consumer's part in a transaction. Returns firings, outputs, and the last handled position."""
        conn, part, snapshot = self._conn, result.part, result.part.snapshot
        firings = outputs = 0
        end: int | None = None
        if snapshot.correlator_id is None:
            if result.positions:
                statement: LiteralString = (
                    "select headrace_internal.fire_rules(p_topic_id => %s, p_version_ids => %s, p_positions => %s)"
                )
                firings = self._value(statement, (self.topic_id, result.version_ids, result.positions))
            conn.execute("select headrace_internal.place_firings(p_topic_id => %s, p_upto => %s)", (self.topic_id, part.upto))
        elif result.micro_batch is not None:
            from headrace.evaluate import WarmStates
            from headrace.spark.pipeline.stepping import step_micro_batch

            correlator_id = snapshot.correlator_id
            warm = self._warm.setdefault(correlator_id, WarmStates())
            outputs, end = step_micro_batch(conn, correlator_id, snapshot, result.micro_batch, warm, part.upto)
        upto = part.upto if end is None else end
        if upto > snapshot.position:
            advance: LiteralString = "select headrace.advance(p_consumer_id => %s, p_partition => -1, p_position => %s)"
            conn.execute(advance, (snapshot.consumer_id, upto))
        return firings, outputs, upto

    def _fire_timers(self, snapshot: ConsumerSnapshot, correlator_id: int, spec: CorrelatorSpec) -> BatchDone | None:
        from headrace.spark.pipeline.stepping import fire_timers

        started = time.perf_counter()
        with map_database_errors():
            for settled in (self._passed_at, None):
                parameters = {"topic_id": self.topic_id, "correlator_id": correlator_id, "settled": settled}
                if self._value(query("spark/any_due"), parameters) is None:
                    continue
                if settled is None:
                    # Use its own transaction: the sequencer must not wait until the timers have fired.
                    settled = self._value("select headrace_internal.settle_time(p_topic_id => %s)", (self.topic_id,))
                if settled is None:
                    continue
                with self._conn.transaction():
                    keys, outputs = fire_timers(self._conn, correlator_id, snapshot.version_id, spec, settled)
                    if not keys:
                        continue
                    done = self._done(snapshot.position, snapshot.position, started, outputs=outputs, timers=keys)
                    self._record(done)
                return replace(done, took_s=time.perf_counter() - started)
        return None

    def _done(self, first: int, upto: int, started: float, **counts: int) -> BatchDone:
        took_s = time.perf_counter() - started
        return BatchDone(shard=self.shard, topic=self.topic, from_position=first, upto=upto, took_s=took_s, **counts)

    def _record(self, done: BatchDone) -> None:
        """Writes a batch into the ledger, in the batch's transaction."""
        place, counts = (done.from_position, done.upto), (done.firings, done.outputs, done.timers)
        self._conn.execute(
            "select headrace_internal.record_pipeline_batch(p_topic_id => %s, p_run_id => %s, p_from_position => %s, p_upto => %s,"
            " p_firings => %s, p_outputs => %s, p_timers => %s, p_took_ms => %s)",
            (self.topic_id, self.run_id, *place, *counts, 1000 * done.took_s),
        )

    def _fail(self, part: Part, error: str) -> None:
        """Halves a batch that the database rejects until the failing event is alone, which is then retried with growing pauses.
        The other consumers go on."""
        consumer_id, position, first_line = part.snapshot.consumer_id, part.snapshot.position, error.partition("\n")[0]
        logger.error("consumer %s of %s: %s events failed: %s", consumer_id, self.topic, part.events, first_line)
        if self._limits.record_failure(part):
            self._conn.execute(
                "select headrace.fail(p_consumer_id => %s, p_partition => -1, p_position => %s, p_upto => %s, p_events => 1,"
                " p_error => %s)",
                (consumer_id, position, position + 1, error),
            )

    def _value(self, statement: LiteralString, parameters: Mapping[str, object] | Sequence[object]) -> Any:
        """The first column of the first row; None if there is no row."""
        row = self._conn.execute(statement, parameters).fetchone()
        return None if row is None else row[0]
