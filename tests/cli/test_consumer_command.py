"""`headrace consumer` and `headrace dead-letter`."""

from __future__ import annotations

from uuid import uuid4

import pytest

from headrace.consume import Consumer, Failure, create_consumer
from headrace.db import Connection
from tests.builders import fill, topic
from tests.cli.conftest import Cli

pytestmark = pytest.mark.lane("pg18")


def consumer(conn: Connection, failure: Failure | None = None) -> int:
    """A consumer of `orders` that has handled nothing yet."""
    return create_consumer(
        conn, Consumer(topic="orders", name="billing", handler=lambda event, tx: None, failure=failure or Failure.stop())
    )


def test_consumer_is_created_listed_and_dropped(cli: Cli, conn: Connection) -> None:
    topic(conn, partitions=2)
    fill(conn, 10, keys=5)
    options = ["--start", "latest", "--on-failure", "dead-letter", "--attempts", "3"]
    assert cli("consumer", "create", "orders", "billing", *options, "--json").json == {"topic": "orders", "consumer": "billing"}
    assert conn.execute("select attempts_max, when_exhausted from headrace.consumer").fetchone() == (3, "dead_letter")
    cli("consumer", "create", "orders", "audit", "--ordered-by", "topic")
    rows = cli("consumer", "list", "--json").json
    assert [(row["consumer"], row["cursors"], row["lag_events"], row["state"]) for row in rows] == [
        ("audit", 1, 10, "idle: no node runs it"),
        ("billing", 2, 0, "idle: no node runs it"),
    ]
    assert "audit" in cli("consumer", "list", "orders").out
    assert cli("consumer", "drop", "orders", "audit", stdin="n\n").code == 1
    assert cli("consumer", "drop", "orders", "audit", "--yes").code == 0
    assert [row["consumer"] for row in cli("consumer", "list", "--json").json] == ["billing"]


def test_consumer_runs_only_while_a_live_node_runs_it(cli: Cli, conn: Connection) -> None:
    def states() -> list[object]:
        listed = [row["state"] for row in cli("consumer", "list", "--json").json]
        return [*listed, *(row["state"] for row in cli("consumer", "lag", "--json").json)]

    topic(conn)
    consumer(conn)
    other, node = uuid4(), uuid4()
    conn.execute("select headrace.register_node(%s, 'other', '1')", (other,))
    conn.execute("select headrace.register_consumers(%s, '{orders/audit,cars/billing}')", (other,))
    assert states() == ["idle: no node runs it", "idle"]
    assert "idle: no node runs it" in cli("consumer", "lag").out
    conn.execute("select headrace.register_node(%s, 'node', '1')", (node,))
    conn.execute("select headrace.register_consumers(%s, '{orders/billing}')", (node,))
    assert states() == ["running", "running"]
    conn.execute("update headrace_internal.node set heartbeat_at = headrace.clock() - interval '91 seconds'")
    assert states() == ["idle: no node runs it", "idle"], "its node is lost"
    conn.execute("select headrace.heartbeat(%s), headrace.heartbeat(%s)", (node, other))
    assert states() == ["running", "running"]
    conn.execute("select headrace.deregister_node(%s)", (node,))
    assert states() == ["idle: no node runs it", "idle"], "its node has stopped"


def test_changed_order_is_a_conflict(cli: Cli, conn: Connection) -> None:
    topic(conn)
    consumer(conn)
    assert cli("consumer", "create", "orders", "billing", "--ordered-by", "topic").code == 4


def test_lag_is_shown_per_partition_in_events_and_seconds(cli: Cli, conn: Connection) -> None:
    topic(conn, partitions=2)
    fill(conn, 10, keys=5)
    consumer(conn)
    lags = cli("consumer", "lag", "orders", "billing", "--json").json
    assert [lag["partition"] for lag in lags] == [0, 1]
    assert sum(lag["lag_events"] for lag in lags) == 10
    assert all(lag["lag_s"] > 0 for lag in lags)
    assert "lag (events)" in cli("consumer", "lag").out


def test_seek_shows_a_preview_and_asks_first(cli: Cli, conn: Connection) -> None:
    topic(conn)
    fill(conn, 10)
    consumer(conn)
    preview = cli("consumer", "seek", "orders", "billing", "latest", "--dry-run", "--json").json
    assert preview == {
        "moved": False,
        "handled_again": 0,
        "skipped": 10,
        "partitions": [{"shard": "main", "partition": 0, "from_position": 0, "to_position": 10, "events": -10}],
    }
    declined = cli("consumer", "seek", "orders", "billing", "latest", stdin="n\n")
    assert declined.code == 1
    assert "0 events will be handled again, 10 skipped" in declined.out
    assert position(conn) == 0
    assert cli("consumer", "seek", "orders", "billing", "latest", "--json").code == 2, "--json cannot ask"
    assert cli("consumer", "seek", "orders", "billing", "latest", stdin="y\n").code == 0
    assert position(conn) == 10
    back = cli("consumer", "seek", "orders", "billing", "4", "--yes", "--json").json
    assert (back["moved"], back["handled_again"], back["skipped"]) == (True, 7, 0)
    assert position(conn) == 3
    assert cli("consumer", "seek", "orders", "billing", "99", "--yes").code == 5
    assert cli("consumer", "seek", "orders", "nobody", "latest", "--yes").code == 3


def test_stopped_partition_is_shown_and_resumed(cli: Cli, conn: Connection) -> None:
    topic(conn)
    fill(conn, 3)
    id = consumer(conn)
    conn.execute("select headrace.fail(%s, 0, 0, 1, 1, 'ValueError: no [price]\nsecond line', 'Traceback …')", (id,))
    assert cli("consumer", "list", "--json").json[0]["state"] == "1 stopped, idle: no node runs it"
    shown = cli("consumer", "lag").out
    assert "ValueError: no [price]" in shown and "second line" not in shown
    assert cli("consumer", "lag", "--json").json[0]["traceback"] == "Traceback …"
    assert cli("consumer", "resume", "orders", "billing", "--json").json["resumed"] == 1
    assert cli("consumer", "list", "--json").json[0]["state"] == "idle: no node runs it"


def test_stuck_event_is_skipped_into_the_dead_letters(cli: Cli, conn: Connection) -> None:
    topic(conn)
    fill(conn, 3)
    id = consumer(conn)
    assert cli("consumer", "skip", "orders", "billing", "--yes").code == 4, "nothing is stuck"
    conn.execute("select headrace.fail(%s, 0, 0, 1, 1, 'ValueError: no')", (id,))
    assert cli("consumer", "skip", "orders", "billing", stdin="n\n").code == 1
    skipped = cli("consumer", "skip", "orders", "billing", "--yes", "--json").json
    assert (skipped["letter"], skipped["partition"], skipped["type"]) == ("orders/billing/1", 0, "placed")
    assert cli("dead-letter", "show", "orders/billing/1", "--json").json["reason"] == "an operator skipped it"
    assert position(conn) == 1
    assert cli("consumer", "seek", "orders", "billing", "3", "--partition", "0", "--yes").code == 0
    assert position(conn) == 2
    assert cli("consumer", "seek", "orders", "billing", "3", "--partition", "5", "--yes").code == 5


def test_dead_letters_are_listed_redriven_and_discarded(cli: Cli, conn: Connection) -> None:
    topic(conn)
    fill(conn, 5)
    id = consumer(conn, Failure.dead_letter(attempts=1))
    for position in range(2):
        conn.execute("select headrace.fail(%s, 0, %s, %s, 1, 'ValueError: no')", (id, position, position + 1))
    letters = cli("dead-letter", "list", "--json").json
    assert [(letter["position"], letter["state"], letter["payload"]) for letter in letters] == [(1, "dead", 1), (2, "dead", 2)]
    assert "ValueError: no" in cli("dead-letter", "list", "--consumer", "orders/billing").out
    [group] = cli("dead-letter", "groups", "--json").json
    assert (group["subject"], group["error"], group["dead"]) == ("events of orders/billing", "ValueError: no", 2)
    shown = cli("dead-letter", "show", "orders/billing/2", "--json").json
    assert (shown["topic"], shown["consumer"], shown["type"], shown["headers"]) == ("orders", "billing", "placed", {})
    assert cli("dead-letter", "edit", "orders/billing/1", '{"total": 1.50}').code == 0
    edited = cli("dead-letter", "show", "orders/billing/1", "--json").json
    assert (edited["payload"], edited["edited"]) == ({"total": 1.5}, True)
    assert cli("dead-letter", "edit", "orders/billing/77", "1").code == 3
    assert cli("dead-letter", "edit", "orders/billing", "1").code == 2
    assert cli("dead-letter", "redrive", "orders/billing/1", "--json").json["redriven"] == 1
    assert cli("dead-letter", "redrive", "orders/billing/77").code == 3
    assert cli("dead-letter", "discard", "orders/billing", "--json").code == 2
    assert cli("dead-letter", "discard", "orders/billing", "--yes", "--json").json["discarded"] == 2
    assert cli("dead-letter", "list", "--json").json == []
    assert len(cli("dead-letter", "list", "--ended", "--json").json) == 2


def position(conn: Connection) -> int:
    row = conn.execute("select position from headrace.cursor").fetchone()
    assert row is not None
    return int(row[0])
