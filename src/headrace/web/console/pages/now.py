"""Now: what needs attention first, then rates and lag; the metrics of the databases, for Prometheus; and nodes, pipelines and shards:
who is alive, since when, with which version, and how fast."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.conninfo import make_conninfo
from starlette.responses import Response

from headrace.actions import QueueState, queue_state
from headrace.core import DatabaseUnavailable, Forbidden
from headrace.db import Connection, Target
from headrace.log import topics as log
from headrace.node import NodeState, forget_nodes, list_nodes
from headrace.observe.doctor import Check, compare_shards, examine
from headrace.observe.metrics import CONTENT_TYPE, MetricsMemory, Sample, metric_family, read_metrics, render
from headrace.web.console.pages.consumers import consumer_url, lag_table, slowest_table
from headrace.web.console.pages.dead_letters import count_letters
from headrace.web.console.pages.topics import busiest_table
from headrace.web.console.routes import change, read
from headrace.web.console.tables import Column, Row, Table, fetch_dicts, to_row, wide
from headrace.web.console.view import Done, Page, View

AGE_MIN_S = 1.0
"""A reading younger than this is used again: nobody can load the database by scraping."""
DOCTOR_EVERY_S = 30.0
"""The doctor reads the catalog: it need not look every two seconds."""
LAG_MAX_S = 60.0
BATCHES = 20
"""Batches of each pipeline that are shown."""
PLACES = {
    "consumers": "/consumers",
    "outbox": "/topics",
    "sequencer": "/nodes",
    "dead letters": "/dead-letters",
    "actions": "/actions",
    "rules": "/rules",
    "correlators": "/correlators",
    "schedules": "/schedules",
    "relays": "/relays",
    "nodes": "/nodes",
    "failures": "/nodes",
    "time partitions": "/topics",
    "same topics": "/topics",
    "reachable": "/nodes",
}
"""The page of each check of the doctor."""


def show(view: View) -> Page:
    consumers = lag_table(view)
    findings = sorted(_findings(view, consumers.rows), key=lambda finding: (finding["level"] != "problem", finding["check"]))
    topics = view.collect(view.bind(log.list_topics))
    queues = view.each_shard(lambda conn: _queue(view, conn))
    nodes = view.each_shard(view.bind(list_nodes))
    values = {
        "findings": findings,
        "stats": _stats(view, topics, consumers.rows, [queue for _, queue in queues], [node for _, own in nodes for node in own]),
        "charts": _charts(view, topics, consumers.rows),
    }
    columns = ("level", "shard", "check", "message", Column("advice", "what to do"))
    tables = (Table("findings", columns, findings), busiest_table(view, topics), slowest_table(view, consumers.rows))
    return Page("now.html", "Now", tables=tables, values=values)


def _findings(view: View, consumers: Sequence[Row]) -> list[Row]:
    """What needs attention: where, what, what to do, and the page to do it."""
    checks = view.site.cached(("doctor", view.user.role, view.shard), DOCTOR_EVERY_S, lambda: _examine(view))
    findings: list[Row] = [
        {**to_row(check), "advice": check.advice or None, "url": _check_url(view, check)}
        for check in checks
        if check.level in ("warning", "problem")
    ]
    for row in consumers:
        name, trend = f"{row['topic']}/{row['consumer']}", row["trend"]
        grows = len(trend) > 1 and trend[-1][1] > trend[0][1]
        if row["state"] in ("running", "retrying") and row["lag_s"] > LAG_MAX_S and grows:
            message = f"{name} is {row['lag_events']} events and {row['lag_s']:.0f} s behind, and the lag grows"
            found = {"level": "warning", "shard": row["shard"], "check": "lag", "message": message}
            url = consumer_url(view, row["topic"], row["consumer"])
            findings.append({**found, "advice": "run more nodes, or make its handler faster", "url": url})
    return findings


def _examine(view: View) -> list[Check]:
    """The doctor's findings, as the person's role: a role of a namespace may not make all checks."""
    targets = view.targets
    if view.user.role is not None:
        # In the options of a connection, blanks and backslashes are escaped.
        role = view.user.role.replace("\\", "\\\\").replace(" ", "\\ ")
        targets = [Target(target.name, make_conninfo(target.dsn, options=f"-c role={role}")) for target in targets]
    checks = [check for target in targets for check in examine(target)] + compare_shards(targets)
    if view.user.role is None:
        return checks
    return [check for check in checks if "permission denied" not in check.message and check.check != "grants"]


def _check_url(view: View, check: Check) -> str | None:
    """The page of a check, in the namespace that its message names first, such as `shop` in `schedule shop/nightly failed`."""
    path = PLACES.get(check.check)
    name = check.message.partition(":")[0].partition("/")[0].rpartition(" ")[2]
    chosen = {"namespace": name} if name in view.namespaces else {}
    return view.url(path, **chosen) if path else None


def _queue(view: View, conn: Connection) -> tuple[QueueState | None, int]:
    """The state of the action queue, and the number of dead letters of actions and events, where the role may see them."""
    try:
        with conn.transaction():
            return queue_state(conn, namespace=view.namespace), count_letters(view, conn)
    except Forbidden:
        return None, 0


def _stats(
    view: View,
    topics: Sequence[Row],
    consumers: Sequence[Row],
    queues: Sequence[tuple[QueueState | None, int]],
    nodes: Sequence[NodeState],
) -> list[dict[str, object]]:
    """The numbers at the top: name, value, colour, page."""
    lag_s = max((row["lag_s"] for row in consumers), default=0.0)
    waiting = sum(row["waiting"] for row in topics)
    known = [queue for queue, _ in queues if queue is not None]
    dead = sum(letters for _, letters in queues)
    stopped = sum(row["state"] == "stopped" for row in consumers)
    alive = sum(node.state == "alive" for node in nodes)
    lost = sum(node.state == "lost" for node in nodes)
    slowest = view.url("/consumers", sort="-lag_s")
    return [
        {"name": "Topics", "number": len({row["topic"] for row in topics}), "url": view.url("/topics")},
        {"name": "In the outbox", "number": waiting, "url": view.url("/topics")},
        {"name": "Largest lag", "seconds": lag_s, "url": slowest, "kind": "warn" if lag_s > LAG_MAX_S else ""},
        {"name": "Stopped", "number": stopped, "url": view.url("/consumers", sort="state"), "kind": "bad" if stopped else ""},
        {"name": "Due actions", "number": sum(queue.due for queue in known), "url": view.url("/actions")},
        {"name": "Dead letters", "number": dead, "url": view.url("/dead-letters"), "kind": "warn" if dead else ""},
        {"name": "Live nodes", "number": alive, "url": view.url("/nodes"), "kind": "" if alive else "bad"},
        {"name": "Lost nodes", "number": lost, "url": view.url("/nodes"), "kind": "bad" if lost else ""},
    ]


def _charts(view: View, topics: Sequence[Row], consumers: Sequence[Row]) -> list[dict[str, object]]:
    """Events per second and lag, of all shards together."""
    samples, key = view.site.samples, view.samples_key(view.shard or "")
    samples.record(
        key, {"events": sum(row["last_position"] for row in topics), "lag": sum(row["lag_events"] for row in consumers)}
    )
    return [
        {"title": "Events per second", "series": [("events/s", samples.rates(*key, "events"))]},
        {"title": "Lag of all consumers, in events", "series": [("lag", samples.values(*key, "lag"))]},
    ]


def show_metrics(view: View) -> Response:
    """All shards in the text format of Prometheus: the same names and numbers that a node shows, without those of its process.

    Read as the role of whoever asks, so a role of one namespace sees the numbers of that namespace only. A shard that does not answer has `headrace_database_up` 0."""
    text = render({target.name: _scrape(view, target) for target in view.targets})
    return Response(text, headers={"content-type": CONTENT_TYPE})


def _scrape(view: View, target: Target) -> list[Sample]:
    key = (target.name, view.user.role)
    memory = view.site.cached(("metrics memory", *key), float("inf"), MetricsMemory)

    def read_samples() -> list[Sample]:
        try:
            with view.reading(target) as conn:
                samples, is_up = read_metrics(conn, memory), True
        except DatabaseUnavailable:
            samples, is_up = [], False
        return [*samples, Sample(metric_family("headrace_database_up"), (), float(is_up))]

    return view.site.cached(("metrics", *key), AGE_MIN_S, read_samples)


def show_nodes(view: View) -> Page:
    tables = (_node_table(view), _failure_table(view), _pipeline_table(view), _batch_table(view), _shard_table(view))
    return Page("nodes.html", "Nodes", tables=tables)


def _node_table(view: View) -> Table:
    has_stopped = view.query.get("stopped") == "yes"
    rows = view.collect(view.bind(list_nodes, stopped=has_stopped))
    sequencer = Column("sequencer", hint="It also runs the sequencer, rules, correlators and schedules")
    work = (Column("handlers_text", "handlers", wide=True), Column("rates", "last minute"))
    columns = ("name state heartbeat_at", wide("started_at version"), sequencer, *work)
    shown = [{**row, "handlers_text": ", ".join(row["handlers"]) or None, "rates": _rates(row)} for row in rows]
    return Table("nodes", columns, shown, title="Nodes", empty="headrace node run")


def _rates(row: Row) -> str | None:
    """What the node reports with its heartbeat, as words."""
    report = row["report"]
    parts = [f"{part['topic']}/{part['consumer']} {part['events_per_min']:g} events/min" for part in report.get("consumers", ())]
    parts += [f"{part['action']} {part['per_min']:g}/min" for part in report.get("actions", ())]
    return ", ".join(parts) or None


def _pipeline_table(view: View) -> Table:
    rate, batch = Column("rate", "events/s"), Column("batch_ms", "ms per batch", wide=True)
    columns = ("topic state", wide("process master"), "batches events", rate, batch, "lag_events heartbeat_at", wide("error"))
    rows, empty = view.fetch("pipelines"), "headrace pipeline run"
    return Table("pipelines", columns, rows, title="Spark pipelines", empty=empty, empty_text="No topic runs on Spark.")


def _failure_table(view: View) -> Table:
    """The loops that fail: what each works on, and when it is tried again."""
    names = (Column("kind", "loop"), Column("name", "works on"))
    columns = (*names, "failures", Column("first_at", "fails since"), "retry_at", wide("error"))
    rows = view.fetch("failures")
    return Table("failures", columns, rows, title="Failing loops", empty_text="No loop fails.", key=("kind", "name"))


def _batch_table(view: View) -> Table:
    names = "topic batch committed_at events firings outputs"
    columns = (names, wide("timers"), Column("took_ms", "ms"), Column("upto", "up to position", wide=True))
    rows, title = view.fetch("pipeline_batches", limit=BATCHES), "Newest batches of the pipelines"
    return Table("batches", columns, rows, title=title, empty_text="No batch yet.", key=("topic", "batch"))


def _shard_table(view: View) -> Table:
    rows: list[Row] = []
    for target in view.targets:
        try:
            with view.reading(target) as conn:
                [facts] = fetch_dicts(conn, "shard", namespace=view.namespace)
                queue = queue_state(conn, namespace=view.namespace)
            rows.append({"shard": target.name, "state": "ok", **facts, "due": queue.due, "in_flight": queue.in_flight})
        except DatabaseUnavailable as error:
            rows.append({"shard": target.name, "state": "lost", "error": str(error)})
    server = (wide("server"), Column("release", "schema", wide=True), "topics", Column("bytes", "size", kind="bytes"))
    columns = ("shard state", *server, Column("due", "due actions"), Column("in_flight", "running actions"), wide("error"))
    return Table("shards", columns, rows, title="Shards")


def forget(view: View) -> Done:
    counts = view.change("node.forget", "lost nodes", view.bind(forget_nodes))
    return Done(f"{sum(count for _, count in counts)} lost nodes forgotten", view.url("/nodes"))


ROUTES = (
    read("/", show),
    read("/metrics", show_metrics),
    read("/nodes", show_nodes),
    change("/nodes/forget", forget, form=show_nodes),
)
