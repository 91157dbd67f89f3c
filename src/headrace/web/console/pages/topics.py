"""Topics: their sizes, rates and retention; one topic with its consumers; create and alter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, cast

from headrace.core import Invalid
from headrace.db import Connection, parse_interval
from headrace.log import topics as log
from headrace.log.archive import Erasure, erase_key_in_transaction, keep_until_archived
from headrace.web.console.pages.consumers import lag_table
from headrace.web.console.routes import change, read
from headrace.web.console.tables import Column, Row, Table, fetch_dicts, to_row, wide
from headrace.web.console.texts import format_bytes
from headrace.web.console.view import Done, Page, View

WIDTHS = ("month", "week", "day")
CLOCKS = ("server", "event")
FOREVER = "forever"


def list_topics(view: View) -> Page:
    rows = view.collect(view.bind(log.list_topics))
    columns = (
        Column("topic", link=view.link("/topics", "topic")),
        wide("partitions"),
        Column("events", hint="Events in the log"),
        Column("rate_now", "events/s", hint="Events per second, as seen by this console"),
        Column("rate", "last 30 min", kind="spark", wide=True),
        Column("waiting", "in outbox", hint="Committed events that the sequencer has not moved yet"),
        "consumers",
        Column("retention_text", "retention", wide=True),
        wide("engine"),
        Column("last_appended_at", "last event"),
    )
    table = Table("topics", columns, _with_rates(view, rows), empty="headrace topic create orders --partitions 4")
    values = {"noun": "topic", "create_url": view.url("/topics/create")}
    return Page("list.html", "Topics", tables=(table,), values=values)


def show_topic(view: View) -> Page:
    """One topic: facts per shard, the rate of its events, its consumers."""
    name = view.path["topic"]
    rows = _with_rates(view, view.collect(lambda conn: [_read_topic(conn, view, name)]))
    values = {
        "topic": name,
        "rows": rows,
        "facts": [(row["shard"], _facts(row)) for row in rows],
        "series": [(row["shard"], row["rate"]) for row in rows],
        "first": rows[0],
        "would_erase": None,
    }
    return Page("topic.html", name, tables=(lag_table(view, topic=name),), values=values)


def _read_topic(conn: Connection, view: View, name: str) -> Row:
    topic = log.get_topic(conn, name, namespace=view.namespace)
    [size] = fetch_dicts(conn, "topic_bytes", topic=name, namespace=view.namespace)
    return {**to_row(topic), **size}


def create_form(view: View) -> Page:
    return Page("topic_create.html", "Create a topic", values={"widths": WIDTHS, "clocks": CLOCKS}, is_live=False)


def create(view: View) -> Done:
    name = view.text("topic")

    def act(conn: Connection) -> int:
        retention = view.text("retention")
        return log.create_topic(
            conn,
            name,
            partitions=view.whole_number("partitions") or 1,
            retention=parse_interval(conn, retention) if retention and retention != FOREVER else None,
            time_partition=cast("Literal['day', 'week', 'month']", view.choice("time_partition", WIDTHS)),
            clock=cast("log.Clock", view.choice("clock", CLOCKS)),
            namespace=view.namespace,
        )

    details = {key: view.form.get(key) for key in ("partitions", "retention", "time_partition", "clock")}
    view.change("topic.create", name, act, details=details)
    return Done(f"topic {name} created", view.url("/topics", name))


def alter(view: View) -> Done:
    """Changes partitions, retention and whether the archive must hold what is dropped."""
    name, form = view.path["topic"], view.form
    retention = view.text("retention")
    partitions = view.whole_number("partitions")

    def act(conn: Connection) -> None:
        before = log.get_topic(conn, name, namespace=view.namespace)
        interval = parse_interval(conn, "0" if retention == FOREVER else retention) if retention else None
        wanted = partitions if partitions != before.partitions else None
        if wanted is not None or interval is not None:
            log.alter_topic(conn, name, partitions=wanted, retention=interval, namespace=view.namespace)
        if (archive := form.get("archive") == "yes") != before.archive:
            keep_until_archived(conn, name, archive=archive, namespace=view.namespace)

    def state(conn: Connection) -> object:
        topic = log.get_topic(conn, name, namespace=view.namespace)
        return {"partitions": topic.partitions, "retention": topic.retention or FOREVER, "archive": topic.archive}

    view.change("topic.alter", name, act, state=state)
    return Done(f"topic {name} changed", view.url("/topics", name))


def erase(view: View) -> Done | Page:
    """Erases a key, after a preview and once the key was typed again. It is a form from the first step on: keys are personal data,
    and do not belong into addresses, which servers and browsers keep."""
    name, form = view.path["topic"], view.form
    key, fields = form.get("key", ""), form.get("fields", "").split()
    if not key:
        raise Invalid("write the key whose events are to be erased")

    act: Callable[[Connection], Erasure] = view.bind(
        erase_key_in_transaction,
        name,
        key,
        fields=fields or None,
        replace_key=form.get("replace_key") == "yes",
        actions=form.get("actions") == "yes",
    )
    if "again" not in form:
        page, results = show_topic(view), view.preview(act)
        facts = [
            (f"{shard}: {place}" if len(results) > 1 else place.capitalize(), count)
            for shard, erasure in results
            for place, count in erasure.row_counts.items()
        ]
        return replace(page, values={**page.values, "would_erase": facts})
    if form["again"] != key:
        raise Invalid("the key typed again is another one; nothing was erased")
    details = {"fields": fields or "all", "replace_key": form.get("replace_key"), "actions": form.get("actions")}
    erased = view.change("topic.erase", name, act, details=details)
    rows = sum(sum(erasure.row_counts.values()) for _, erasure in erased)
    erasures = ", ".join(str(erasure.erasure_id) for _, erasure in erased)
    return Done(
        f"erasure {erasures}: {rows} rows. Now run, where the archive is and as the owner of the tables: headrace topic erasures --finish",
        view.url("/topics", name),
    )


def busiest_table(view: View, rows: Sequence[Row], *, count: int = 8) -> Table:
    busiest = sorted(_with_rates(view, rows), key=lambda row: -(row["rate_now"] or 0))[:count]
    topic = Column("topic", link=view.link("/topics", "topic"))
    columns = (topic, "events", Column("rate_now", "events/s"), Column("rate", "last 30 min", kind="spark"))
    return Table("topics", columns, busiest, title="Busiest topics", empty="headrace topic create orders --partitions 4")


def _with_rates(view: View, rows: Sequence[Row]) -> list[Row]:
    """Rows with the number of events, and the rate since the console saw them first."""
    result: list[Row] = []
    for row in rows:
        key = view.samples_key(row["shard"])
        series = f"topic {row['topic']}"
        view.site.samples.record(key, {series: row["last_position"]})
        rate = view.site.samples.rates(*key, series)
        retention = row["retention"]
        result.append(
            {
                **row,
                "events": row["last_position"] - row["first_position"] + 1,
                "rate": rate,
                "rate_now": rate[-1][1] if rate else None,
                "retention_text": FOREVER if retention is None else str(retention).removesuffix(", 0:00:00"),
            }
        )
    return result


def _facts(row: Row) -> list[tuple[str, object]]:
    positions = f"{row['first_position']} to {row['last_position']}" if row["events"] else "none yet"
    return [
        ("Events in the log", row["events"]),
        ("Positions", positions),
        ("Size on disk", format_bytes(row["bytes"])),
        ("Partitions", row["partitions"]),
        ("Waiting in the outbox", row["waiting"]),
        ("Last event", row["last_appended_at"]),
        ("Retention", row["retention_text"]),
        ("Kept until archived", row["archive"]),
        ("Time partition", row["time_partition"]),
        ("Clock", row["clock"]),
        ("Rules and correlators run on", row["engine"]),
    ]


ROUTES = (
    read("/topics", list_topics),
    read("/topics/create", create_form),
    change("/topics/create", create, form=create_form),
    read("/topics/{topic}", show_topic),
    change("/topics/{topic}/alter", alter, form=show_topic),
    change("/topics/{topic}/erase", erase, form=show_topic),
)
