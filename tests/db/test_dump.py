"""A database that is dumped and restored by PostgreSQL's own programs goes on where the dump was taken."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from headrace.db import Connection, Server, Target, connect, migrate, pending_steps
from headrace.log.archive import list_archive
from headrace.log.topics import create_topic, list_topics
from tests.builders import drain, fill, numbers, own_database, publish, wait_until

CLAIM = "select payload from headrace.claim_events(%s, 10, 1, 0, 1)"
CURSOR = "select position, attempts, single_to from headrace.cursor where consumer_id = %s"


@pytest.fixture
def restored(server: Server) -> Iterator[Target]:
    with own_database(server, "restored", template="template0") as target:
        yield target


def restore(server: Server, source: Target, target: Target, folder: Path) -> None:
    """Dumps a database and restores it into an empty one, in one transaction: the first error ends it."""
    dump = folder / "dump.sql"
    with dump.open("w", encoding="utf-8") as file:
        subprocess.run([server.program("pg_dump"), "-d", source.dsn], stdout=file, check=True)
    psql = [server.program("psql"), "-d", target.dsn, "-X", "-q", "-1", "-v", "ON_ERROR_STOP=1", "-f", dump]
    subprocess.run(psql, stdout=subprocess.DEVNULL, check=True)


def test_restored_database_goes_on_where_it_was_dumped(
    server: Server, conn: Connection, database: Target, restored: Target, tmp_path: Path
) -> None:
    create_topic(conn, "orders", partitions=2)
    fill(conn, 5, keys=3)
    for n in (6, 7):
        publish(conn, n, key="k1")
    restore(server, database, restored, tmp_path)
    with connect(restored) as other:
        assert pending_steps(other) == [] and migrate(other) == []
        assert [topic.topic for topic in list_topics(other)] == ["orders"] and list_archive(other) == []
        assert drain(other) == 2
        publish(other, 8)
        assert drain(other) == 1
        assert numbers(other) == [1, 2, 3, 4, 5, 6, 7, 8]
        create_topic(other, "bills")
        publish(other, 1, topic="bills")
        assert drain(other) == 1


def test_restored_database_takes_no_claim_of_the_old_one_for_lost(
    server: Server, conn: Connection, database: Target, restored: Target, tmp_path: Path
) -> None:
    """Transactions have other ids there."""
    create_topic(conn, "orders")
    fill(conn, 3)
    [consumer_id] = conn.execute("select headrace.create_consumer('orders', 'mails')").fetchone() or ()
    lost = psycopg.connect(database.dsn)
    assert len(lost.execute(CLAIM, (consumer_id,)).fetchall()) == 4
    lost.close()
    # A running one holds back neither the dump nor what is restored.
    with psycopg.connect(database.dsn) as running:
        running.execute("select txid_current()")
        # Not by the running one: a transaction sees the sessions of its first look to its end.
        ended = "select from pg_stat_activity where state = 'idle in transaction' and datname = current_database() and pid <> %s"
        wait_until(lambda: conn.execute(ended, (running.info.backend_pid,)).fetchone() is None, "the end of the session")
        restore(server, database, restored, tmp_path)
    with connect(restored) as other:
        assert len(other.execute(CLAIM, (consumer_id,)).fetchall()) == 4
        assert other.execute(CURSOR, (consumer_id,)).fetchall() == [(0, 0, 0)]
    assert conn.execute(CLAIM, (consumer_id,)).fetchall() == [({"events": 0, "partial": True},)], "the old one knows"
    assert conn.execute(CURSOR, (consumer_id,)).fetchall() == [(0, 0, 3)]
