"""`headrace publish` and `headrace tail`: what goes in comes out."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest

from headrace.db import Connection, Server, Target, connect
from headrace.log.topics import read_log
from tests.builders import drain, fill, topic
from tests.cli.conftest import Cli, call

pytestmark = pytest.mark.lane("pg18")


def test_event_is_published_with_everything(cli: Cli, conn: Connection) -> None:
    topic(conn)
    id = str(uuid4())
    words = ["orders", "order.placed", '{"total": 12345678901234567890.10}', "--key", "c3", "--header", "a=b=c", "--id", id]
    assert cli("publish", *words, "--json").json == {"id": id, "topic": "orders", "type": "order.placed", "shard": "main"}
    drain(conn)
    [event] = read_log(conn, "orders")
    assert (event.id, event.type, event.key, event.headers) == (UUID(id), "order.placed", "c3", {"a": "b=c"})
    stored = conn.execute("select payload::text from headrace.log").fetchone()
    assert stored == ('{"total": 12345678901234567890.10}',)


def test_event_without_payload_is_null_and_prints_its_id(cli: Cli, conn: Connection) -> None:
    topic(conn)
    id = UUID(cli("publish", "orders", "order.seen").out.strip())
    drain(conn)
    assert [(event.id, event.payload) for event in read_log(conn, "orders")] == [(id, None)]


def test_type_is_needed(cli: Cli) -> None:
    assert cli("publish", "orders").code == 2


def test_lines_of_a_file_are_published_in_order(cli: Cli, conn: Connection, tmp_path: Path) -> None:
    topic(conn)
    lines = [{"type": "placed", "payload": n, "key": f"k{n % 3}", "emitted_at": "2026-01-02T03:04:05Z"} for n in range(12_000)]
    file = tmp_path / "events.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    assert cli("publish", "orders", "--file", str(file), "--json").json == {"topic": "orders", "published": 12_000}
    drain(conn)
    assert [event.payload for event in read_log(conn, "orders", limit=20_000)] == list(range(12_000))


def test_bad_line_is_named_and_nothing_is_written(cli: Cli, conn: Connection) -> None:
    topic(conn)
    lines = '{"type": "placed"}\n{"type": "placed", "paylod": 1}\n'
    answer = cli("publish", "orders", "--file", "-", "--json", stdin=lines)
    assert (answer.code, answer.error["error"]) == (5, "Invalid")
    assert answer.error["message"].startswith("line 2:")
    assert conn.execute("select count(*) from headrace.outbox").fetchone() == (0,)


def test_batches_commit_on_their_own(cli: Cli, conn: Connection) -> None:
    topic(conn)
    lines = '{"payload": 1}\n{"payload": 2}\n{"payload": 3}\nnonsense\n'
    assert cli("publish", "orders", "placed", "--file", "-", "--batch", "2", stdin=lines).code == 5
    drain(conn)
    assert [event.payload for event in read_log(conn, "orders")] == [1, 2]


def test_missing_file_is_an_error(cli: Cli) -> None:
    assert cli("publish", "orders", "--file", "/no/such/file").code == 5


def test_cloudevents_go_in_and_come_out(cli: Cli, conn: Connection) -> None:
    topic(conn)
    sent = {
        "specversion": "1.0",
        "id": str(uuid4()),
        "source": "/shop",
        "type": "order.placed",
        "time": "2026-01-02T03:04:05+00:00",
        "data": {"id": 7},
    }
    assert cli("publish", "orders", json.dumps(sent), "--cloudevent").code == 0
    line = json.dumps(sent | {"id": str(uuid4())})
    assert cli("publish", "orders", "--cloudevent", "--file", "-", stdin=line).code == 0
    drain(conn)
    first, second = cli("tail", "orders", "--no-follow", "--cloudevent").lines
    assert {name: first[name] for name in sent} == sent
    assert second["data"] == {"id": 7}


def test_tail_shows_the_newest_by_default(cli: Cli, conn: Connection) -> None:
    topic(conn)
    fill(conn, 50)
    assert [event["payload"] for event in cli("tail", "orders", "--no-follow", "--json").lines] == list(range(41, 51))
    assert [event["payload"] for event in cli("tail", "orders", "-n", "2", "--no-follow", "--json").lines] == [49, 50]


def test_tail_begins_where_told(cli: Cli, conn: Connection) -> None:
    topic(conn)
    fill(conn, 50)
    end = ("--no-follow", "--json")
    assert len(cli("tail", "orders", "--from", "earliest", *end).lines) == 50
    assert cli("tail", "orders", "--from", "latest", *end).lines == []
    assert [event["position"] for event in cli("tail", "orders", "--from", "7", "-n", "2", *end).lines] == [7, 8]
    assert len(cli("tail", "orders", "--from", "2020-01-01T00:00:00Z", *end).lines) == 50
    assert cli("tail", "orders", "--from", "2100-01-01", *end).lines == []
    assert len(cli("tail", "orders", "--from", "48", "-n", "3", "--json").lines) == 3, "following ends after -n events"


def test_tail_shows_the_event_id_and_filters_by_a_condition_with_exact_numbers(cli: Cli, conn: Connection) -> None:
    topic(conn)
    for payload in ('{"n": 1}', '{"n": 0.123456789012345671}', '{"n": 0.123456789012345672}', "{}"):
        conn.execute("select headrace.publish('orders', 'placed', %s)", (payload,))
    drain(conn)
    [row] = conn.execute("select event_id from headrace.log where position = 2").fetchall()
    condition = "(object -> 'n')::numeric = 0.123456789012345671"
    [event] = cli("tail", "orders", "--no-follow", "--where", condition, "--json").lines
    assert event["id"] == str(row[0])
    [line] = cli("tail", "orders", "--no-follow", "--where", condition).out.splitlines()
    assert str(row[0]) in line and "0.123456789012345671" in line
    assert cli("tail", "orders", "--no-follow", "--where", "(object -> 'n')::int > ").code == 5
    assert (
        len(cli("tail", "orders", "--from", "earliest", "--where", "(object -> 'n')::numeric < 1", "-n", "2", "--json").lines)
        == 2
    )


def test_tail_filters_and_looks_back_far_enough(cli: Cli, conn: Connection) -> None:
    topic(conn)
    conn.execute("select headrace.publish('orders', 'rare', '1', p_key => 'x')")
    drain(conn)
    fill(conn, 3000, keys=3)
    assert [event["position"] for event in cli("tail", "orders", "--type", "rare", "--no-follow", "--json").lines] == [1]
    keyed = cli("tail", "orders", "--key", "k1", "-n", "2", "--no-follow", "--json").lines
    assert [event["payload"] for event in keyed] == [2995, 2998]


def test_tail_follows_events_to_come(cli: Cli, conn: Connection, second: Connection) -> None:
    topic(conn)
    fill(conn, 3)
    late = threading.Timer(0.5, lambda: fill(second, 2))
    late.start()
    assert [event["position"] for event in cli("tail", "orders", "--from", "3", "-n", "3", "--json").lines] == [3, 4, 5]
    late.join()


def test_tail_for_people_is_one_line_per_event(cli: Cli, conn: Connection) -> None:
    topic(conn)
    conn.execute("""select headrace.publish('orders', 'placed', '{"note": "[bold]x[/]"}', p_key => 'k')""")
    drain(conn)
    [line] = cli("tail", "orders", "--no-follow").out.splitlines()
    [(event_id,)] = conn.execute("select event_id from headrace.log").fetchall()
    assert line.endswith(f'0/1  {event_id}  placed  k  {{"note":"[bold]x[/]"}}')


def test_events_find_their_shard(server: Server) -> None:
    shards = {}
    for name in ("one", "two"):
        database = f"shard_{uuid4().hex}"
        with psycopg.connect(server.dsn(), autocommit=True) as admin:
            admin.execute(f"create database {database} template headrace_template")
        shards[name] = Target(name, server.dsn(database))
    dsn = ("--dsn", " ".join(f"{name}={target.dsn}" for name, target in shards.items()))
    call("topic", "create", "orders", *dsn)
    lines = "\n".join(json.dumps({"type": "placed", "payload": n, "key": f"k{n % 20}"}) for n in range(200))
    assert call("publish", "orders", "--file", "-", *dsn, stdin=lines).code == 0
    keys = {}
    for name, target in shards.items():
        with connect(target) as conn:
            drain(conn)
            keys[name] = {event.key for event in read_log(conn, "orders")}
    assert keys["one"] and keys["two"] and not keys["one"] & keys["two"]
    assert len(call("tail", "orders", "--from", "earliest", "--no-follow", "--json", *dsn).lines) == 200
    assert len(call("tail", "orders", "--from", "earliest", "-n", "200", "--json", *dsn).lines) == 200
    again = call("publish", "orders", "placed", "1", "--key", "k3", "--json", *dsn).json["shard"]
    assert "k3" in keys[again]


def test_one_shard_down_refuses_its_keys_only(database: Target, conn: Connection) -> None:
    topic(conn)
    dsn = ("--dsn", f"up={database.dsn} down=postgresql://nobody@127.0.0.1:1/none")
    answers = [call("publish", "orders", "placed", "1", "--key", f"k{n}", "--json", *dsn) for n in range(10)]
    assert {answer.code for answer in answers} == {0, 1}
    assert {answer.error["error"] for answer in answers if answer.code} == {"ShardUnavailable"}
    assert call("publish", "orders", "placed", "1", "--json", *dsn).json["shard"] == "up"
