"""`headrace topic`: create, alter, list, show, drop; retention."""

from __future__ import annotations

from uuid import uuid4

import psycopg
import pytest

from headrace.consume import Consumer, create_consumer
from headrace.db import Connection, Server
from tests.builders import fill, topic
from tests.cli.conftest import Cli, call


def test_topic_is_created_changed_and_dropped(cli: Cli) -> None:
    created = cli("topic", "create", "orders", "--partitions", "2", "--retention", "30 days", "--time-partition", "day", "--json")
    assert created.json == {"topic": "orders", "created_on": ["main"]}
    shown = cli("topic", "show", "orders", "--json").json[0]
    assert (shown["partitions"], shown["retention"], shown["time_partition"]) == (2, "P30D", "day")
    assert (shown["events"], shown["waiting"], shown["cursors"]) == (0, 0, [])
    assert cli("topic", "alter", "orders", "--partitions", "4", "--retention", "forever").code == 0
    shown = cli("topic", "show", "orders", "--json").json[0]
    assert (shown["partitions"], shown["retention"]) == (4, None)
    assert cli("topic", "drop", "orders", "--yes", "--json").json == {"topic": "orders", "events": 0}
    assert cli("topic", "list", "--json").json == []


def test_list_shows_how_full_topics_are(cli: Cli, conn: Connection) -> None:
    topic(conn)
    fill(conn, 30)
    conn.execute("select headrace.publish('orders', 'placed', '1')")
    listed = cli("topic", "list", "--json").json
    assert [(one["topic"], one["events"], one["last_position"], one["waiting"]) for one in listed] == [("orders", 30, 30, 1)]
    assert "forever" in cli("topic", "list").out


def test_create_if_not_exists_leaves_a_topic_alone(cli: Cli, conn: Connection) -> None:
    topic(conn, partitions=3)
    assert cli("topic", "create", "orders", "--if-not-exists", "--json").json["created_on"] == []
    assert cli("topic", "show", "orders", "--json").json[0]["partitions"] == 3


@pytest.mark.parametrize("words", [("create", "cars"), ("alter", "orders")])
@pytest.mark.parametrize("bare", ["30", "1.5", " 7 "])
def test_retention_without_a_unit_is_refused(cli: Cli, words: tuple[str, str], bare: str) -> None:
    """PostgreSQL would take 30 for seconds, and the log would be gone within the minute."""
    cli("topic", "create", "orders", "--retention", "30 days")
    answer = cli("topic", *words, "--retention", bare)
    assert (answer.code, "has no unit; write for example" in answer.err) == (5, True)
    assert "30 days" in cli("topic", "show", "orders").out
    assert cli("topic", "show", "cars").code == 3


def test_alter_without_a_change_is_wrong_usage(cli: Cli) -> None:
    assert cli("topic", "alter", "orders").code == 2


def test_drop_asks_and_minds_consumers(cli: Cli, conn: Connection) -> None:
    topic(conn)
    create_consumer(conn, Consumer(topic="orders", name="billing", handler=lambda event, tx: None))
    assert cli("topic", "drop", "orders", stdin="n\n").code == 1
    assert cli("topic", "drop", "orders", "--json").code == 2, "nobody can be asked"
    refused = cli("topic", "drop", "orders", "--yes", "--json")
    assert (refused.code, refused.error["error"]) == (4, "TopicInUse")
    assert cli("topic", "drop", "orders", stdin="y\n").code == 4
    assert cli("topic", "drop", "orders", "--force", stdin="y\n").code == 0


def test_maintain_tells_what_was_dropped_and_for_whom_it_was_kept(cli: Cli, conn: Connection) -> None:
    topic(conn, "done")
    topic(conn, "held")
    for name in ("done", "held"):
        fill(conn, 5, topic=name)
        conn.execute("select headrace.alter_topic(%s, p_retention => '1 day')", (name,))
    create_consumer(conn, Consumer(topic="held", name="slow", handler=lambda event, tx: None))
    months_later(conn)
    expired = cli("topic", "maintain", "--json").json
    assert sum(one["events"] for one in expired if one["topic"] == "done" and one["dropped"]) == 5
    assert [(one["dropped"], one["kept_for"]) for one in expired if one["topic"] == "held"][-1] == (False, "slow")
    assert "slow" in cli("topic", "maintain").out


def test_drop_expired_needs_force_for_what_is_not_handled(cli: Cli, conn: Connection) -> None:
    topic(conn)
    fill(conn, 5)
    create_consumer(conn, Consumer(topic="orders", name="slow", handler=lambda event, tx: None))
    months_later(conn)
    before = ("topic", "drop-expired", "orders", "--before", "2100-01-01", "--json")
    assert not any(one["dropped"] for one in cli(*before).json if one["events"])
    assert cli(*before, "--force").code == 2
    assert sum(one["events"] for one in cli(*before, "--force", "--yes").json if one["dropped"]) == 5
    assert cli("topic", "show", "orders", "--json").json[0]["first_position"] == 6
    assert cli("topic", "drop-expired", "orders", "--before", "some day").code == 5


def months_later(conn: Connection) -> None:
    """Moves headrace's clock for every new session of the database."""
    shift = "execute format('alter database %I set headrace.clock_shift = ''4 months''', current_database())"
    conn.execute(f"do $$ begin {shift}; end $$")


@pytest.mark.lane("pg18")
def test_commands_work_on_all_shards(server: Server) -> None:
    shards = []
    for name in ("one", "two"):
        database = f"shard_{uuid4().hex}"
        with psycopg.connect(server.dsn(), autocommit=True) as admin:
            admin.execute(f"create database {database} template headrace_template")
        shards.append(f"{name}={server.dsn(database)}")
    dsn = ("--dsn", " ".join(shards))
    assert call("topic", "create", "orders", *dsn, "--json").json["created_on"] == ["one", "two"]
    assert [one["shard"] for one in call("topic", "list", *dsn, "--json").json] == ["one", "two"]
    assert "shard" in call("topic", "list", *dsn).out


@pytest.mark.parametrize("name", ["My Topic!", "9lives", "x" * 101])
def test_name_that_is_not_allowed_is_rejected_with_the_rule(cli: Cli, name: str) -> None:
    answer = cli("topic", "create", name, "--json")
    assert (answer.code, answer.error["error"]) == (5, "Invalid")
    assert answer.error["message"] == (
        "invalid topic name; a name begins with a lower-case letter, followed by lower-case letters, digits, '_', '.' or '-'; "
        "at most 100 characters"
    )
