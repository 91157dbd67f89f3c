"""Hot queries use their indexes at realistic sizes, whatever the statistics say.

Statements inside functions are judged by PostgreSQL's own counters for the transaction: no table read from end to end, and no
more rows fetched than the work needs. Plain queries are judged by EXPLAIN."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from headrace.db import Connection, Server, connect, query
from tests.builders import drain, own_database, topic, trim_outbox

LOGGED, WAITING, PARTITIONS = 20_000, 10_000, 10


@dataclass
class Reads:
    """What a transaction has read of our tables so far."""

    whole_tables: list[str]
    rows: int


@pytest.fixture(scope="module")
def busy_template(server: Server) -> Iterator[str]:
    """The database that each test gets a copy of."""
    with own_database(server, "busy", template="headrace_template") as target:
        with connect(target) as conn:
            fill(conn)
            # Without counts of changed rows, autovacuum leaves the statistics alone.
            conn.execute("select pg_stat_force_next_flush(), pg_stat_reset()")
            (name,) = conn.execute("select current_database()").fetchone()  # type: ignore[misc]
        yield name


@pytest.fixture
def busy(server: Server, busy_template: str) -> Iterator[Connection]:
    with own_database(server, template=busy_template) as target, connect(target) as conn:
        yield conn


def fill(conn: Connection) -> None:
    """Two topics with a log and a full outbox. The statistics are those of the empty tables, the worst there are."""
    topic(conn, "orders", partitions=PARTITIONS)
    topic(conn, "bills", partitions=PARTITIONS)
    conn.execute("select headrace.create_consumer('orders', 'mail')")
    conn.execute("analyze")
    for name in ("orders", "bills"):
        write(conn, name, LOGGED)
    drain(conn)
    write(conn, "orders", WAITING)


def write(conn: Connection, name: str, count: int) -> None:
    conn.execute(
        """insert into headrace_internal.outbox_0 (topic_id, type, key, payload)
           select headrace.topic_id(%s), 'placed', 'k' || n, to_jsonb(n) from generate_series(1, %s) n""",
        (name, count),
    )


@contextmanager
def reads(conn: Connection, *tables: str) -> Iterator[Reads]:
    """Runs the block in a transaction and tells what it has read of the tables whose names begin so."""
    seen = Reads([], 0)
    with conn.transaction():
        # The counters may still hold what earlier transactions of the session have read.
        before = counters(conn, tables)
        yield seen
        for name, (in_line, by_index) in counters(conn, tables).items():
            in_line_before, by_index_before = before.get(name, (0, 0))
            seen.rows += in_line + by_index - in_line_before - by_index_before
            seen.whole_tables += [name] * (in_line > in_line_before)


def counters(conn: Connection, tables: Iterable[str]) -> dict[str, tuple[int, int]]:
    row = conn.execute(
        """select relname, coalesce(seq_tup_read, 0), coalesce(idx_tup_fetch, 0)
           from pg_stat_xact_user_tables where schemaname like 'headrace%%' and relname like any (%s)""",
        ([f"{table}\\_%" for table in tables],),
    )
    return {name: (in_line, by_index) for name, in_line, by_index in row}


def plan(conn: Connection, statement: str, **given: object) -> str:
    (found,) = conn.execute("explain (format json) " + statement, given).fetchone()  # type: ignore[misc, call-overload]
    return json.dumps(found)


def test_sequencer_finds_its_batch_by_index(busy: Connection) -> None:
    with reads(busy, "outbox", "log") as seen:
        busy.execute("select headrace.sequence(1000)")
    assert seen.whole_tables == []
    # Once to find the end of the batch, once to move it; the rest are probes.
    assert seen.rows <= 2 * 1000 + 100


def test_idle_poll_reads_almost_nothing(busy: Connection) -> None:
    drain(busy)
    busy.execute("vacuum headrace_internal.outbox_0, headrace_internal.outbox_1, headrace_internal.outbox_2")
    with reads(busy, "outbox", "log") as seen:
        busy.execute("select headrace.sequence(1000)")
        busy.execute("select headrace_internal.mark_idle_topics(0.25)")
    assert seen.rows <= 20


def test_going_to_sleep_does_not_read_waiting_events(busy: Connection) -> None:
    # Analyzed with many rows for one topic: a join would look cheap.
    busy.execute("analyze")
    with reads(busy, "outbox", "log") as seen:
        busy.execute("select headrace_internal.mark_idle_topics(0)")
    assert seen.rows <= 20


@pytest.mark.parametrize("analyzed", [False, True])
def test_trimming_the_outbox_neither_reads_nor_locks_waiting_events(busy: Connection, analyzed: bool) -> None:
    if analyzed:
        busy.execute("analyze")
    # Where the log's events have filled a slot of their own, that one is drained.
    trim_outbox(busy)
    with reads(busy, "outbox") as seen:
        assert trim_outbox(busy) == 0
        assert locked_slots(busy) == 0
    assert seen.rows <= 80


def test_trimming_the_outbox_locks_a_drained_slot(busy: Connection) -> None:
    drain(busy)
    with busy.transaction():
        trim_outbox(busy)
        assert locked_slots(busy) > 0


def locked_slots(conn: Connection) -> int:
    (found,) = conn.execute(
        """select count(*) from pg_locks l join pg_inherits i on i.inhrelid = l.relation
           where i.inhparent = 'headrace_internal.outbox'::regclass and l.mode = 'AccessExclusiveLock' and l.pid = pg_backend_pid()"""
    ).fetchone()  # type: ignore[misc]
    return int(found)


def test_claim_reads_one_batch(busy: Connection) -> None:
    with reads(busy, "log") as seen:
        claim = busy.execute("select upto from headrace.claim(1, 100)").fetchone()
    assert claim is not None
    assert seen.whole_tables == []
    # Either index will do, whatever the statistics of the moment say: that of the partition, or that of positions.
    assert seen.rows <= 110 * PARTITIONS


def test_claim_late_in_the_log_reads_one_batch(busy: Connection) -> None:
    busy.execute("update headrace_internal.cursor set position = %s", (LOGGED - 500,))
    with reads(busy, "log") as seen:
        busy.execute("select headrace.claim(1, 100)")
    assert seen.whole_tables == []
    assert seen.rows <= 110 * PARTITIONS


@pytest.mark.parametrize("analyzed", [False, True])
def test_head_is_one_step_from_the_end_of_the_index(busy: Connection, analyzed: bool) -> None:
    if analyzed:
        busy.execute("analyze")
    with reads(busy, "log") as seen:
        busy.execute("select position from headrace.log_head(1)")
    assert (seen.whole_tables, seen.rows) == ([], 1)


@pytest.mark.parametrize("analyzed", [False, True])
def test_stream_finds_the_event_before_its_position_by_index(busy: Connection, analyzed: bool) -> None:
    """Spark asks for it twice in every micro-batch."""
    if analyzed:
        busy.execute("analyze")
    parameters = {"topic_ids": [1, 2], "positions": [9000, LOGGED + 1]}
    with reads(busy, "log") as seen:
        events = busy.execute(query("spark/continuity"), parameters).fetchall()
    assert [(topic_id, event_id is None) for topic_id, event_id, *_ in events] == [(1, False), (2, True)]
    assert seen.whole_tables == []
    assert seen.rows <= 10


@pytest.mark.parametrize("analyzed", [False, True])
def test_reader_over_http_reads_what_it_gets(busy: Connection, analyzed: bool) -> None:
    if analyzed:
        busy.execute("analyze")
    wanted = {"granted_types": None, "key": None, "limit": 20, "scan": 500, "bytes": 1_000_000}
    for types, rows_max in ((None, 25), (["placed"], 505)):
        with reads(busy, "log") as seen:
            parameters = {"topic_id": 1, "after": 19_000, "types": types, **wanted}
            events = busy.execute(query("web/http/read_events"), parameters).fetchall()
        assert [event[:2] for event in events] == [(1, LOGGED)] * 20
        assert [event[3] for event in events] == list(range(19_001, 19_021))
        assert seen.whole_tables == []
        assert seen.rows <= rows_max


@pytest.mark.parametrize("analyzed", [False, True])
def test_time_of_a_topic_is_one_step_from_the_end_of_the_index(busy: Connection, analyzed: bool) -> None:
    if analyzed:
        busy.execute("analyze")
    with reads(busy, "log") as seen:
        row = busy.execute(query("correlators/topic_time"), {"topic": "orders", "namespace": None}).fetchone()
    assert row is not None and row[:2] == (1, LOGGED)
    assert seen.whole_tables == []
    assert seen.rows <= 2


def test_counters_notice_a_sequential_scan(busy: Connection) -> None:
    """The checker can fail: seeded with a query that has no index."""
    with reads(busy, "log") as seen:
        busy.execute("select count(*) from headrace.log where topic_id = 1 and type = 'none'")
    assert seen.whole_tables != []
    assert seen.rows >= LOGGED


def test_events_without_a_firing_are_found_by_their_ids(busy: Connection) -> None:
    busy.execute(
        """insert into headrace_internal.firing (topic_id, position, event_id, rule_version_id, action, action_id)
           select l.topic_id, l.position, l.event_id, 1, 'CALL', l.event_id from headrace_internal.log l"""
    )
    plan = busy.execute("explain (format text) select count(*) from headrace.event_unmatched").fetchall()
    lines = [line for (line,) in plan if "firing" in line]
    # By firing_position every event would read all firings of its topic.
    assert lines and not any("firing_position" in line for line in lines), lines


def test_reasons_are_computed_for_the_newest_events_only(busy: Connection) -> None:
    busy.execute("set track_functions = 'pl'")
    calls = "select calls from pg_stat_xact_user_functions where funcname = 'unmatched_reason'"
    newest = "select position, reason from headrace.event_unmatched order by position desc limit 3"
    with busy.transaction():
        rows = busy.execute(newest).fetchall()
        assert [position for position, _ in rows] == [LOGGED, LOGGED, LOGGED - 1]
        assert busy.execute(calls).fetchone() == (3,)


def test_events_without_a_firing_are_read_from_the_log_of_their_topic(busy: Connection) -> None:
    with reads(busy, "log") as seen:
        busy.execute("select reason from headrace.event_unmatched where topic = 'bills'")
    assert seen.rows <= LOGGED
