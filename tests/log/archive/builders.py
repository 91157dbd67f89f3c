"""Builders for the archive tests."""

from __future__ import annotations

from pathlib import Path

from psycopg.conninfo import make_conninfo

from headrace.db import Connection, Target
from headrace.log.archive import ArchiveProgress, archive_topic
from headrace.log.topics import create_topic
from tests.builders import drain, shift_clock

ODD = '{"a": [1, {"b": "ä\\u0001 \\"q\\" x:1"}], "big": 123456789012345678901234567890, "pi": 3.140, "none": null}'


def events(conn: Connection, first: int, count: int, *, days: int) -> None:
    """Publishes and sequences events numbered from `first`, with the clock of this session `days` ahead."""
    shift_clock(conn, f"{days} days")
    with conn.transaction():
        conn.execute(
            """select headrace.publish('orders', case n %% 3 when 0 then 'paid' else 'placed' end,
                   jsonb_build_object('n', n, 'odd', %s::jsonb), p_key => case when n %% 5 > 0 then 'k' || n %% 5 end,
                   p_headers => jsonb_build_object('h', n), p_producer => case when n %% 2 = 0 then 'shop' end,
                   p_emitted_at => '2026-01-01T00:00:00Z'::timestamptz + n * interval '1 minute')
               from generate_series(%s::int, %s) n""",
            (ODD, first, first + count - 1),
        )
    drain(conn)


def later(database: Target, *, days: int) -> Target:
    """The database for sessions whose clock is ahead."""
    return Target(database.name, make_conninfo(database.dsn, options=f"-c headrace.clock_shift={days}days"))


def archive_orders(conn: Connection, database: Target, folder: Path, *, days: int) -> list[ArchiveProgress]:
    """Archives as if it were `days` later."""
    return list(archive_topic(later(database, days=days), "orders", folder=folder))


def drop(conn: Connection, *, days: int, force: bool = False) -> list[tuple[bool, str | None]]:
    """Applies retention of a day as if it were `days` later."""
    shift_clock(conn, f"{days} days")
    return conn.execute(
        """select dropped, kept_for
           from headrace.drop_expired(headrace.topic_id('orders'), headrace.clock() - interval '1 day', %s)""",
        (force,),
    ).fetchall()


def three_days(conn: Connection) -> None:
    """Positions 1 to 40 in three time partitions of a day each, the newest still open after six days."""
    create_topic(conn, "orders", partitions=2, time_partition="day")
    events(conn, 1, 10, days=0)
    events(conn, 11, 20, days=3)
    events(conn, 31, 10, days=6)
