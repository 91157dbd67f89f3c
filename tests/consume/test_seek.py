"""Seek moves a consumer, and a preview shows the effect before."""

from __future__ import annotations

import pytest

from headrace.consume import Consumer, consumer_lag, create_consumer, seek_consumer
from headrace.core import Invalid, PositionOutOfRange, UnknownConsumer
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


def test_seek_back_handles_events_again_and_forward_skips_them(ten: Connection) -> None:
    assert sum(move.events for move in seek_consumer(ten, "orders", "c", "earliest")) == 10
    assert sum(row.lag_events for row in consumer_lag(ten)) == 10
    assert sum(move.events for move in seek_consumer(ten, "orders", "c", "latest")) == -10
    assert sum(row.lag_events for row in consumer_lag(ten)) == 0


def test_position_is_the_next_one_handled(ten: Connection) -> None:
    seek_consumer(ten, "orders", "c", "8")
    assert sum(row.lag_events for row in consumer_lag(ten)) == 3


def test_seek_to_a_time(ten: Connection) -> None:
    row = ten.execute("select (headrace.clock() - interval '30 minutes')::text").fetchone()
    assert row is not None
    seek_consumer(ten, "orders", "c", row[0])
    assert sum(row.lag_events for row in consumer_lag(ten)) == 5


def test_invalid_target_is_rejected_with_the_possible_ones(ten: Connection) -> None:
    for target in ("soon", "", "-1", "2026-99-99"):
        with pytest.raises(Invalid, match="use earliest, latest, a position, or a time"):
            seek_consumer(ten, "orders", "c", target)


def test_position_outside_the_log_is_rejected_with_its_range(ten: Connection) -> None:
    for target in ("0", "12", "999999999999"):
        with pytest.raises(PositionOutOfRange, match="1 to 10"):
            seek_consumer(ten, "orders", "c", target)


def test_unknown_consumer_names_the_known_ones(ten: Connection) -> None:
    with pytest.raises(UnknownConsumer, match="known consumers: c"):
        seek_consumer(ten, "orders", "d", "latest")
