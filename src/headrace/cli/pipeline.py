"""`headrace pipeline`: runs the rules and correlators of topics on Spark; lists pipelines."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import Annotated

import msgspec
from rich.live import Live
from rich.table import Table
from typer import Option, Typer

from headrace.cli.node import log_to_stderr
from headrace.cli.output import Column, console, json_line, note, table
from headrace.cli.session import Session, command
from headrace.core import Invalid
from headrace.spark import Access, session as spark_session
from headrace.spark.pipeline import BatchDone, Pipeline, list_batches, list_pipelines

group = Typer(help="Pipelines: run the rules and correlators of topics with engine spark.")

NOTE_S = 5.0
"""Seconds between two lines of progress when there is no terminal."""
RATE_S = 10.0
"""Rates are measured over this many seconds."""


@command(group, "run")
def run(
    session: Session,
    topics: Annotated[list[str], Option("--topic", help="Topic to run; repeatable.", show_default=False)],
    master: Annotated[str, Option(help="Spark master, or a Spark Connect address (sc://…).")] = "local[2]",
    once: Annotated[bool, Option("--once", help="Stop when all current events are handled.")] = False,
    events_max: Annotated[int, Option("--max-events-per-trigger", min=1, help="Events per batch.")] = 500_000,
    secret: Annotated[str | None, Option(help="File with the address, on driver and executors.")] = None,
    service: Annotated[str | None, Option(help="Entry of libpq's service file, on driver and executors.")] = None,
) -> None:
    """Run topics on Spark until SIGTERM or Ctrl-C; a running batch finishes first.

    Each batch is one transaction with its firings, actions, events, states and cursors: every event is handled once, whatever
    process is killed. A second process for the same topic stands by. `headrace topic engine` moves topics to Spark and back.

    Examples: headrace pipeline run --topic orders · headrace pipeline run --topic orders --master spark://head:7077 --secret shop
    """
    log_to_stderr(as_json=session.json, level=logging.WARNING)
    progress = _Progress(as_json=session.json)
    pipeline = Pipeline(
        spark_session(master=master),
        topics,
        access=_access(session, secret, service),
        namespace=session.namespace,
        events_max=events_max,
        once=once,
        on_batch=progress.add,
    )

    def stop(*_: object) -> None:
        note("finishing the running batch")
        pipeline.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    with progress:
        pipeline.run()


def _access(session: Session, secret: str | None, service: str | None) -> Access:
    if secret is None and service is None:
        # Spark's own processes inherit the environment, and a query plan never shows it.
        if session.dsn:
            os.environ["HEADRACE_DSN"] = session.dsn
        return Access()
    if session.dsn:
        raise Invalid("--dsn, --secret and --service exclude each other; use one of them")
    return Access.from_options({name: value for name, value in (("secret", secret), ("service", service)) if value})


class _Progress:
    """Shows progress: a live table on a terminal, a line every few seconds elsewhere, or every batch as JSON."""

    def __init__(self, *, as_json: bool) -> None:
        self._json = as_json
        self._recent: dict[tuple[str, str], deque[tuple[float, BatchDone]]] = {}
        self._totals: dict[tuple[str, str], list[int]] = {}
        self._noted_at = time.monotonic()
        on_terminal = sys.stderr.isatty() and not self._json
        self._live = Live(console=console(stderr=True), get_renderable=self._table, transient=True) if on_terminal else None

    def __enter__(self) -> None:
        if self._live is not None:
            self._live.start()

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
        if not self._json:
            self._note()

    def add(self, batch: BatchDone) -> None:
        if self._json:
            json_line(msgspec.to_builtins(batch) | {"events": batch.events})
            return
        place, now = (batch.shard, batch.topic), time.monotonic()
        recent = self._recent.setdefault(place, deque())
        recent.append((now, batch))
        while recent[0][0] < now - RATE_S:
            recent.popleft()
        totals = self._totals.setdefault(place, [0, 0, 0])
        for index, count in enumerate((batch.events, batch.firings, batch.outputs)):
            totals[index] += count
        if self._live is None and now - self._noted_at > NOTE_S:
            self._note()

    def _note(self) -> None:
        self._noted_at = time.monotonic()
        for topic, shard, position, lag, rate, batch_ms, events, firings, outputs in self._rows():
            note(
                f"{topic} on {shard}: {events} events, {firings} firings, {outputs} outputs; position {position}, "
                f"{lag} behind, {rate:.0f} events/s, last batch {batch_ms:.0f} ms"
            )

    def _table(self) -> Table:
        columns = ["topic", "shard", "position", "lag_events", "events/s", "batch_ms", "events", "firings", "outputs"]
        return table(columns, self._rows())

    def _rows(self) -> Iterator[tuple[object, ...]]:
        for (shard, topic), recent in list(self._recent.items()):
            start_s = recent[0][0] - recent[0][1].took_s
            end_s, last = recent[-1]
            rate = sum(batch.events for _, batch in recent) / max(end_s - start_s, 0.001)
            yield (topic, shard, last.upto, last.lag_events, rate, 1000 * last.took_s, *self._totals[shard, topic])


@command(group, "list")
def list_(
    session: Session,
    topic: Annotated[str | None, Option(help="Only this topic, with its newest batches.", show_default=False)] = None,
) -> None:
    """List pipelines with rate, lag and batch time.

    A pipeline is running, stopped, or lost when it has sent no heartbeat for 30 seconds.

    Example: headrace pipeline list --topic orders
    """
    pipelines = session.collect(session.bind(list_pipelines, topic=topic))
    batches = session.collect(session.bind(list_batches, topic)) if topic else []
    if session.json:
        states = [{"shard": target.name} | msgspec.to_builtins(state) for target, state in pipelines]
        newest = [{"shard": target.name} | msgspec.to_builtins(batch) for target, batch in batches]
        json_line(states if topic is None else {"pipelines": states, "batches": newest})
        return
    place: list[Column] = ["topic", "engine", "state", "position", "lag_events", "lag_s", ("events/s", "rate"), "batch_ms"]
    session.show([*place, "events", "firings", "outputs", "process", "heartbeat_at", "error"], pipelines)
    if batches:
        columns: list[Column] = ["batch", ("after", "from_position"), ("up to", "upto"), "firings", "outputs"]
        session.show([*columns, ("keys with timers", "timers"), "took_ms", "committed_at"], batches, title="newest batches")
