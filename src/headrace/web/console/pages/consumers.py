"""Consumers: lag in events and seconds, why one is stuck, which node runs it; pause, resume, seek, create, alter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import groupby
from typing import Literal, TypeVar, cast

from headrace import consume
from headrace.actions import pause as pause_, resume as resume_
from headrace.core import LoggedEvent, UnknownConsumer
from headrace.db import Connection
from headrace.node import list_nodes
from headrace.web.console.routes import change, read
from headrace.web.console.tables import Column, Row, Table, wide
from headrace.web.console.view import Done, Page, View

T = TypeVar("T")

ORDERS = ("partition", "topic")
STARTS = ("earliest", "latest")
POLICIES = ("retry", "stop", "dead-letter")


CURSOR_COLUMNS = ("position lag_events lag_s state attempts retry_at", wide("error"))


def list_consumers(view: View) -> Page:
    """All consumers of the namespace, each as one row."""
    values = {"noun": "consumer", "create_url": view.url("/consumers/create")}
    return Page("list.html", "Consumers", tables=(lag_table(view),), values=values)


def lag_table(view: View, *, topic: str | None = None) -> Table:
    """Consumers with their lag over all partitions."""
    cursors = read_cursors(view, topic=topic)
    groups = groupby(cursors, key=lambda row: (row["shard"], row["topic"], row["consumer"]))
    rows = [_with_trend(view, summarize(list(parts))) for _, parts in groups]
    columns: list[Column | str] = [
        Column("topic", link=view.link("/topics", "topic")),
        Column("consumer", link=view.link("/consumers", "topic", "consumer")),
        "state",
        Column("lag_events", hint="Events not handled yet"),
        Column("lag_s", hint="Age of the oldest event that is not handled yet"),
        Column("trend", "last 30 min", kind="spark", wide=True),
        wide("cursors"),
        Column("nodes", hint="Live nodes that run it"),
        Column("reason", "why", wide=True),
    ]
    first = 1 if topic else 0
    empty = f"headrace consumer create {topic or 'orders'} billing"
    return Table("consumers", columns[first:], rows, empty=empty, title="Consumers" if topic else None, key=("topic", "consumer"))


def slowest_table(view: View, rows: Sequence[Row], *, count: int = 8) -> Table:
    slowest = sorted(rows, key=lambda row: (-row["lag_s"], -row["lag_events"]))[:count]
    name = Column("name", "consumer", link=view.link("/consumers", "topic", "consumer"))
    columns = (name, "state lag_events lag_s", Column("trend", kind="spark"))
    named = [{**row, "name": f"{row['topic']}/{row['consumer']}"} for row in slowest]
    return Table("consumers", columns, named, title="Furthest behind", empty="headrace consumer create orders billing")


def read_cursors(view: View, *, topic: str | None = None, consumer: str | None = None) -> list[Row]:
    """The cursors of the namespace, or of one topic or consumer, with their lag."""
    return view.fetch("cursors", topic=topic, consumer=consumer)


def summarize(cursors: Sequence[Row]) -> Row:
    """One row for all partitions of a consumer: the worst state, the sum of the events, and why it does not move."""
    first = cursors[0]
    states = {cursor["state"] for cursor in cursors}
    retrying = [cursor for cursor in cursors if cursor["state"] == "running" and cursor["retry_at"] is not None]
    state = next((name for name in ("paused", "stopped", "idle") if name in states), "retrying" if retrying else "running")
    return {
        "shard": first["shard"],
        "topic": first["topic"],
        "consumer": first["consumer"],
        "state": state,
        "cursors": len(cursors),
        "lag_events": sum(cursor["lag_events"] for cursor in cursors),
        "is_estimate": any(cursor["is_estimate"] for cursor in cursors),
        "lag_s": max(cursor["lag_s"] for cursor in cursors),
        "nodes": first["nodes"],
        "reason": _reason(state, cursors),
    }


def _reason(state: str, cursors: Sequence[Row]) -> str | None:
    errors = [cursor for cursor in cursors if cursor["error"]]
    if state == "paused":
        reason = cursors[0]["pause_reason"]
        return f"paused by an operator: {reason}" if reason else "paused by an operator"
    if errors:
        return f"partition {_partition(errors[0])}: {str(errors[0]['error']).strip().splitlines()[-1]}"
    return "no live node runs it" if state == "idle" else None


def _partition(cursor: Row) -> str:
    return "all" if cursor["partition"] < 0 else str(cursor["partition"])


def _with_trend(view: View, row: Row) -> Row:
    key = view.samples_key(row["shard"])
    series = f"lag {row['topic']}/{row['consumer']}"
    view.site.samples.record(key, {series: row["lag_events"]})
    return {**row, "trend": view.site.samples.values(*key, series)}


def show_consumer(view: View) -> Page:
    """One consumer, per partition, with the nodes that hold it and the preview of a move."""
    topic, name = view.path["topic"], view.path["consumer"]
    cursors = [{**row, "partition_text": _partition(row)} for row in read_cursors(view, topic=topic, consumer=name)]
    if not cursors:
        raise UnknownConsumer(f"topic {topic!r} has no consumer {name!r} in namespace {view.namespace!r}")
    settings = view.each_shard(view.bind(consume.get_consumer, topic, name))[0][1]
    columns = (Column("partition_text", "partition"), *CURSOR_COLUMNS)
    summaries = [_with_trend(view, summarize(list(parts))) for _, parts in groupby(cursors, key=lambda row: row["shard"])]
    tables = [Table("partitions", columns, cursors, title="Partitions")]
    target = view.query.get("to", "").strip()
    moves = view.collect(view.bind(consume.seek_consumer, topic, name, target, preview=True)) if target else None
    if moves is not None:
        tables.append(_move_table(moves))
    values = {
        "topic": topic,
        "consumer": name,
        "summaries": summaries,
        "errors": [cursor for cursor in cursors if cursor["error"]],
        "holders": _holders(view, topic, name),
        "to": target,
        "again": sum(max(move["events"], 0) for move in moves or ()),
        "skipped": sum(max(-move["events"], 0) for move in moves or ()),
        "is_internal": name.startswith("headrace."),
        "is_own": not name.startswith(("headrace.", "relay.")),
        "settings": _settings_facts(settings),
        "condition_error": settings.condition_error,
        "fields": {**_settings_fields(settings), **view.form},
        "policies": POLICIES,
        "series": [(row["shard"], row["trend"]) for row in summaries],
    }
    return Page("consumer.html", f"{topic}/{name}", tables=tables, values=values)


def _holders(view: View, topic: str, name: str) -> list[Row]:
    """The live nodes that run the consumer, with the partitions they handled last."""
    nodes = view.collect(lambda conn: [node for node in list_nodes(conn, namespace=view.namespace) if node.state == "alive"])
    holders: list[Row] = []
    for node in nodes:
        reports = [part for part in node["report"].get("consumers", ()) if (part["topic"], part["consumer"]) == (topic, name)]
        if reports or (name.startswith("headrace.") and node["sequencer"]):
            holders.append({**node, **(reports[0] if reports else {"partitions": [], "events_per_min": None})})
    return holders


def _move_table(moves: Sequence[Row]) -> Table:
    rows = [
        {
            **move,
            "partition": _partition(move),
            "count": abs(move["events"]),
            "meaning": "handled again" if move["events"] > 0 else "skipped" if move["events"] < 0 else "unchanged",
        }
        for move in moves
    ]
    places = (Column("from_position", "from"), Column("to_position", "to"))
    columns = ("partition", *places, Column("count", "events"), Column("meaning", "effect"))
    return Table("moves", columns, rows, title="What would move")


def pause(view: View) -> Done:
    reason = view.text("reason") or None
    _change(view, "pause", view.bind(pause_, "consumer", _names(view)[2], reason=reason), {"reason": reason})
    return _done(view, " is paused")


def resume(view: View) -> Done:
    """Lets a paused consumer go on, and tries stopped and waiting partitions again at once."""
    counts = _change(view, "resume", view.bind(resume_, "consumer", _names(view)[2]))
    return _done(view, f": {sum(counts)} partitions go on")


def seek(view: View) -> Done:
    """Moves the cursors, after the person has seen the preview."""
    topic, name, _ = _names(view)
    target = view.text("to")
    moves = _change(view, "seek", view.bind(consume.seek_consumer, topic, name, target), {"to": target})
    return _done(view, f": {sum(map(len, moves))} cursors moved to {target}")


def _change(view: View, what: str, act: Callable[[Connection], T], details: object = None) -> list[T]:
    """Changes the consumer of the address; the audit has where its cursors stand before and after."""
    topic, name, label = _names(view)

    def state(conn: Connection) -> object:
        lags = consume.consumer_lag(conn, topic=topic, consumer=name, namespace=view.namespace)
        return [{"partition": lag.partition, "position": lag.position, "state": lag.state} for lag in lags]

    return [result for _, result in view.change(f"consumer.{what}", label, act, state=state, details=details)]


def _done(view: View, message: str) -> Done:
    topic, name, label = _names(view)
    return Done(f"consumer {label}{message}", consumer_url(view, topic, name))


def alter(view: View) -> Done:
    """Changes failure policy and condition on every selected shard; cursors, order and pauses between attempts stay."""
    topic, name, label = _names(view)
    policy, where = _read_policy(view), view.text("where") or None

    def act(conn: Connection) -> None:
        before = consume.get_consumer(conn, topic, name, namespace=view.namespace)
        consumer = consume.Consumer(
            topic=topic,
            name=name,
            handler=_no_handler,
            ordered_by=before.ordered_by,
            failure=replace(policy, backoff_s=before.backoff_s, backoff_max_s=before.backoff_max_s, key_order=before.key_order),
            where=where,
            namespace=view.namespace,
            latency_ms=before.latency_ms,
        )
        consume.create_consumer(conn, consumer)

    def state(conn: Connection) -> object:
        settings = asdict(consume.get_consumer(conn, topic, name, namespace=view.namespace))
        return {field: settings[field] for field in ("attempts_max", "when_exhausted", "condition")}

    view.change("consumer.alter", label, act, state=state)
    return _done(view, " changed")


def create_form(view: View) -> Page:
    values = {"orders": ORDERS, "starts": STARTS, "policies": POLICIES, "topic": view.query.get("topic", "")}
    return Page("consumer_create.html", "Create a consumer", values=values, is_live=False)


def create(view: View) -> Done:
    """Creates a consumer on every selected shard, before a node runs it."""
    topic, name = view.text("topic"), view.text("consumer")
    consumer = consume.Consumer(
        topic=topic,
        name=name,
        handler=_no_handler,
        ordered_by=cast("Literal['partition', 'topic']", view.choice("ordered_by", ORDERS)),
        start=cast("Literal['earliest', 'latest']", view.choice("start", STARTS)),
        failure=_read_policy(view),
        where=view.text("where") or None,
        namespace=view.namespace,
    )
    details = {key: view.form.get(key) for key in ("ordered_by", "start", "on_failure", "attempts", "where")}
    view.change("consumer.create", f"{topic}/{name}", lambda conn: consume.create_consumer(conn, consumer), details=details)
    return Done(f"consumer {name} of topic {topic} created", consumer_url(view, topic, name))


def consumer_url(view: View, topic: str, consumer: str) -> str:
    return view.url("/consumers", topic, consumer)


def _names(view: View) -> tuple[str, str, str]:
    topic, name = view.path["topic"], view.path["consumer"]
    return topic, name, f"{topic}/{name}"


def _read_policy(view: View) -> consume.Failure:
    policy, attempts = view.choice("on_failure", POLICIES), view.whole_number("attempts")
    if policy == "stop":
        return consume.Failure.stop()
    if policy == "retry":
        return consume.Failure.retry(attempts=attempts)
    return consume.Failure.dead_letter(attempts=attempts) if attempts else consume.Failure.dead_letter()


def _no_handler(_event: LoggedEvent, _conn: Connection) -> None:
    """Stands in for the handler, which only a node has."""


def _settings_facts(settings: consume.ConsumerSettings) -> list[tuple[str, object]]:
    attempts = settings.attempts_max
    if settings.when_exhausted == "dead_letter":
        policy = f"{attempts} attempts, then the dead letters" if attempts != 1 else "the event is moved to the dead letters"
    elif attempts == 1:
        policy = "the partition stops"
    else:
        policy = "it is retried for ever" if attempts is None else f"{attempts} attempts, then the partition stops"
    facts: list[tuple[str, object]] = [
        ("Order", "by partition" if settings.ordered_by == "partition" else "the whole topic"),
        ("When its handler fails", policy),
        ("Condition", settings.condition or "none: it gets all events"),
        ("Created", settings.created_at),
    ]
    if settings.condition:
        facts.insert(3, ("State of the condition", settings.condition_status))
    return facts


def _settings_fields(settings: consume.ConsumerSettings) -> dict[str, str]:
    is_stop = settings.when_exhausted == "stop" and settings.attempts_max == 1
    return {
        "on_failure": "dead-letter" if settings.when_exhausted == "dead_letter" else "stop" if is_stop else "retry",
        "attempts": "" if is_stop or settings.attempts_max is None else str(settings.attempts_max),
        "where": settings.condition or "",
    }


ROUTES = (
    read("/consumers", list_consumers),
    read("/consumers/create", create_form),
    change("/consumers/create", create, form=create_form),
    read("/consumers/{topic}/{consumer}", show_consumer),
    change("/consumers/{topic}/{consumer}/alter", alter, form=show_consumer),
    change("/consumers/{topic}/{consumer}/pause", pause, form=show_consumer),
    change("/consumers/{topic}/{consumer}/resume", resume, form=show_consumer),
    change("/consumers/{topic}/{consumer}/seek", seek, form=show_consumer),
)
