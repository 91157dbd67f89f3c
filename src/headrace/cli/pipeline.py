"""`headrace pipeline`: runs topics on Spark; tells how those that run stand."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections import deque
from typing import Annotated

import msgspec
import typer
from rich.live import Live
from rich.table import Table

from headrace.cli.node import log_to_stderr
from headrace.cli.output import console, json_line, note, table
from headrace.cli.session import Session, command
from headrace.core import Invalid
from headrace.spark import Access, session
from headrace.spark.pipeline import BatchDone, Pipeline, PipelineState, list_batches, list_pipelines

group = typer.Typer(help="Pipelines: the rules and correlators of topics with engine spark, run on Spark.")

NOTE_S = 5.0
"""How often progress is told where there is no terminal to show it on."""
RATE_S = 10.0
"""Rates are of the last so many seconds."""


@command(group, "run")
def run(
    given: Session,
    topics: Annotated[list[str], typer.Option("--topic", help="Topic to run; may be given again.", show_default=False)],
    master: Annotated[str, typer.Option(help="Spark's master, or the address of a Spark Connect server (sc://…).")] = "local[2]",
    once: Annotated[bool, typer.Option("--once", help="End when everything is done that is there now.")] = False,
    events_max: Annotated[int, typer.Option("--max-events-per-trigger", min=1, help="Events of one batch.")] = 500_000,
    secret: Annotated[str | None, typer.Option(help="File with the address, on driver and executors.")] = None,
    service: Annotated[str | None, typer.Option(help="Entry of libpq's service file, on driver and executors.")] = None,
) -> None:
    """Run the rules and correlators of topics on Spark, until SIGTERM or Ctrl-C; the batch that runs is finished first.

    Each batch is one transaction with its firings, actions, events, states and cursors, so whatever is killed, every event is
    handled once. A second process for the same topic stands by. Topics are moved with `headrace topic engine`.

    Examples: headrace pipeline run --topic orders · headrace pipeline run --topic orders --master spark://head:7077 --secret shop
    """
    log_to_stderr(as_json=given.json, level=logging.WARNING)
    access = _access(given, secret, service)
    shown = _Shown(given)
    pipeline = Pipeline(
        session(master=master), topics, access=access, namespace=given.namespace, events_max=events_max, once=once,
        tell=shown.tell,
    )  # fmt: skip

    def stop(*_: object) -> None:
        note("finishing the batch that runs")
        pipeline.stop()

    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, stop)
    with shown:
        pipeline.run()


def _access(given: Session, secret: str | None, service: str | None) -> Access:
    if secret is None and service is None:
        # Spark's own processes inherit the environment; a plan never shows it.
        if given.dsn:
            os.environ["HEADRACE_DSN"] = given.dsn
        return Access()
    if given.dsn:
        raise Invalid("--dsn, --secret and --service are three ways to one thing; give one of them")
    return Access.of({name: value for name, value in (("secret", secret), ("service", service)) if value})


class _Shown:
    """Progress as it comes: a live line per topic on a terminal, a line now and then elsewhere, every batch as JSON."""

    def __init__(self, given: Session) -> None:
        self._json = given.json
        self._recent: dict[tuple[str, str], deque[tuple[float, BatchDone]]] = {}
        self._totals: dict[tuple[str, str], list[int]] = {}
        self._told = time.monotonic()
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

    def tell(self, done: BatchDone) -> None:
        if self._json:
            json_line(msgspec.to_builtins(done) | {"events": done.events})
            return
        place, now = (done.shard, done.topic), time.monotonic()
        recent = self._recent.setdefault(place, deque())
        recent.append((now, done))
        while recent[0][0] < now - RATE_S:
            recent.popleft()
        total = self._totals.setdefault(place, [0, 0, 0])
        for at, count in enumerate((done.events, done.firings, done.outputs)):
            total[at] += count
        if self._live is None and now - self._told > NOTE_S:
            self._note()

    def _note(self) -> None:
        self._told = time.monotonic()
        for (shard, topic), recent in list(self._recent.items()):
            events, firings, outputs = self._totals[shard, topic]
            _, last = recent[-1]
            note(
                f"{topic} on {shard}: {events} events, {firings} firings, {outputs} outputs; position {last.upto}, "
                f"{last.lag_events} behind, {_rate(recent):.0f} events/s, last batch {1000 * last.took_s:.0f} ms"
            )

    def _table(self) -> Table:
        rows = []
        for (shard, topic), recent in list(self._recent.items()):
            _, last = recent[-1]
            batch_ms = 1000 * last.took_s
            rows.append((topic, shard, last.upto, last.lag_events, _rate(recent), batch_ms, *self._totals[shard, topic]))
        columns = ["topic", "shard", "position", "lag (events)", "events/s", "batch (ms)", "events", "firings", "outputs"]
        return table(columns, rows)


def _rate(recent: deque[tuple[float, BatchDone]]) -> float:
    began = recent[0][0] - recent[0][1].took_s
    return sum(done.events for _, done in recent) / max(recent[-1][0] - began, 0.001)


@command(group, "list")
def list_(
    given: Session,
    topic: Annotated[str | None, typer.Option(help="Only this topic, with its newest batches.", show_default=False)] = None,
) -> None:
    """List pipelines: running, stopped, or lost (no sign of life for 30 seconds), with rate, lag and batch time.

    Example: headrace pipeline list --topic orders
    """
    found = given.found(lambda conn: list_pipelines(conn, topic=topic, namespace=given.namespace))
    batches = given.found(lambda conn: list_batches(conn, topic, namespace=given.namespace)) if topic else []
    if given.json:
        rows = [{"shard": target.name} | msgspec.to_builtins(one) for target, one in found]
        told = [{"shard": target.name} | msgspec.to_builtins(one) for target, one in batches]
        json_line(rows if topic is None else {"pipelines": rows, "batches": told})
        return
    columns = [
        "topic", "engine", "state", "position", "lag (events)", "lag (s)", "events/s", "batch (ms)", "events", "firings",
        "outputs", "process", "heartbeat at", "error",
    ]  # fmt: skip
    given.rows(columns, ((target, _row(one)) for target, one in found))
    if batches:
        shown = ["batch", "after", "up to", "firings", "outputs", "keys with timers", "took (ms)", "committed at"]
        given.rows(
            shown, ((t, [getattr(b, name) for name in b.__dataclass_fields__]) for t, b in batches), title="newest batches"
        )


def _row(one: PipelineState) -> list[object]:
    numbers = [one.position, one.lag_events, one.lag_s, one.rate, one.batch_ms, one.events, one.firings, one.outputs]
    return [one.topic, one.engine, one.state, *numbers, one.process, one.heartbeat_at, one.error]
