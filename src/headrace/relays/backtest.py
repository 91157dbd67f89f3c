"""Backtest: what a relay would have sent for past events. Sends nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from psycopg.types.json import set_json_loads

from headrace.consume import printed_condition, seek_position
from headrace.core import LoggedEvent, RawJSON
from headrace.db import Connection, map_database_errors, query
from headrace.log.topics import logged_event_row
from headrace.relays.mapping import Mapper
from headrace.relays.message import Message
from headrace.relays.relay import Relay, check_relay

SAMPLES: Final = 5


@dataclass(frozen=True)
class RelayBacktest:
    """What a relay would have sent for the events of a range."""

    from_position: int
    to_position: int
    events: int
    """Events in the range."""
    messages: int
    """Messages that would have been sent for them."""
    body_bytes: int
    by_event_type: Mapping[str, int]
    samples: tuple[Message, ...]
    """The first messages."""


def backtest_relay(
    conn: Connection,
    relay: Relay,
    *,
    start: str = "earliest",
    end: str = "latest",
    samples: int = SAMPLES,
    namespace: str | None = None,
) -> RelayBacktest:
    """Maps the events of a relay's topic between two places ('earliest', 'latest', a position, a time) and counts the messages."""
    check_relay(relay)
    after = seek_position(conn, relay.topic, start, namespace=namespace)
    upto = seek_position(conn, relay.topic, end, namespace=namespace)
    parameters = {"topic": relay.topic, "namespace": namespace, "after": after, "upto": upto}
    condition = printed_condition(relay.condition)
    statement = query("relays/backtest").replace("/* condition */ true", condition)
    mapper = Mapper(relay.name, relay.format, relay.mapping)
    types: Counter[str] = Counter()
    first: list[Message] = []
    body_bytes = 0
    with map_database_errors(), conn.transaction():
        # The condition's operators are those of PostgreSQL, whatever this session's search_path has.
        conn.execute("set local search_path = pg_catalog, pg_temp")
        row = conn.execute(query("relays/count_events"), parameters).fetchone()
        with conn.cursor("headrace_backtest", row_factory=logged_event_row) as cursor:
            set_json_loads(RawJSON, cursor)
            cursor.execute(statement, parameters)
            for event in cursor:
                message = mapper.to_message(cast(LoggedEvent[Any], event))
                types[event.type] += 1
                body_bytes += len(message.body)
                if len(first) < samples:
                    first.append(message)
    return RelayBacktest(after + 1, upto, row[0] if row else 0, types.total(), body_bytes, types, tuple(first))
