"""Seek moves a consumer, and a preview says beforehand what that means."""

from __future__ import annotations

import pytest

from headrace.consume import Consumer, consumer_lag, create_consumer, seek_consumer
from headrace.core import Invalid, OutOfLog, UnknownConsumer
from headrace.db import Connection
from tests.builders import fill, shift_clock, topic


async def ignore(event: object, tx: object) -> None: ...


@pytest.fixture
def ten(conn: Connection) -> Connection:
    """Ten events, five of them an hour later, and a consumer at the end."""
    topic(conn, partitions=2)
    fill(conn, 5, keys=5)
    shift_clock(conn, "1 hour")
    fill(conn, 5, keys=5)
    create_consumer(conn, Consumer(topic="orders", name="c", handler=ignore, start="latest"))
    return conn


def test_preview_counts_and_moves_nothing(ten: Connection) -> None:
    moves = seek_consumer(ten, "orders", "c", "earliest", preview=True)
    assert sum(move.events for move in moves) == 10
    assert sum(row.lag_events for row in consumer_lag(ten)) == 0


def test_seek_back_is_handled_again_and_forward_is_skipped(ten: Connection) -> None:
    assert sum(move.events for move in seek_consumer(ten, "orders", "c", "earliest")) == 10
    assert sum(row.lag_events for row in consumer_lag(ten)) == 10
    assert sum(move.events for move in seek_consumer(ten, "orders", "c", "latest")) == -10
    assert sum(row.lag_events for row in consumer_lag(ten)) == 0


def test_position_named_is_the_next_one_handled(ten: Connection) -> None:
    seek_consumer(ten, "orders", "c", "8")
    assert sum(row.lag_events for row in consumer_lag(ten)) == 3


def test_seek_to_a_time(ten: Connection) -> None:
    row = ten.execute("select (headrace.clock() - interval '30 minutes')::text").fetchone()
    assert row is not None
    seek_consumer(ten, "orders", "c", row[0])
    assert sum(row.lag_events for row in consumer_lag(ten)) == 5


@pytest.mark.parametrize("target", ["soon", "", "-1", "2026-99-99"])
def test_unknown_target_says_what_is_possible(ten: Connection, target: str) -> None:
    with pytest.raises(Invalid, match="use earliest, latest, a position, or a time"):
        seek_consumer(ten, "orders", "c", target)


@pytest.mark.parametrize("target", ["0", "12", "999999999999"])
def test_position_beyond_the_log_is_refused_with_its_borders(ten: Connection, target: str) -> None:
    with pytest.raises(OutOfLog, match="holds 1 to 10"):
        seek_consumer(ten, "orders", "c", target)


def test_unknown_consumer_names_the_known_ones(ten: Connection) -> None:
    with pytest.raises(UnknownConsumer, match="known consumers: c"):
        seek_consumer(ten, "orders", "d", "latest")
