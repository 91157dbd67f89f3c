"""The runner: one thread per topic and database, each with its own connections.

Promises: topics do not wait for each other; of several processes that run a topic one works and the others stand by; after a
stop, running batches are finished. A failure that may pass is logged and retried with growing pauses."""

from __future__ import annotations

import logging
import os
import platform
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import psycopg
from tenacity import Retrying, retry_if_exception, stop_after_attempt, stop_never, wait_exponential, wait_random

from headrace.core import Conflict, DatabaseUnavailable, Invalid
from headrace.db import Connection, Target, is_transient, require_sessions
from headrace.spark.credentials import Access
from headrace.spark.pipeline.topic_pipeline import EVENTS_MAX, BatchDone, TopicPipeline
from headrace.spark.pipeline.topics import read_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

IDLE_S = 1.0
"""Longest wait without a notification."""
PAUSE_MIN_S = 0.02
"""Shortest wait: a timer that is due may not fire yet."""
HEARTBEAT_S = 5.0
STAND_BY_S = 1.0
DISCARDED_S = 0.05
"""Pause after a discarded batch: whoever moved in between may not be done yet."""


def pause_s(next_due_s: float | None) -> float:
    """How long an idle topic waits for a notification, so that its next timer fires in time."""
    return IDLE_S if next_due_s is None else min(max(next_due_s, PAUSE_MIN_S), IDLE_S)


class Pipeline:
    """Runs topics on Spark until `stop`, or with `once` until nothing is left to do.

    `on_batch` is called with every batch, in the thread that ran it."""

    def __init__(
        self,
        session: SparkSession,
        topics: Sequence[str],
        *,
        access: Access | None = None,
        namespace: str | None = None,
        events_max: int = EVENTS_MAX,
        once: bool = False,
        on_batch: Callable[[BatchDone], None] | None = None,
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
        self._on_batch = on_batch or (lambda _: None)
        self._stop = threading.Event()
        self._errors: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._run_thread, args=(target, topic), name=f"{topic} on {target.name}")
            for target in self._access.targets()
            for topic in dict.fromkeys(topics)
        ]

    def stop(self) -> None:
        """Stops after the running batches."""
        self._stop.set()

    def run(self) -> None:
        """Runs until stopped; raises a permanent error, such as an unknown topic."""
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            while thread.is_alive():
                # In short joins, so that signal handlers get their turn in the main thread.
                thread.join(0.2)
        if self._errors:
            raise self._errors[0]

    def _run_thread(self, target: Target, topic: str) -> None:
        try:
            for attempt in Retrying(
                retry=retry_if_exception(_is_retryable),
                stop=stop_after_attempt(5) if self._once else stop_never,
                wait=wait_exponential(multiplier=0.1, max=5) + wait_random(max=0.5),
                reraise=True,
            ):
                with attempt:
                    if not self._stop.is_set():
                        self._run_topic(target, topic)
        except Exception as error:  # noqa: BLE001 - it is raised again by run
            self._errors.append(error)
            self._stop.set()

    def _run_topic(self, target: Target, topic: str) -> None:
        with ExitStack() as stack:
            with self._access.use_service_file():
                require_sessions(target, f"a pipeline on {target}")
            conn = stack.enter_context(self._access.connect(target))
            listener = stack.enter_context(self._access.connect(target))
            listener.execute("listen headrace_log")
            pipeline = TopicPipeline(
                self._session, self._access, conn, topic,
                shard=target.name, namespace=self._namespace, events_max=self._events_max,
            )  # fmt: skip
            stack.callback(pipeline.close)
            if not self._stand_by(conn, pipeline):
                return
            if self._once and read_topic(conn, topic, self._namespace).engine != "spark":
                raise Conflict(f"topic {topic!r} runs in the database; move it first: headrace topic engine {topic} spark")
            master = self._session.conf.get("spark.master", "") or ""
            conn.execute(
                "select headrace_internal.begin_pipeline(p_topic_id => %s, p_run_id => %s, p_process => %s, p_master => %s)",
                (pipeline.topic_id, pipeline.run_id, f"{platform.node()}:{os.getpid()}", master),
            )
            try:
                self._loop(pipeline, conn, listener)
                _heartbeat(conn, pipeline, stopped=True)
            except Exception as error:
                if not conn.broken:
                    _heartbeat(conn, pipeline, error=str(error))
                raise

    def _stand_by(self, conn: Connection, pipeline: TopicPipeline) -> bool:
        """Waits until no other process runs the topic. The lock ends with the connection."""
        while not self._stop.is_set():
            row = conn.execute("select headrace.try_lock_topic(%s, 'pipeline')", (pipeline.topic_id,)).fetchone()
            if row is not None and row[0]:
                return True
            if self._once:
                raise Conflict(f"another pipeline runs topic {pipeline.topic!r}; headrace pipeline list shows where")
            self._stop.wait(STAND_BY_S)
        return False

    def _loop(self, pipeline: TopicPipeline, conn: Connection, listener: Connection) -> None:
        heartbeat_at = 0.0
        while not self._stop.is_set():
            if self._work(pipeline):
                continue
            if self._once:
                return
            if time.monotonic() - heartbeat_at > HEARTBEAT_S:
                _heartbeat(conn, pipeline)
                heartbeat_at = time.monotonic()
            for _ in listener.notifies(timeout=pause_s(pipeline.next_due_s()), stop_after=1):
                pass

    def _work(self, pipeline: TopicPipeline) -> bool:
        """One batch, and the timers that are due; False if there was nothing to do."""
        worked = False
        for run in (pipeline.step, pipeline.tick):
            done = run()
            if done is None:
                continue
            worked = True
            if done.events or done.timers:
                self._on_batch(done)
            else:
                time.sleep(DISCARDED_S)
        return worked


def _heartbeat(conn: Connection, pipeline: TopicPipeline, *, error: str | None = None, stopped: bool = False) -> None:
    statement = "select headrace_internal.beat_pipeline(p_topic_id => %s, p_run_id => %s, p_error => %s, p_stopped => %s)"
    try:
        conn.execute(statement, (pipeline.topic_id, pipeline.run_id, error, stopped))
    except psycopg.OperationalError:
        # Readers of the row see that the heartbeat is old.
        logger.warning("%s: the heartbeat was not written", pipeline.topic)


def _is_retryable(error: BaseException) -> bool:
    """True for errors to retry: the database is unreachable, or a Spark job failed, perhaps for the same reason. A JVM that is
    gone raises another error of py4j, which is permanent. (With Spark Connect there may be no py4j.)"""
    from pyspark.errors import PySparkException

    if not isinstance(error, Exception):
        return False
    is_spark_error = isinstance(error, PySparkException) or type(error).__name__ == "Py4JJavaError"
    retry = is_spark_error or isinstance(error, DatabaseUnavailable) or is_transient(error)
    if retry:
        logger.warning("%s: %s; retrying", threading.current_thread().name, str(error).strip().partition("\n")[0])
    return retry
