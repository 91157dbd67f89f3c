"""Nodes, pipelines and shards: who is alive, since when, with which version, and how fast."""

from __future__ import annotations

from headrace.actions import queue_state
from headrace.core import DatabaseUnavailable
from headrace.db import query
from headrace.node import forget_nodes, list_nodes
from headrace.web.console.routes import change, read
from headrace.web.console.tables import Column, Row, Table, fetch_dicts
from headrace.web.console.view import Done, Page, View

BATCHES = 20
"""Batches of each pipeline that are shown."""


def show(view: View) -> Page:
    tables = (_node_table(view), _failure_table(view), _pipeline_table(view), _batch_table(view), _shard_table(view))
    return Page("nodes.html", "Nodes", tables=tables)


def _node_table(view: View) -> Table:
    has_stopped = view.query.get("stopped") == "yes"
    rows = view.collect(lambda conn: list_nodes(conn, stopped=has_stopped, namespace=view.namespace))
    columns = (
        Column("name"),
        Column("state", kind="state"),
        Column("heartbeat_at", "heartbeat", kind="time"),
        Column("started_at", "started", kind="time", wide=True),
        Column("version", wide=True),
        Column("sequencer", hint="It also runs the sequencer, rules, correlators and schedules"),
        Column("handlers_text", "handlers", wide=True),
        Column("rates", "last minute"),
    )
    shown = [{**row, "handlers_text": ", ".join(row["handlers"]) or None, "rates": _rates(row)} for row in rows]
    return Table("nodes", columns, shown, title="Nodes", empty="headrace node run")


def _rates(row: Row) -> str | None:
    """What the node reports with its heartbeat, as words."""
    report = row["report"]
    parts = [f"{part['topic']}/{part['consumer']} {part['events_per_min']:g} events/min" for part in report.get("consumers", ())]
    parts += [f"{part['action']} {part['per_min']:g}/min" for part in report.get("actions", ())]
    return ", ".join(parts) or None


def _pipeline_table(view: View) -> Table:
    rows = view.collect(lambda conn: fetch_dicts(conn, query("web/console/pipelines"), {"namespace": view.namespace}))
    columns = (
        Column("topic"),
        Column("state", kind="state"),
        Column("process", wide=True),
        Column("master", wide=True),
        Column("batches", kind="number"),
        Column("events", kind="number"),
        Column("rate", "events/s", kind="number"),
        Column("batch_ms", "ms per batch", kind="number", wide=True),
        Column("lag_events", "lag", kind="number"),
        Column("heartbeat_at", "heartbeat", kind="time"),
        Column("error", wide=True),
    )
    return Table(
        "pipelines", columns, rows, title="Spark pipelines", empty="headrace pipeline run", empty_text="No topic runs on Spark."
    )


def _failure_table(view: View) -> Table:
    """The loops that fail: what each works on, and when it is tried again."""
    rows = view.collect(lambda conn: fetch_dicts(conn, query("web/console/failures"), {"namespace": view.namespace}))
    columns = (
        Column("kind", "loop"),
        Column("name", "works on"),
        Column("failures", kind="number"),
        Column("first_at", "fails since", kind="time"),
        Column("retry_at", "next attempt", kind="time"),
        Column("error", wide=True),
    )
    return Table("failures", columns, rows, title="Failing loops", empty_text="No loop fails.", key=("kind", "name"))


def _batch_table(view: View) -> Table:
    parameters = {"namespace": view.namespace, "limit": BATCHES}
    rows = view.collect(lambda conn: fetch_dicts(conn, query("web/console/pipeline_batches"), parameters))
    columns = (
        Column("topic"),
        Column("batch", kind="number"),
        Column("committed_at", "committed", kind="time"),
        Column("events", kind="number"),
        Column("firings", kind="number"),
        Column("outputs", kind="number"),
        Column("timers", kind="number", wide=True),
        Column("took_ms", "ms", kind="number"),
        Column("upto", "up to position", kind="number", wide=True),
    )
    return Table(
        "batches", columns, rows, title="Newest batches of the pipelines", empty_text="No batch yet.", key=("topic", "batch")
    )


def _shard_table(view: View) -> Table:
    rows: list[Row] = []
    for target in view.targets:
        try:
            with view.reading(target) as conn:
                [facts] = fetch_dicts(conn, query("web/console/shard"), {"namespace": view.namespace})
                queue = queue_state(conn, namespace=view.namespace)
            rows.append(
                {"shard": target.name, "state": "ok", **facts, "due": queue.due, "in_flight": queue.in_flight, "error": None}
            )
        except DatabaseUnavailable as error:
            rows.append({"shard": target.name, "state": "lost", "error": str(error)})
    columns = (
        Column("shard"),
        Column("state", kind="state"),
        Column("server", wide=True),
        Column("release", "schema", wide=True),
        Column("topics", kind="number"),
        Column("bytes", "size", kind="bytes"),
        Column("due", "due actions", kind="number"),
        Column("in_flight", "running actions", kind="number"),
        Column("error", wide=True),
    )
    return Table("shards", columns, rows, title="Shards")


def forget(view: View) -> Done:
    """Removes lost nodes from the list."""
    counts = view.change("node.forget", "lost nodes", lambda conn: forget_nodes(conn, namespace=view.namespace))
    return Done(f"{sum(count for _, count in counts)} lost nodes forgotten", view.url("/nodes"))


ROUTES = (read("/nodes", show), change("/nodes/forget", forget, form=show))
