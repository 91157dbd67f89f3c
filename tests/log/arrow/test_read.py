"""read gives the events of archive and log as one: every position once, in order, to every library that takes Arrow data."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import duckdb
import polars
import psycopg
import pyarrow as pa
import pytest
from psycopg.conninfo import make_conninfo

import headrace
from headrace.core import DatabaseUnavailable, Forbidden, HeadraceError, Invalid, NotFound, PositionOutOfRange, UnknownTopic
from headrace.db import Connection, Server, Target, connect, grant_namespace
from headrace.log.archive import find_stored_range, list_archive, read_stored_events
from headrace.log.arrow import ranges
from tests.builders import drain, own_database, topic, wait_until
from tests.log.archive.builders import archive_orders, drop, three_days
from tests.spark.reading import publish_numbers

pytestmark = pytest.mark.lane("pg18")


@pytest.fixture
def three(conn: Connection, database: Target, tmp_path: Path) -> Connection:
    """Positions 1 to 40, of which 1 to 30 are archived and still in the log."""
    three_days(conn)
    archive_orders(conn, database, tmp_path / "archive", days=6)
    return conn


def positions(events: headrace.Events) -> list[int]:
    return [position for batch in events.batches() for position in batch.column("position").to_pylist()]


def test_rows_are_the_stored_events_in_order(three: Connection, database: Target) -> None:
    drop(three, days=6)
    stored = [event for batch in read_stored_events(three, find_stored_range(three, "orders")) for event in batch]
    rows = headrace.read("orders", dsn=database).to_arrow().to_pylist()
    assert [row["position"] for row in rows] == list(range(1, 41))
    for row, event in zip(rows, stored, strict=True):
        assert {name: row[name] for name in vars(event) if name != "event_id"} == {
            name: value for name, value in vars(event).items() if name != "event_id"
        }
        assert row["event_id"] == str(event.event_id)


@pytest.mark.parametrize(
    "options",
    [
        {"types": "paid", "columns": ["position", "key"]},
        {"keys": ["k1", "k2"], "end": 33},
        {"start": 9, "end": 33},
        {"columns": ["shard", "position", "topic"]},
        {"columns": ["shard"], "types": "placed"},
        {"columns": [], "extract": {"n": "n", "deep": ["odd", "a", "1", "b"], "absent": "odd.x"}},
        {"where": "(object -> 'n')::int % 7 = 3 and key is not null", "columns": ["producer", "emitted_at"]},
        {"where": "headers ->> 'h' = '5' or emitted_at > '2026-01-01T00:30:00Z'"},
    ],
)
def test_selection_gives_the_same_rows_after_the_log_was_dropped(
    three: Connection, database: Target, options: dict[str, object]
) -> None:
    before = headrace.read("orders", dsn=database, **options).to_arrow()
    assert 0 < before.num_rows <= 40
    drop(three, days=6)
    after = headrace.read("orders", dsn=database, **options)
    assert after.to_arrow() == before
    assert after.schema == before.schema


def test_times_are_those_of_the_log(three: Connection, database: Target) -> None:
    (at,) = three.execute("select appended_at from headrace.log where position = 11").fetchone() or (None,)
    drop(three, days=6)
    assert isinstance(at, datetime)
    assert positions(headrace.read("orders", start=at, dsn=database)) == list(range(11, 41))
    assert positions(headrace.read("orders", end=at.isoformat(), dsn=database)) == list(range(1, 11))
    with pytest.raises(Invalid, match="has no time zone; add one"):
        headrace.read("orders", start=at.replace(tzinfo=None), dsn=database)


def test_every_library_takes_the_events(three: Connection, database: Target) -> None:
    drop(three, days=6)
    events = headrace.read("orders", dsn=database, columns=["position", "type"])
    assert duckdb.sql("select count(*), max(position) from events where type = 'paid'").fetchall() == [(13, 39)]
    assert polars.DataFrame(events).equals(events.to_polars())
    assert pa.table(events) == events.to_arrow()
    assert events.to_pandas()["position"].tolist() == list(range(1, 41))
    assert events.head(12).column("position").to_pylist() == list(range(1, 13))
    assert events.positions == {"test": range(1, 41)}


def test_read_is_of_the_log_as_it_was_when_it_was_planned(conn: Connection, database: Target) -> None:
    topic(conn)
    publish_numbers(conn, 3)
    drain(conn)
    events = headrace.read("orders", dsn=database)
    publish_numbers(conn, 3)
    drain(conn)
    assert positions(events) == positions(events) == [1, 2, 3]
    assert headrace.read("orders", start="latest", dsn=database).to_arrow().num_rows == 0


def test_what_is_archived_and_dropped_after_planning_comes_from_the_archive(three: Connection, database: Target) -> None:
    events = headrace.read("orders", dsn=database)
    assert drop(three, days=6)[0] == (True, None)
    assert positions(events) == list(range(1, 41))


def test_rows_come_in_order_however_they_are_stored(conn: Connection, database: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Space that vacuum freed is used again, so the table itself may be in any order."""
    topic(conn)
    conn.execute("select headrace_internal.attach_log(headrace.topic_id('orders'))")
    conn.execute(
        """insert into headrace_internal.log (position, appended_at, emitted_at, topic_id, partition, event_id, type, payload, headers)
           select n, headrace.clock(), headrace.clock(), headrace.topic_id('orders'), 0, headrace.uuid_v7(), 'placed', to_jsonb(n), '{}'
           from (select generate_series(1, 1000) as n order by random()) s"""
    )
    for part in (ranges.PART_POSITIONS_MAX, 7):
        monkeypatch.setattr(ranges, "PART_POSITIONS_FIRST", min(part, ranges.PART_POSITIONS_FIRST))
        monkeypatch.setattr(ranges, "PART_POSITIONS_MAX", part)
        events = headrace.read("orders", dsn=database, columns=["payload"], where="(object #>> '{}')::int % 3 = 0")
        assert [int(row["payload"]) for row in events.to_arrow().to_pylist()] == list(range(3, 1000, 3))


def watch_parts(monkeypatch: pytest.MonkeyPatch) -> list[range]:
    """The positions of every part that is read from now on."""
    parts: list[range] = []
    read = ranges.read_log_range

    def watched(conn: Any, part: Any, selection: Any) -> Iterator[pa.RecordBatch]:
        parts.append(range(part.first, part.until))
        return read(conn, part, selection)

    monkeypatch.setattr(ranges, "read_log_range", watched)
    return parts


def test_reading_that_is_given_up_leaves_nothing_behind(
    conn: Connection, database: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next part is read ahead, by a thread and with the reader's connection."""
    topic(conn)
    publish_numbers(conn, 40)
    drain(conn)
    monkeypatch.setattr(ranges, "PART_POSITIONS_FIRST", 5)
    monkeypatch.setattr(ranges, "PART_POSITIONS_MAX", 5)
    parts = watch_parts(monkeypatch)
    reading = headrace.read("orders", dsn=database).batches()
    assert next(reading).num_rows == 5
    assert parts == [range(1, 6)], "whoever wants the first events only is not made to wait for others"
    assert next(reading)["position"][0].as_py() == 6
    reading.close()
    assert [part.start for part in parts] in ([1, 6], [1, 6, 11])
    assert not [thread for thread in threading.enumerate() if "next part of the log" in thread.name]
    sessions = """select count(*) from pg_stat_activity
        where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()"""
    wait_until(lambda: conn.execute(sessions).fetchone() == (0,), "the connection is closed")


def test_parts_are_short_where_payloads_are_long(conn: Connection, database: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    topic(conn)
    publish_numbers(conn, 100)
    conn.execute("select headrace.publish('orders', 'placed', to_jsonb(repeat('x', 100000))) from generate_series(1, 40)")
    drain(conn)
    monkeypatch.setattr(ranges, "PART_POSITIONS_FIRST", 10)
    monkeypatch.setattr(ranges, "PART_BYTES", 1_000_000)
    monkeypatch.setattr(ranges, "PART_POSITIONS_MAX", 110)
    parts = watch_parts(monkeypatch)
    assert positions(headrace.read("orders", dsn=database)) == list(range(1, 141))
    # Of the first ten it is known that events are short; the next part has the first long ones.
    assert [len(part) for part in parts[:2]] == [10, 110]
    assert all(2 < len(part) < 10 for part in parts[2:-1])


def test_error_in_a_part_that_is_read_ahead_is_raised(
    conn: Connection, database: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic(conn)
    publish_numbers(conn, 40)
    drain(conn)
    monkeypatch.setattr(ranges, "PART_POSITIONS_FIRST", 5)
    monkeypatch.setattr(ranges, "PART_POSITIONS_MAX", 5)
    reading = headrace.read("orders", dsn=database).batches()
    assert [next(reading).num_rows, next(reading).num_rows] == [5, 5]
    conn.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    )
    with pytest.raises(DatabaseUnavailable):
        list(reading)


def test_retention_waits_for_what_is_being_read(three: Connection, database: Target) -> None:
    reading = headrace.read("orders", dsn=database).batches()
    next(reading)
    three.execute("set lock_timeout = '100ms'")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        three.execute("drop table headrace_internal.log")
    three.execute("reset lock_timeout")
    reading.close()
    assert drop(three, days=6)[0] == (True, None)


def test_file_that_compaction_replaced_is_found_again(three: Connection, database: Target, tmp_path: Path) -> None:
    drop(three, days=6)
    files = list_archive(three)
    reading = headrace.read("orders", dsn=database, columns=["position"]).batches()
    first = next(reading).num_rows
    (tmp_path / "archive").rename(tmp_path / "moved")
    three.execute("update headrace_internal.archive set folder = %s", (str(tmp_path / "moved"),))
    assert len(files) == 2 and first + sum(batch.num_rows for batch in reading) == 40


def test_log_alone(three: Connection, database: Target, tmp_path: Path) -> None:
    drop(three, days=6)
    assert positions(headrace.read("orders", archive=False, dsn=database)) == list(range(31, 41))
    with pytest.raises(PositionOutOfRange, match="dropped 30 of the positions 1 to 30, and the archive does not have them"):
        headrace.read("orders", archive=False, start=1, dsn=database).to_arrow()
    (tmp_path / "archive").rename(tmp_path / "moved")
    with pytest.raises(NotFound, match="which does not exist"):
        headrace.read("orders", dsn=database).to_arrow()
    assert positions(headrace.read("orders", archive=tmp_path / "moved", dsn=database)) == list(range(1, 41))


@pytest.fixture
def shards(server: Server) -> Iterator[list[Target]]:
    """Two databases: three events on `a`, five on `b`."""
    with (
        own_database(server, "a", template="headrace_template") as a,
        own_database(server, "b", template="headrace_template") as b,
    ):
        for target, count in ((a, 3), (b, 5)):
            with connect(target) as conn:
                topic(conn)
                publish_numbers(conn, count)
                drain(conn)
        yield [a, b]


def test_shards_are_one_table(shards: list[Target]) -> None:
    events = headrace.read("orders", dsn=shards)
    places = events.to_arrow().select(["shard", "position"]).to_pylist()
    assert [tuple(row.values()) for row in places] == [*(("a", n) for n in range(1, 4)), *(("b", n) for n in range(1, 6))]
    addresses = " ".join(f"{target.name}=postgresql://?{_query(target.dsn)}" for target in shards)
    assert headrace.read("orders", dsn=addresses).to_arrow().num_rows == 8
    with pytest.raises(Invalid, match="each shard has its own positions"):
        headrace.read("orders", start=2, dsn=shards)
    with connect(shards[0]) as conn:
        conn.execute("select headrace.drop_topic('orders')")
    assert headrace.read("orders", dsn=shards).positions == {"b": range(1, 6)}


def _query(dsn: str) -> str:
    return "&".join(f"{name}={quote(str(value), safe='')}" for name, value in psycopg.conninfo.conninfo_to_dict(dsn).items())


def test_role_reads_its_namespace_alone(conn: Connection, database: Target) -> None:
    role = f"reader_{uuid4().hex[:8]}"
    conn.execute(f"create role {role} login")
    for namespace in ("shop", "bank"):
        conn.execute("select headrace.create_namespace(%s)", (namespace,))
        conn.execute("select headrace.create_topic('orders', p_namespace => %s)", (namespace,))
        conn.execute("select headrace.publish('orders', 'placed', '1', p_namespace => %s)", (namespace,))
    drain(conn)
    grant_namespace(conn, role, "shop", "consume")
    own = Target("main", make_conninfo(database.dsn, user=role))
    try:
        assert headrace.read("orders", namespace="shop", dsn=own).to_arrow().num_rows == 1
        with pytest.raises((Forbidden, NotFound)):
            headrace.read("orders", namespace="bank", dsn=own)
    finally:
        conn.execute(f"drop owned by {role}")
        conn.execute(f"drop role {role}")


def test_mistakes_are_said_at_once(conn: Connection, database: Target) -> None:
    topic(conn)
    publish_numbers(conn, 3)
    drain(conn)

    def error(class_: type[HeadraceError], name: str = "orders", **options: object) -> str:
        with pytest.raises(class_) as raised:
            headrace.read(name, **{"dsn": database, **options})
        return str(raised.value)

    assert "nope" in error(UnknownTopic, "nope")
    assert error(Invalid, columns=["offset"]).startswith("events have no column offset; they have position, partition, event_id")
    assert error(Invalid, extract={"key": "a"}) == "extract names key, which events have already; choose another name"
    assert error(Invalid, extract={"city": ""}) == "extract has no path for 'city'"
    assert error(Invalid, columns=["key", "key"]) == "a column is named twice: key, key"
    assert error(Invalid, where="object >> 3").startswith("condition, line 1, column")
    assert "neither in the archive nor in the log, which hold 1 to 3" in error(PositionOutOfRange, start=9)
    assert error(Invalid, dsn=[]) == "there is no shard; name at least one database"
    down = Target("main", make_conninfo(database.dsn, host="127.0.0.1", port=1))
    assert "cannot reach database" in error(DatabaseUnavailable, dsn=down)


def test_notebook_shows_the_first_events_as_text(conn: Connection, database: Target) -> None:
    topic(conn)
    headrace.publish(conn, "orders", "placed", {"name": "<script>alert(1)</script>"}, key="<b>")
    drain(conn)
    html = headrace.read("orders", dsn=database)._repr_html_()
    assert "<script" not in html and "&lt;script&gt;" in html and "&lt;b&gt;" in html
    assert "topic orders: 1 positions" in html
