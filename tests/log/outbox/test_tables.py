"""The tables of the outbox take turns and are truncated, while publishers, prepared transactions and dumps hold what they hold."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event as Signal
from uuid import uuid4

import psycopg
import pytest

from headrace.core import UnknownTopic
from headrace.db import Connection, Server, Target, connect, migrate
from headrace.log.outbox import publish, statements
from headrace.log.topics import create_topic, sequence
from tests.builders import drain, numbers, topic, trim_outbox
from tests.conftest import FAST, temporary_folder

SLOTS = range(3)


@pytest.fixture(scope="module")
def prepared_dsn() -> Iterator[str]:
    """A server that allows prepared transactions."""
    folder = temporary_folder(in_memory=True)
    server = Server(folder, settings=FAST | {"max_prepared_transactions": "5"})
    server.start()
    try:
        with connect(Target("prepared", server.dsn())) as conn:
            migrate(conn)
        yield server.dsn()
    finally:
        server.stop()
        shutil.rmtree(folder)


def insert(conn: Connection, slot: int, n: int, *, key: str | None = None) -> None:
    """Publishes a number into a table of the outbox."""
    conn.execute(
        f"insert into headrace.event_{slot} (topic, type, payload, key) values ('orders', 'placed', to_jsonb(%s::int), %s)",
        (n, key),
    )


def sizes(conn: Connection) -> list[int]:
    """The bytes of each table of the outbox, without its index."""
    rows = conn.execute(
        "select pg_relation_size(('headrace_internal.outbox_' || n)::regclass) from generate_series(0, 2) n order by n"
    )
    return [int(row[0]) for row in rows.fetchall()]


def test_key_in_two_tables_keeps_its_order(conn: Connection) -> None:
    """The tables take turns 2, 0, 1 here, and the ids decide."""
    topic(conn, partitions=3)
    for n in range(30):
        insert(conn, (n + 2) % 3, n, key="k")
    while sequence(conn, batch=7):
        pass
    assert numbers(conn) == list(range(30))


def test_open_publisher_and_prepared_transaction_keep_their_tables_only(prepared_dsn: str) -> None:
    """For many rounds; what they have published comes when they commit."""
    target = Target("prepared", prepared_dsn)
    with connect(target) as conn, connect(target) as publisher, connect(target) as preparer:
        topic(conn)
        publisher.execute("begin")
        insert(publisher, 0, 1)
        preparer.execute("begin")
        insert(preparer, 1, 2)
        preparer.execute("prepare transaction 'order 2'")
        for number in range(5):
            for slot in SLOTS:
                insert(conn, slot, 10 + 3 * number + slot)
            assert drain(conn) == 3
            assert trim_outbox(conn) == 1
            assert [size > 0 for size in sizes(conn)] == [True, True, False]
        publisher.execute("commit")
        preparer.execute("commit prepared 'order 2'")
        assert drain(conn) == 2
        assert trim_outbox(conn) == 2
        assert sizes(conn) == [0, 0, 0]
        assert numbers(conn) == [*range(10, 25), 1, 2]


def test_table_rests_before_it_is_truncated(conn: Connection) -> None:
    """For a dump whose snapshot is older than its locks. The rest begins again with every event that is moved meanwhile."""
    topic(conn)

    def trim_at(second: float) -> int:
        """In the third turn after the beginning of a round: table 0 is not written to, and not next."""
        conn.execute("select pg_stat_force_next_flush()")
        conn.execute(
            """select set_config('headrace.clock_shift', ((12 - extract(epoch from statement_timestamp())::numeric %% 12 + %s)
                || ' s')::text, false)""",
            (second,),
        )
        return int(conn.execute("select headrace_internal.trim_outbox()").fetchone()[0])  # type: ignore[index]

    insert(conn, 0, 1)
    drain(conn)
    assert [trim_at(4.1), trim_at(6.0)] == [0, 0]
    insert(conn, 0, 2)
    drain(conn)
    assert [trim_at(7.2), trim_at(8.5), trim_at(10.3)] == [0, 0, 1]


def test_client_with_a_wrong_clock_loses_nothing(conn: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its library names another table than the server would; that table is truncated, too."""
    topic(conn)
    for n in range(12):
        monkeypatch.setattr(statements, "time", lambda n=n: 1_000_000 + 1.7 * n)
        publish(conn, "orders", "placed", n, key="k")
        trim_outbox(conn)
    drain(conn)
    assert numbers(conn) == list(range(12))
    trim_outbox(conn)
    assert sizes(conn) == [0, 0, 0]


def test_nobody_writes_to_the_parent(conn: Connection) -> None:
    topic(conn)
    with pytest.raises(psycopg.errors.CheckViolation, match="outbox_has_no_rows_itself"):
        conn.execute("insert into headrace_internal.outbox (topic_id, type, payload) values (1, 'placed', '1')")


@pytest.mark.parametrize("slot", SLOTS)
def test_every_language_publishes_by_an_insert(conn: Connection, slot: int) -> None:
    """The defaults and the errors are those of the function."""
    topic(conn)
    conn.execute("update headrace_internal.topic set asleep = false")
    view = f"headrace.event_{slot}"
    conn.execute(f"insert into {view} (topic, type, payload) values ('orders', 'placed', '1'), ('orders', 'paid', '2')")
    rows = conn.execute("select tableoid::regclass::text, type, key, headers, event_id from headrace_internal.outbox order by id")
    found = rows.fetchall()
    table = f"headrace_internal.outbox_{slot}"
    assert [row[:4] for row in found] == [(table, "placed", None, {}), (table, "paid", None, {})]
    assert len({row[4] for row in found}) == 2 and all(row[4].version == 7 for row in found)
    for values in (
        "('none', 'placed', '1', null, null)",
        "('orders', 'not a  name', '1', null, null)",
        "('orders', 'placed', null, null, null)",
        "('orders', 'placed', '1', '', null)",
        "('orders', 'placed', '1', null, '[]')",
    ):
        with pytest.raises(psycopg.Error) as by_insert:
            conn.execute(f"insert into {view} (topic, type, payload, key, headers) values {values}")
        with pytest.raises(psycopg.Error) as by_function:
            conn.execute(f"select headrace.publish{values}")
        assert str(by_insert.value).splitlines()[0] == str(by_function.value).splitlines()[0]
        assert by_insert.value.sqlstate == by_function.value.sqlstate and str(by_insert.value.sqlstate).startswith("HR")
    unknown = conn.execute(f"insert into {view} (topic, type, payload, missing_ok) values ('none', 'placed', '1', true)")
    assert unknown.rowcount == 0
    with conn.transaction(), pytest.raises(UnknownTopic):
        publish(conn, "none", "placed")


@pytest.mark.parametrize("topics", [1, 300])
@pytest.mark.parametrize("analyzed", [False, True])
def test_statement_finds_its_topic_by_index_and_locks_one_table(conn: Connection, topics: int, analyzed: bool) -> None:
    """Whatever the statistics say; a table of one page is read as a whole if they know it."""
    topic(conn)
    for n in range(1, topics):
        conn.execute(
            """insert into headrace_internal.topic (namespace, topic, partitions, asleep) values ('default', %s, 1, false)""",
            (f"more-{n}",),
        )
    conn.execute("update headrace_internal.topic set asleep = false")
    if analyzed:
        conn.execute("analyze headrace_internal.topic")
    conn.execute("set plan_cache_mode = force_generic_plan")
    conn.execute(
        """prepare one (text, uuid) as insert into headrace.event_1 (topic, type, event_id, payload, is_checked, missing_ok)
           values ($1, 'placed', $2, '1', true, true)"""
    )
    conn.execute("execute one('orders', gen_random_uuid())")
    with conn.transaction():
        conn.execute("execute one('orders', gen_random_uuid())")
        locked = conn.execute(
            """select l.relation::regclass::text from pg_locks l join pg_inherits i on i.inhrelid = l.relation
               where i.inhparent = 'headrace_internal.outbox'::regclass and l.pid = pg_backend_pid() and l.mode = 'RowExclusiveLock'
                   and l.relation in (select c.oid from pg_class c where c.relkind = 'r')"""
        ).fetchall()
        assert locked == [("headrace_internal.outbox_1",)]
    plan = "\n".join(row[0] for row in conn.execute("explain execute one('orders', '00000000-0000-0000-0000-000000000000')"))
    assert ("Index Scan using topic_name_unique" in plan and "Seq Scan" not in plan) or (analyzed and topics == 1)


@pytest.mark.timeout(180)
@pytest.mark.lane("pg18")
def test_sizes_stay_bounded_under_32_publishers(conn: Connection, database: Target, server: Server, tmp_path: Path) -> None:
    """They never pause all at once, the sequencer runs, and a snapshot is held: every table is truncated after its turn."""
    topic(conn)
    script = tmp_path / "publish.sql"
    script.write_text("select headrace.publish('orders', 'placed', '1')")
    command = [str(server.program("pgbench")), "--no-vacuum", f"--file={script}", "--client=32", "--rate=400", "--time=28"]
    with connect(database) as holder:
        holder.execute("begin isolation level repeatable read")
        holder.execute("select count(*) from headrace.log")
        clients = subprocess.Popen([*command, f"--dbname={database.dsn}"], stdout=subprocess.PIPE, text=True)
        truncated: set[int] = set()
        while clients.poll() is None:
            before = sizes(conn)
            sequence(conn)
            conn.execute("select headrace_internal.trim_outbox()")
            truncated |= {slot for slot in SLOTS if before[slot] > 0 and sizes(conn)[slot] == 0}
            # As often as a sequencer steps: a loop without pauses would take a core from the publishers.
            with suppress(subprocess.TimeoutExpired):
                clients.wait(0.05)
        out, _ = clients.communicate()
    assert truncated == set(SLOTS)
    drain(conn)
    processed = re.search(r"actually processed: (\d+)", out)
    assert processed is not None and len(numbers(conn)) == int(processed[1]) > 1000


@pytest.mark.timeout(180)
def test_dump_under_load_has_every_event_once(conn: Connection, database: Target, server: Server, tmp_path: Path) -> None:
    """In the outbox or in the log: its snapshot is older than its locks, and tables are truncated in between."""
    topic(conn)
    stop = Signal()
    published: list[int] = []

    def load() -> None:
        with connect(database) as client:
            n = 0
            while not stop.is_set():
                publish(client, "orders", "placed", n)
                published.append(n)
                n += 1

    def move() -> None:
        with connect(database) as node:
            while not stop.is_set():
                sequence(node)
                node.execute("select headrace_internal.trim_outbox()")

    def dump(path: Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [
                str(server.program("pg_dump")),
                "--data-only",
                "--table=headrace_internal.outbox*",
                "--table=headrace_internal.log*",
                f"--file={path}",
                database.dsn,
            ]
        )

    with ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        stack.callback(stop.set)
        jobs = [pool.submit(load), pool.submit(move)]
        for number in range(8):
            before = len(published)
            path = tmp_path / f"{number}.sql"
            assert dump(path).wait(60) == 0
            found = dumped(path)
            assert len(found) == len(set(found)), "an event is in the dump twice"
            assert set(found) == set(range(len(found))) and len(found) >= before, "an event is missing"
        stop.set()
        for job in jobs:
            job.result()


def dumped(path: Path) -> list[int]:
    """The payloads of the events in a dump."""
    found: list[int] = []
    columns: list[str] | None = None
    for line in path.read_text().splitlines():
        if line.startswith("COPY headrace_internal."):
            columns = line[line.index("(") + 1 : line.index(")")].split(", ")
            columns = columns if "payload" in columns else None
        elif line == "\\.":
            columns = None
        elif columns:
            found.append(int(line.split("\t")[columns.index("payload")]))
    return found


def test_tenant_publishes_by_the_statement_what_it_may(conn: Connection, database: Target) -> None:
    """The errors are those of the function, also with constants that only the library may use."""
    role = f"role_{uuid4().hex[:12]}"
    conn.execute("select headrace.create_namespace('shop'), headrace.create_namespace('bank')")
    for namespace in ("shop", "bank"):
        create_topic(conn, "orders", namespace=namespace)
    conn.execute("update headrace_internal.topic set asleep = false")
    conn.execute(f"create role {role} login; select headrace.grant_namespace('{role}', 'shop', 'publish')")
    statement = "insert into headrace.event_0 (topic, type, payload, namespace, is_checked) values (%s, %s, '1', %s, true)"
    try:
        with connect(database) as session:
            session.execute(f"set role {role}")
            assert session.execute(statement, ("orders", "placed", "shop")).rowcount == 1
            for values in [
                ("orders", "placed", "bank"),
                ("orders", "placed", "default"),
                ("orders", "not a  name", "shop"),
                ("none", "placed", "shop"),
                ("none", "placed", "bank"),
                ("headrace.audit", "placed", "shop"),
            ]:
                with pytest.raises(psycopg.Error) as by_insert:
                    session.execute(statement, values)
                with pytest.raises(psycopg.Error) as by_function:
                    session.execute("select headrace.publish(%s, %s, '1', p_namespace => %s)", values)
                assert str(by_insert.value).splitlines()[:1] == str(by_function.value).splitlines()[:1]
                assert by_insert.value.sqlstate == by_function.value.sqlstate
        assert drain(conn) == 1
    finally:
        conn.execute(f"drop owned by {role}; drop role {role}")
