"""A standby that lost the newest events is promoted: whoever kept positions outside of the database notices."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from headrace.core import LogWentBack
from headrace.db import Connection, Server, Target, connect, migrate
from headrace.log.archive import list_archive
from headrace.log.topics import create_topic
from headrace.spark import event_schema
from headrace.spark.source import EventStreamReader
from tests.builders import numbers, wait_until
from tests.conftest import FAST, temporary_folder
from tests.log.archive.builders import archive_orders, events
from tests.spark.reading import secret_file


@dataclass(frozen=True)
class Pair:
    """A primary and its standby, which receives the changes asynchronously."""

    primary: Server
    standby: Server

    def cut(self) -> None:
        """The standby has everything so far and receives nothing from now on."""
        with psycopg.connect(self.primary.dsn(), autocommit=True) as conn:
            (lsn,) = conn.execute("select pg_current_wal_insert_lsn()").fetchone()  # type: ignore[misc]
        with psycopg.connect(self.standby.dsn(), autocommit=True) as conn:
            replayed = "select pg_last_wal_replay_lsn() >= %s::pg_lsn"
            wait_until(lambda: conn.execute(replayed, (lsn,)).fetchone() == (True,), "the standby to catch up")
            conn.execute("alter system set primary_conninfo = ''")
            conn.execute("select pg_reload_conf()")
            wait_until(
                lambda: conn.execute("select from pg_stat_wal_receiver where pid is not null").fetchone() is None, "the cut"
            )

    def fail_over(self) -> Target:
        """The primary dies, the standby is promoted."""
        self.primary.kill()
        with psycopg.connect(self.standby.dsn(), autocommit=True) as conn:
            conn.execute("select pg_promote(true)")
        return Target("main", self.standby.dsn())


@pytest.fixture
def pair() -> Iterator[Pair]:
    folder = temporary_folder(in_memory=True)
    primary = Server(folder / "primary", settings=FAST)
    primary.start()
    standby = Server(folder / "standby", settings=FAST)
    try:
        with connect(Target("main", primary.dsn())) as conn:
            migrate(conn)
        standby.clone(primary.dsn())
        standby.start()
        yield Pair(primary, standby)
    finally:
        primary.stop()
        standby.stop()
        shutil.rmtree(folder)


def epoch(conn: Connection) -> str:
    return str(conn.execute("select headrace.log_epoch()").fetchone()[0])  # type: ignore[index]


def record_epoch(conn: Connection) -> str | None:
    """What a node does every minute: it returns the epoch before a new one."""
    return conn.execute("select headrace_internal.record_epoch()").fetchone()[0]  # type: ignore[index]


def consume(conn: Connection, limit: int) -> list[int]:
    """Claims and acknowledges a batch of the consumer `effects`; the positions are an effect outside of the database."""
    with conn.transaction():
        consumer_id = "(select consumer_id from headrace.consumer where consumer = 'effects')"
        claim = conn.execute(f"select position, upto, partition from headrace.claim({consumer_id}, {limit})").fetchone()
        if claim is None:
            return []
        conn.execute(f"select headrace.advance({consumer_id}, %s, %s)", (claim[2], claim[1]))
        return list(range(claim[0] + 1, claim[1] + 1))


class Stream:
    """A stream whose offsets are kept outside of the database."""

    def __init__(self, folder: Path, target: Target) -> None:
        self._folder = folder
        self.move(target)

    def move(self, target: Target) -> None:
        """The address leads to another server now."""
        self.secret = secret_file(self._folder, target)

    def reader(self, **options: str) -> EventStreamReader:
        return EventStreamReader(
            {"secret": self.secret, "subscribe": "orders", "startingOffsets": "earliest", **options}, event_schema()
        )

    def advance(self, offset: dict[str, object] | None, **options: str) -> dict[str, object]:
        reader = self.reader(**options)
        return reader.latestOffset(offset or reader.initialOffset(), ReadAllAvailable())


def test_lost_tail_is_noticed_by_spark_archive_and_node(pair: Pair, tmp_path: Path) -> None:
    stream = Stream(tmp_path, Target("main", pair.primary.dsn()))
    with connect(Target("main", pair.primary.dsn())) as conn:
        create_topic(conn, "orders", time_partition="day")
        conn.execute("select headrace.create_consumer('orders', 'effects', p_start => 'earliest')")
        events(conn, 1, 10, days=0)
        first = epoch(conn)
        assert record_epoch(conn) is None
        assert consume(conn, 100) == list(range(1, 11))
        common = stream.advance(None)
        pair.cut()
        # Read, handled and archived on the primary, but unknown to the standby.
        events(conn, 11, 10, days=0)
        assert consume(conn, 100) == list(range(11, 21))
        lost = stream.advance(common)
        archive_orders(conn, Target("main", pair.primary.dsn()), tmp_path / "archive", days=3)
    promoted = pair.fail_over()
    stream.move(promoted)
    with connect(promoted) as conn:
        assert epoch(conn) == first.replace(":1", ":2")
        assert [record_epoch(conn), record_epoch(conn)] == [first, None], "a node warns once"
        assert [payload["n"] for payload in numbers(conn)] == list(range(1, 11))  # type: ignore[index]
        # Shorter than what was read.
        with pytest.raises(LogWentBack, match=r"read up to position 20 and ends at 10 now, 10 events.*:1 then, .*:2 now"):
            stream.advance(lost)
        # What was read of what is left goes on.
        assert stream.advance(common)["next"] == common["next"]
        # The same positions with other events: today's length would not show it.
        events(conn, 101, 15, days=0)
        assert consume(conn, 100) == list(range(11, 26)), "the cursor went back with the log, and skips nothing"
        with pytest.raises(LogWentBack, match=r"position 20 was event .* and is event"):
            stream.advance(lost)
        with pytest.raises(LogWentBack):
            stream.reader().partitions(common, lost)
        assert stream.advance(common)["next"] == {"main": {"orders": 26}}
        assert list_archive(conn) == []
        with pytest.raises(LogWentBack, match=r"positions 1 to 25 are in files that the catalog does not name.*:2 now"):
            archive_orders(conn, promoted, tmp_path / "archive", days=3)
        assert list_archive(conn) == []
        for file in (tmp_path / "archive").rglob("*.parquet"):
            file.rename(tmp_path / file.name)
        assert archive_orders(conn, promoted, tmp_path / "archive", days=3)
        assert [file.events for file in list_archive(conn)] == [25]


def test_claim_that_was_lost_with_its_server_is_found_on_the_promoted_standby(pair: Pair) -> None:
    """The lock of the claim is in the WAL, and its end is that of the primary."""
    claim = "select event_id, payload from headrace.claim_events(1, 10, 1, 0, 1)"
    cursor = "select position, attempts, single_to from headrace.cursor"
    with connect(Target("main", pair.primary.dsn())) as conn:
        create_topic(conn, "orders", time_partition="day")
        conn.execute("select headrace.create_consumer('orders', 'effects', p_start => 'earliest')")
        events(conn, 1, 3, days=0)
        with psycopg.connect(pair.primary.dsn()) as worker:
            assert len(worker.execute(claim).fetchall()) == 4
            pair.cut()
            promoted = pair.fail_over()
            with suppress(psycopg.OperationalError):
                worker.execute("select")
    with connect(promoted) as conn:
        assert conn.execute(claim).fetchall() == [(None, {"events": 0, "partial": True})], "it only records the loss"
        assert conn.execute(cursor).fetchall() == [(0, 0, 3)], "no attempt counts, and each event is handled alone"
        for position in (1, 2, 3):
            assert consume(conn, 100) == [position]
        assert conn.execute(claim).fetchall() == []
