"""Erasing a key: an enemy who reads every table and every archive file finds nothing of it, and everybody else goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet as pq
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

from headrace.actions import send_action
from headrace.consume import Failure
from headrace.core import ArchiveBusy, Invalid
from headrace.db import AsyncConnection, Connection, Target
from headrace.log.archive import (
    erase_key,
    find_stored_range as stored,
    finish_erasures,
    list_archive,
    list_erasures,
    read_stored_events,
    verify_archive,
)
from headrace.log.topics import create_topic, read_log
from headrace.node import Headrace, Node
from headrace.observe.doctor import examine
from tests.builders import drain, shift_clock, wait_until
from tests.cli.conftest import Cli
from tests.log.archive.builders import archive_orders, drop, later

SECRET = "ada@secret.example"
"""In every payload of the person who wants to be forgotten."""
DAYS = 6
CORRELATORS = """insert into headrace.correlator (correlator, topic, key, pattern, outputs) values
    ('twice', 'orders', 'key', 'capture email = object ->> ''email''; repeat {push(seen) {sequential {placed as p, placed and <email = p.email>}}}',
     '{"seen": {"event": "customer.returned", "topic": "returns"}}'),
    ('mail', 'orders', 'object ->> ''email''', 'repeat {push(late) {sequential {placed, paid, fail {within 1 s {shipped}}}}}',
     '{"late": {"action": "remind"}}'),
    ('open', 'orders', 'object ->> ''email''', 'capture email = object ->> ''email''; push(x) {sequential {placed as p, refunded and <email = p.email>}}',
     '{}')"""


def publish(conn: Connection, person: str, type_: str = "placed", **fields: object) -> None:
    email = SECRET if person == "ada" else f"{person}@example.org"
    payload = {"email": email, "customer": {"name": email, "city": "Paris"}, **fields}
    headers = Jsonb({"from": email})
    conn.execute(
        "select headrace.publish('orders', %s, %s, p_key => %s, p_headers => %s)", (type_, Jsonb(payload), f"{person}-1", headers)
    )


def tables_with(conn: Connection, text: str) -> list[str]:
    """Every table of ours and of the queue in which a row holds the text."""
    names = conn.execute(
        """select c.oid::regclass::text from pg_class c join pg_namespace n on n.oid = c.relnamespace
           where n.nspname in ('headrace_internal', 'headrace', 'pgmq') and c.relkind = 'r'"""
    ).fetchall()
    holders = [
        name for (name,) in names if conn.execute(f"select from {name} t where strpos(t::text, %s) > 0 limit 1", (text,)).rowcount
    ]
    return sorted(holders)


def files_with(folder: Path, text: str) -> list[str]:
    """Every file in which the bytes, or the rows, hold the text."""
    names = []
    for path in (path for path in folder.rglob("*") if path.is_file()):
        rows = str(pq.ParquetFile(path).read().to_pylist()) if path.suffix == ".parquet" else ""
        if text.encode() in path.read_bytes() or text in rows:
            names.append(path.name)
    return names


def untouched(conn: Connection) -> list[Any]:
    """What must not change: the other person's events, and position, ids, type and times of all."""
    every = conn.execute(
        "select position, appended_at, emitted_at, partition, event_id, type, producer from headrace.log order by 1, 5"
    )
    others = conn.execute("select position, key, payload, headers from headrace.log where payload::text like '%bob%' order by 1")
    return [every.fetchall(), others.fetchall()]


async def run_node(app: Headrace, target: Target, conn: Connection, *statements: str) -> None:
    node = Node(app, [target])
    running = asyncio.create_task(node.run())
    try:
        for statement in statements:
            settled = lambda: conn.execute(statement).fetchone() == (True,)  # type: ignore[arg-type] # noqa: E731, B023
            await asyncio.to_thread(wait_until, settled, statement)
    finally:
        node.stop()
        await running


def failing_app() -> Headrace:
    app = Headrace()

    @app.consumer("orders", name="mailer", failure=Failure.dead_letter(attempts=1))
    async def mail(event: Any, tx: AsyncConnection) -> None:
        raise ValueError(f"cannot write to {event.payload['email']}")

    @app.handler("call", attempts=1)
    async def call(action: Any, tx: AsyncConnection) -> None:
        raise ValueError(f"no answer from {action.payload['email']}")

    return app


@pytest.fixture
async def busy(conn: Connection, database: Target, tmp_path: Path) -> Connection:
    """Ada's and Bob's data in log, archive, outbox, dead letters, queue, and state and outputs of correlators."""
    target = later(database, days=DAYS)
    create_topic(conn, "orders", partitions=2, time_partition="day")
    create_topic(conn, "returns")
    publish(conn, "ada", old=True)
    publish(conn, "bob", old=True)
    drain(conn)
    archive_orders(conn, database, tmp_path, days=DAYS)
    shift_clock(conn, f"{DAYS} days")
    publish(conn, "bob")
    drain(conn)
    assert all(dropped for dropped, _ in drop(conn, days=DAYS))
    conn.execute("update headrace_internal.namespace set unknown_names = 'allow'")
    conn.execute("""insert into headrace.rule (rule, topic, event_type, action, delay_s) values
        ('now', 'orders', 'placed', 'call', 0), ('later', 'orders', 'placed', 'wait', 3600)""")
    conn.execute(CORRELATORS)
    node_ready = "select count(*) = 3 from headrace.correlator where status = 'valid'"
    await run_node(Headrace(), target, conn, node_ready)
    for person in ("ada", "bob"):
        for type_ in ("placed", "placed", "paid"):
            publish(conn, person, type_)
    done = [
        "select count(*) >= 7 from headrace.event_dead_letter",
        "select count(*) >= 4 from headrace.action_dead_letters()",
        "select count(*) >= 4 from headrace.correlation",
        "select count(*) = 2 from headrace.log l join headrace.topic t using (topic_id) where t.topic = 'returns'",
    ]
    await run_node(failing_app(), target, conn, *done)
    conn.execute("update headrace_internal.dead_letter set edited_payload = payload where payload::text ~ %s", (SECRET,))
    send_action(conn, "greet", {"email": SECRET}, key="ada-1", unique_key=SECRET)
    publish(conn, "ada")
    return conn


async def test_nothing_of_an_erased_key_is_left_anywhere(busy: Connection, database: Target, tmp_path: Path) -> None:
    assert len(files_with(tmp_path, SECRET)) == 1
    before, held = untouched(busy), tables_with(busy, SECRET)
    assert {name.split(".")[0] for name in held} == {"headrace_internal", "pgmq"} and len(held) >= 8, held
    target = later(database, days=DAYS)
    preview = erase_key(target, "orders", "ada-1", replace_key=True, actions=True, dry_run=True)
    assert tables_with(busy, SECRET) == held and list_erasures(busy) == []
    erasure = erase_key(target, "orders", "ada-1", replace_key=True, actions=True)
    assert tables_with(busy, SECRET) == tables_with(busy, "ada-1") == []
    assert files_with(tmp_path, SECRET) == files_with(tmp_path, "ada-1") == []
    assert untouched(busy) == before
    assert erasure.row_counts == preview.row_counts and erasure.archives_pending == 0
    assert erasure.row_counts["archive"] == 1 and erasure.row_counts["outbox"] == 1 and erasure.row_counts["log"] == 4
    assert {file.problem for file in verify_archive(busy)} == {None}
    events = [event for batch in read_stored_events(busy, stored(busy, "orders")) for event in batch]
    erased = [(event.payload, event.headers) for event in events if event.key == erasure.new_key]
    assert erased == [("{}", f'{{"headrace-erased": "{erasure.erasure_id}"}}')] * 4
    assert tables_with(busy, "bob@example.org") and files_with(tmp_path, "bob@example.org")


async def test_consumers_go_on_past_erased_events(busy: Connection, database: Target) -> None:
    target, positions = later(database, days=DAYS), []
    erase_key(target, "orders", "ada-1")
    app = Headrace()

    @app.consumer("orders", name="reader")
    async def read(event: Any, tx: AsyncConnection) -> None:
        positions.append((event.key, event.payload["email"]))

    await run_node(app, target, busy, "select sum(lag_events) = 0 from headrace.consumer_lag where consumer = 'reader'")
    assert positions == [("bob-1", "bob@example.org")] * 4
    drain(busy)
    assert [event.headers for event in read_log(busy, "orders", after=2)][-1] == {"headrace-erased": "1"}


async def test_redaction_removes_the_fields_and_keeps_the_rest(busy: Connection, database: Target, tmp_path: Path) -> None:
    target = later(database, days=DAYS)
    # "from" is a header, which only a whole erasure removes: here it holds nothing.
    erasure = erase_key(target, "orders", "ada-1", fields=["email", "customer.name"], actions=True)
    drain(busy)
    events = [event for batch in read_stored_events(busy, stored(busy, "orders")) for event in batch if event.key == "ada-1"]
    assert {event.payload for event in events} == {
        '{"email": null, "customer": {"city": "Paris", "name": null}}',
        '{"old": true, "email": null, "customer": {"city": "Paris", "name": null}}',
    }
    assert all('"headrace-redacted": "1"' in event.headers for event in events)
    assert {file.problem for file in verify_archive(busy)} == {None}
    headers_alone = """select count(*) from headrace_internal.log l where strpos((to_jsonb(l) - 'headers')::text, %s) > 0"""
    assert busy.execute(headers_alone, (SECRET,)).fetchone() == (0,)
    [(letters,)] = busy.execute("select count(*) from headrace.action_dead_letters() where error = '(erased)'").fetchall()
    assert letters >= 2 and erasure.fields == ["email", "customer.name"]
    left = [
        name
        for name in tables_with(busy, SECRET)
        if "log_" not in name and "outbox" not in name and not name.endswith("dead_letter")
    ]
    assert left == []


def test_record_of_an_erasure_says_who_and_how_many_but_not_whom(conn: Connection, database: Target) -> None:
    create_topic(conn, "orders")
    # A name that no random id contains.
    publish(conn, "zoe")
    drain(conn)
    erase_key(database, "orders", "zoe-1")
    [row] = conn.execute("select to_jsonb(e) from headrace.erasure e").fetchall()
    assert row[0]["row_counts"] == {"log": 1} and row[0]["erased_by"] == conn.info.user
    assert "zoe" not in str(row[0])
    again = erase_key(database, "orders", "zoe-1")
    assert again.row_counts == {}


def test_erasure_in_sql_is_rejected_where_only_the_archive_has_events(conn: Connection, database: Target, tmp_path: Path) -> None:
    create_topic(conn, "orders", time_partition="day")
    publish(conn, "ada")
    drain(conn)
    assert conn.execute("select headrace.erase_key('orders', 'nobody')").fetchone() == (1,)
    archive_orders(conn, database, tmp_path, days=DAYS)
    drop(conn, days=DAYS)
    with pytest.raises(psycopg.Error, match="only its archive holds"):
        conn.execute("select headrace.erase_key('orders', 'ada-1')")
    with pytest.raises(Invalid, match="a key and"):
        erase_key(later(database, days=DAYS), "orders", "ada-1", fields=[])


async def test_rules_that_are_running_leave_nothing_behind(conn: Connection, database: Target) -> None:
    create_topic(conn, "orders")
    conn.execute("update headrace_internal.namespace set unknown_names = 'allow'")
    conn.execute(
        "insert into headrace.rule (rule, topic, event_type, action, delay_s) values ('later', 'orders', 'placed', 'wait', 3600)"
    )
    await run_node(Headrace(), database, conn, "select count(*) = 1 from headrace.rule_state where status = 'valid'")
    publish(conn, "ada")
    drain(conn)
    with psycopg.connect(database.dsn) as batch:
        assert batch.execute("select events, firings from headrace_internal.react(1)").fetchall() == [(1, 1)]
        erasing = asyncio.create_task(asyncio.to_thread(erase_key, database, "orders", "ada-1"))
        is_waiting = "select count(*) > 0 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        try:
            await asyncio.to_thread(
                wait_until, lambda: erasing.done() or conn.execute(is_waiting).fetchone() == (True,), "the lock"
            )
        finally:
            batch.commit()
    assert (await erasing).row_counts["actions"] == 1
    assert tables_with(conn, SECRET) == []


async def test_output_event_that_is_being_sequenced_is_erased(conn: Connection, database: Target) -> None:
    for name in ("orders", "returns", "habits"):
        create_topic(conn, name)
    conn.execute("""insert into headrace.correlator (correlator, topic, key, pattern, outputs) values
        ('twice', 'orders', 'key', 'repeat {push(seen) {sequential {placed, placed}}}',
         '{"seen": {"event": "customer.returned", "topic": "returns"}}'),
        ('often', 'returns', 'key', 'repeat {push(kept) {customer.returned}}', '{"kept": {"event": "customer.kept", "topic": "habits"}}')""")
    await run_node(Headrace(), database, conn, "select count(*) = 2 from headrace.correlator where status = 'valid'")
    publish(conn, "ada")
    publish(conn, "ada")
    drain(conn)
    is_done = "select count(*) = 2 from headrace.correlation"
    with psycopg.connect(database.dsn) as holder:
        # The output of the output stays in the outbox: another session holds its topic, as a sequencer does.
        holder.execute("select from headrace_internal.topic where topic = 'habits' for no key update")
        await run_node(Headrace(), database, conn, is_done)
    with psycopg.connect(database.dsn) as sequencer:
        moved = sequencer.execute("select events from headrace.sequence()").fetchall()
        assert moved == [(1,)], "the output of the output is now in the log, uncommitted"
        erasing = asyncio.create_task(asyncio.to_thread(erase_key, database, "orders", "ada-1", vacuum=False))
        is_waiting = "select count(*) > 0 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        waits = lambda: erasing.done() or conn.execute(is_waiting).fetchone() == (True,)  # noqa: E731
        try:
            await asyncio.to_thread(wait_until, waits, "the erasure waits for the sequencer")
        finally:
            sequencer.commit()
    assert (await erasing).row_counts["log"] == 4
    left = conn.execute(
        "select t.topic, l.key, l.payload from headrace.log l join headrace.topic t using (topic_id) where t.topic <> 'orders'"
    )
    assert sorted(left) == [("habits", None, {}), ("returns", None, {})]


def bytes_on_disk(conn: Connection, text: str) -> int:
    """How often the text is in the files of this database's tables."""
    conn.execute("checkpoint")
    [(folder,)] = conn.execute(
        "select current_setting('data_directory') || '/base/' || oid from pg_database where datname = current_database()"
    ).fetchall()
    return sum(path.read_bytes().count(text.encode()) for path in Path(folder).iterdir())


@pytest.mark.lane("pg18", "pg15")
def test_old_versions_of_the_rows_leave_the_disk(conn: Connection, database: Target) -> None:
    create_topic(conn, "orders")
    for number in range(40):
        publish(conn, "ada" if number % 4 == 0 else "bob", number=number)
    drain(conn)
    assert bytes_on_disk(conn, SECRET) > 0
    kept = erase_key(database, "orders", "ada-1", vacuum=False)
    assert any(table.startswith("headrace_internal.log_") for table in kept.tables_pending)
    assert bytes_on_disk(conn, SECRET) > 0, "an UPDATE alone leaves the old versions"
    with psycopg.connect(database.dsn) as reader:
        reader.execute("begin isolation level repeatable read")
        reader.execute("select")
        later_on = erase_key(database, "orders", "bob-1", vacuum=True)
        assert later_on.tables_pending, "a reader may still see the old versions"
        assert finish_erasures(database).is_blocked
        reader.rollback()
    result = finish_erasures(database, rewrite=True)
    assert set(kept.tables_pending) <= set(result.tables) and not result.not_owned
    assert [erasure.tables_pending for erasure in list_erasures(conn)] == [[], []]
    assert bytes_on_disk(conn, SECRET) == 0


@pytest.mark.lane("pg18", "pg15")
def test_role_that_may_not_vacuum_leaves_it_to_the_owner(conn: Connection, database: Target, cli: Cli) -> None:
    create_topic(conn, "orders")
    publish(conn, "ada")
    drain(conn)
    role = f"eraser_{conn.info.dbname}"
    conn.execute(f"create role {role} login")
    try:
        conn.execute("select headrace.grant_namespace(%s, 'default', 'admin')", (role,))
        erasure = erase_key(Target("test", make_conninfo(database.dsn, user=role)), "orders", "ada-1")
        assert erasure.row_counts == {"log": 1} and erasure.tables_pending
        assert [check.level for check in examine(database) if check.check == "erasures"] == ["warning"]
        assert cli("topic", "erasures", "--finish", "--json").json[0]["tables_pending"] == []
        assert [check.level for check in examine(database) if check.check == "erasures"] == ["ok"]
    finally:
        conn.execute(f"drop owned by {role}")
        conn.execute(f"drop role {role}")


PROGRAM = """
import os, signal, sys
from pathlib import Path
from headrace.log.archive import erase_key, recording, rewriting
from headrace.db import Target

module, name, when = sys.argv[3].split(":")
module = {"recording": recording, "rewriting": rewriting}[module]
original = getattr(module, name)
def dying(*words, **options):
    if when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    original(*words, **options)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(module, name, dying)
erase_key(Target("test", sys.argv[1]), "orders", "ada-1")
"""


def kill_at(target: Target, place: str) -> Iterator[None]:
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, target.dsn, "", place], env=environment, capture_output=True, check=False
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    yield


@pytest.mark.lane("pg18")
@pytest.mark.parametrize(
    "place",
    [
        "rewriting:read_content:before",
        "rewriting:record_files:before",
        "recording:delete_replaced:before",
        "rewriting:record_files:after",
    ],
)
def test_killed_erasure_is_finished_by_the_next_run(conn: Connection, database: Target, tmp_path: Path, place: str) -> None:
    create_topic(conn, "orders", time_partition="day")
    for person in ("ada", "bob", "ada"):
        publish(conn, person)
    drain(conn)
    archive_orders(conn, database, tmp_path, days=DAYS)
    target = later(database, days=DAYS)
    list(kill_at(target, place))
    assert tables_with(conn, SECRET) == [], "the database was done first"
    assert list_erasures(conn)[0].archives_pending == 1
    assert all(file.problem is None for file in verify_archive(conn)), "readers find a whole file at any time"
    wait_until(lambda: _finished(target), "the killed session's lock ends")
    assert list_erasures(conn)[0].archives_pending == 0
    assert files_with(tmp_path, SECRET) == [] and len(list(tmp_path.rglob("*.parquet"))) == 1
    assert [path for path in tmp_path.rglob(".*") if path.is_file()] == []
    assert [file.problem for file in verify_archive(conn)] == [None]
    rows = pq.ParquetFile(tmp_path / list_archive(conn)[0].file).read().to_pylist()
    assert [row["payload"] == "{}" for row in rows] == [True, False, True]


def _finished(target: Target) -> bool:
    try:
        finish_erasures(target)
    except ArchiveBusy:
        return False
    return True


def test_command_shows_first_and_erases_then(conn: Connection, cli: Cli) -> None:
    create_topic(conn, "orders")
    publish(conn, "ada")
    drain(conn)
    words = ("topic", "erase", "orders", "--key", "ada-1")
    assert "would be erased" in cli(*words, "--dry-run").out
    assert tables_with(conn, SECRET) != []
    out = cli(*words, "--yes").out
    assert "VACUUM freed" in out and "backups" in out
    assert tables_with(conn, SECRET) == []
    assert cli(*words, "--yes", "--json").json[0]["row_counts"] == {}
    assert "log 1" in cli("topic", "erasures").out
