"""The process: one thread per topic and database, each with connections of its own.

Promises: topics do not wait for each other; of several processes that run a topic one works and the others stand by; told to
stop, the batches that run are finished. A failure that waiting may mend is tried again with growing pauses, and told."""

from __future__ import annotations

import logging
import os
import platform
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
import stamina

from headrace.core import Conflict, DatabaseUnavailable, Invalid
from headrace.db import Connection, Target, is_transient
from headrace.spark import Access
from headrace.spark.pipeline.snapshots import read_topic
from headrace.spark.pipeline.topic_pipeline import EVENTS_MAX, BatchDone, TopicPipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

IDLE_S = 1.0
"""Longest wait without a notification."""
BEAT_S = 5.0
STAND_BY_S = 1.0
LOST_S = 0.05
"""Pause after a batch that was thrown away: whoever moved in between may not be done yet."""
_LOCK = 0x68727070


@dataclass(frozen=True)
class _Place:
    """What one thread works on."""

    target: Target
    topic: str

    def __str__(self) -> str:
        return f"{self.topic} on {self.target.name}"


class Pipeline:
    """Runs topics on Spark until `stop`, or with `once` until nothing is left to do.

    `tell` hears of every batch, in the thread that did it."""

    def __init__(
        self,
        session: SparkSession,
        topics: Sequence[str],
        *,
        access: Access | None = None,
        namespace: str | None = None,
        events_max: int = EVENTS_MAX,
        once: bool = False,
        tell: Callable[[BatchDone], None] | None = None,
    ) -> None:
        if not topics:
            raise Invalid("a pipeline needs at least one topic")
        if events_max < 1:
            raise Invalid(f"a batch of {events_max} events never ends; give at least 1")
        self._session = session
        self._access = access or Access()
        self._namespace = namespace
        self._events_max = events_max
        self._once = once
        self._tell = tell or (lambda _: None)
        self._stop = threading.Event()
        self._errors: list[BaseException] = []
        self._places = [_Place(target, topic) for target in self._access.targets() for topic in dict.fromkeys(topics)]

    def stop(self) -> None:
        """Ends it after the batches that run."""
        self._stop.set()

    def run(self) -> None:
        """Runs until told to stop; raises what no waiting mends, such as a topic that is not there."""
        threads = [threading.Thread(target=self._guarded, args=(place,), name=str(place)) for place in self._places]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                # In pieces, so that a signal's handler gets its turn in the main thread.
                thread.join(0.2)
        if self._errors:
            raise self._errors[0]

    def _guarded(self, place: _Place) -> None:
        try:
            for attempt in stamina.retry_context(
                on=self._mends, attempts=5 if self._once else None, timeout=None, wait_initial=0.1, wait_max=5, wait_jitter=0.5
            ):
                with attempt:
                    if not self._stop.is_set():
                        self._serve(place)
        except Exception as error:  # noqa: BLE001 - it is raised again by run
            self._errors.append(error)
            self._stop.set()

    def _mends(self, error: Exception) -> bool:
        """Whether to try again: the database is away, or a job of Spark's failed, which may come from the same."""
        again = isinstance(error, (DatabaseUnavailable, *_failed_jobs())) or is_transient(error)
        if again:
            logger.warning("%s: %s; trying again", threading.current_thread().name, str(error).strip().partition("\n")[0])
        return again

    def _serve(self, place: _Place) -> None:
        with ExitStack() as stack:
            conn = stack.enter_context(self._access.connect(place.target))
            ears = stack.enter_context(self._access.connect(place.target))
            ears.execute("listen headrace_log")
            one = TopicPipeline(
                self._session, self._access, conn, place.topic,
                shard=place.target.name, namespace=self._namespace, events_max=self._events_max,
            )  # fmt: skip
            stack.callback(one.close)
            if not self._take_turn(conn, one):
                return
            _Turn(self, one, conn, ears).run()

    def _take_turn(self, conn: Connection, one: TopicPipeline) -> bool:
        """Waits until no other process runs the topic. The right ends with the connection."""
        while not self._stop.is_set():
            row = conn.execute("select pg_try_advisory_lock(%s, %s)", (_LOCK, one.topic_id)).fetchone()
            if row is not None and row[0]:
                return True
            if self._once:
                raise Conflict(f"another pipeline runs topic {one.topic!r}; headrace pipeline list shows where")
            self._stop.wait(STAND_BY_S)
        return False


def _failed_jobs() -> tuple[type[Exception], ...]:
    """What Spark raises for a job: errors of its own, and those of its JVM that it has no name for. With Spark Connect there is
    no JVM on this side, and perhaps no py4j. A JVM that is gone raises another error, which no waiting mends."""
    from pyspark.errors import PySparkException

    try:
        from py4j.protocol import Py4JJavaError
    except ImportError:
        return (PySparkException,)
    return (PySparkException, Py4JJavaError)


class _Turn:
    """A thread's turn on a topic: batches, timers, rest."""

    def __init__(self, owner: Pipeline, one: TopicPipeline, conn: Connection, ears: Connection) -> None:
        self._owner = owner
        self._one = one
        self._conn = conn
        self._ears = ears
        self._beaten = 0.0

    def run(self) -> None:
        owner, one = self._owner, self._one
        if owner._once and read_topic(self._conn, one.topic, owner._namespace).engine != "spark":
            raise Conflict(f"topic {one.topic!r} runs in the database; move it first: headrace topic engine {one.topic} spark")
        master = owner._session.conf.get("spark.master", "") or ""
        begun = (one.topic_id, one.run_id, f"{platform.node()}:{os.getpid()}", master)
        self._conn.execute("select headrace_internal.begin_pipeline(%s, %s, %s, %s)", begun)
        try:
            while not owner._stop.is_set():
                if not self._work() and (owner._once or not self._rest()):
                    break
            self._beat(None, stopped=True)
        except Exception as error:
            if not self._conn.broken:
                self._beat(str(error))
            raise

    def _work(self) -> bool:
        """One batch, and the timers that are due; False when there was nothing to do."""
        worked = False
        for step in (self._one.step, self._one.tick):
            done = step()
            if done is None:
                continue
            worked = True
            if done.events or done.timers:
                self._owner._tell(done)
            else:
                time.sleep(LOST_S)
        return worked

    def _rest(self) -> bool:
        """Until there is something new, a timer is due, or a second has passed."""
        if time.monotonic() - self._beaten > BEAT_S:
            self._beat(None)
        due_s = self._one.next_due_s()
        rest_s = IDLE_S if due_s is None else min(max(due_s, 0.02), IDLE_S)
        for _ in self._ears.notifies(timeout=rest_s, stop_after=1):
            pass
        return True

    def _beat(self, error: str | None, *, stopped: bool = False) -> None:
        self._beaten = time.monotonic()
        given = (self._one.topic_id, self._one.run_id, error, stopped)
        try:
            self._conn.execute("select headrace_internal.beat_pipeline(%s, %s, %s, %s)", given)
        except psycopg.OperationalError:
            # Whoever reads the row sees it by its heartbeat.
            logger.warning("%s: the sign of life was not written", self._one.topic)
