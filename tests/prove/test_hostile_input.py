"""Hostile input by every publish method: each text, name and size is accepted and comes back unchanged, or is rejected with an
error of ours, the same way by every method; and whatever was rejected, the rest reaches the consumer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import psycopg
import pytest

from headrace.consume import Batch, Consumer, ConsumerRunner
from headrace.core import DatabaseUnavailable, Event, HeadraceError, InvalidTime, LoggedEvent
from headrace.core.events import EMITTED_AT_MAX, EMITTED_AT_MIN, PAYLOAD_BYTES_MAX
from headrace.db import AsyncConnection, Connection, Target, connect, map_database_errors, map_error
from headrace.log.outbox import publish, publish_many
from headrace.log.topics import Clock, create_topic, get_topic, maintain_log, read_log
from tests.builders import drain, topic
from tests.cli.conftest import call
from tests.consume.conftest import Start, run_dry, start

__all__ = ["start"]
pytestmark = [pytest.mark.lane("pg18"), pytest.mark.timeout(200), pytest.mark.xdist_group("prove")]

ACCEPTED = [
    "null",
    "true",
    "0",
    "-0",
    "1E+2",
    "1e-400",
    "123456789012345678901234567890",
    "0.1000000000000000055511151231257827",
    '""',
    '"\\u0061\\/\\b\\f\\n\\r\\t\\"\\\\"',
    '"\\ud83d\\ude00"',
    '"\u2028\u2029\ufeff\u202e"',
    '"\\\\u0000"',
    '"\u00e9"',
    '"e\u0301"',
    "[]",
    "{}",
    '{"":0}',
    '{"a":1,"a":2}',
    '{"__proto__":{"x":1},"constructor":null}',
    '[[[[]]],{"a":{"b":[null]}}]',
    " \n\t\r [ 1 , 2 ] ",
    '{"$ref":"#","%s":"%(x)s","{0}":"{}","?":"$1"}',
    '"\'; drop table headrace.log; --"',
    '"' + "x" * 100_000 + '"',
    "[" * 128 + "]" * 128,
    "[" + "0," * 50_000 + "0]",
    '{"' + "k" * 50_000 + '":1}',
    "9" * 300,
]
REJECTED = [
    "",
    " ",
    "{",
    "}",
    "[1,]",
    "[,1]",
    '{"a"}',
    '{"a":}',
    '{"a":1,}',
    "{a:1}",
    "'a'",
    "nul",
    "True",
    "NaN",
    "Infinity",
    "-Infinity",
    "+1",
    ".5",
    "5.",
    "01",
    "0x10",
    "1e",
    "--1",
    "1 2",
    "[1]x",
    '"\n"',
    '"\x01"',
    '"\\x41"',
    '"\\u12"',
    '"\\ud800"',
    '"\\udc00\\ud800"',
    '"\\u0000"',
    '{"\\u0000":1}',
    '"unended',
    "[" * 129 + "]" * 129,
    "[" * 100_000,
    "1e400",
    "-1e400",
    "9" * 400,
    "// c\n1",
    "/* c */1",
    "\ufeff1",
    "\u00a01",
    "[1 2]",
    '"a""b"',
    "undefined",
    "#",
    "\\u0031",
]
KEYS_ACCEPTED = [
    "a",
    " ",
    "\t\n",
    "'",
    '"',
    "\\",
    "%s",
    "{}",
    "$1",
    "; drop table headrace.log;--",
    "../../etc/passwd",
    "NULL",
    "null",
    "0",
    "-1",
    "😀",
    "e\u0301",
    "\u00e9",
    "\u202eabc",
    "\u200b",
    "ﷺ",
    "İ",
    "ß",
    "k" * 1024,
    "é" * 512,
    "\x7f",
    "\x1b[31m",
    "CON",
    "a" + "\u0301" * 200,
]
TIMES_ACCEPTED = [
    "0001-01-02 00:00:00+00",
    "9999-12-30 23:59:59.999999+00",
    "1969-12-31 23:59:59.999999+00",
    "9999-12-31 09:00:00+14",
]
TIMES_REJECTED = [
    "infinity",
    "-infinity",
    "50000-01-01 00:00:00+00",
    "0001-01-01 00:00:00+00 BC",
    "0001-01-01 23:59:59.999999+00",
    "9999-12-31 00:00:00+00",
]
KEYS_REJECTED = ["", "k" * 1025, "é" * 513, "a\0b", "\ud800"]

Method = Callable[[Target, str, str | None, Path], None]


def by_sql(database: Target, text: str, key: str | None, _folder: Path) -> None:
    with connect(database) as conn:
        conn.execute("select headrace.publish('orders', 'x', %s::jsonb, p_key => %s)", (text, key))


def by_sql_many(database: Target, text: str, key: str | None, _folder: Path) -> None:
    event = {"topic": "orders", "type": "x"} | ({} if key is None else {"key": key})
    with connect(database) as conn:
        conn.execute("select headrace.publish_many(jsonb_build_array(%s::jsonb || jsonb_build_object('payload', %s::jsonb)))",
            (json.dumps(event), text))  # fmt: skip


def by_python(database: Target, text: str, key: str | None, _folder: Path) -> None:
    with connect(database) as conn:
        publish(conn, "orders", "x", msgspec.Raw(text.encode()), key=key)


def by_copy(database: Target, text: str, key: str | None, _folder: Path) -> None:
    with connect(database) as conn:
        publish_many(conn, [Event(topic="orders", type="x", payload=msgspec.Raw(text.encode()), key=key)] * 1)


def by_command(database: Target, text: str, key: str | None, _folder: Path) -> None:
    run_command("publish", "orders", "x", *([] if key is None else [f"--key={key}"]), "--dsn", database.dsn, "--json", "--", text)


def by_file(database: Target, text: str, key: str | None, folder: Path) -> None:
    line = '{"type":"x",' + ("" if key is None else f'"key":{json.dumps(key)},') + f'"payload":{text}}}'
    path = folder / "events.jsonl"
    # One line per event: a line break between values is white space, one inside a text would be another error.
    path.write_bytes(line.replace("\n", " ").replace("\r", " ").encode() + b"\n")
    run_command("publish", "orders", "--file", str(path), "--dsn", database.dsn, "--json")


def run_command(*arguments: str) -> None:
    answer = call(*arguments)
    if answer.code:
        assert answer.code in (2, 3, 5), answer
        raise HeadraceError(answer.err)


METHODS: dict[str, Method] = {
    "sql": by_sql,
    "sql-many": by_sql_many,
    "python": by_python,
    "copy": by_copy,
    "command": by_command,
    "file": by_file,
}


def is_accepted(method: Method, database: Target, text: str, key: str | None, folder: Path) -> bool:
    """True if the method accepts it. A rejection must be an error of ours, or PostgreSQL's own error about invalid JSON."""
    try:
        method(database, text, key, folder)
    except HeadraceError as error:
        assert str(error) and not isinstance(error, DatabaseUnavailable), error
        return False
    except psycopg.Error as error:
        # A lost connection is no rejection: the server must survive every input.
        assert isinstance(error, psycopg.DataError) or map_error(error) is not None, error
        assert not isinstance(map_error(error), DatabaseUnavailable), error
        return False
    except UnicodeEncodeError:
        return False
    return True


def as_stored(conn: Connection, text: str) -> object:
    row = conn.execute("select %s::jsonb::text", (text,)).fetchone()
    assert row is not None
    return row[0]


@pytest.fixture
def orders(conn: Connection) -> Iterator[Connection]:
    topic(conn)
    yield conn


def payloads(conn: Connection) -> list[object]:
    drain(conn)
    return [row[0] for row in conn.execute("select payload::text from headrace.log order by position").fetchall()]


@pytest.mark.parametrize("name", METHODS)
def test_every_text_is_accepted_unchanged_or_rejected_and_the_rest_flows(
    orders: Connection, database: Target, tmp_path: Path, name: str
) -> None:
    expected: list[object] = []
    for text in ACCEPTED:
        assert is_accepted(METHODS[name], database, text, None, tmp_path), f"{name} rejected {text[:60]!r}"
        expected.append(as_stored(orders, text))
    for text in REJECTED:
        if name == "file" and text in ('"\n"', "// c\n1"):
            continue  # A line break cannot be inside a line.
        assert not is_accepted(METHODS[name], database, text, None, tmp_path), f"{name} accepted {text[:60]!r}"
    assert is_accepted(METHODS[name], database, '"the rest flows"', None, tmp_path)
    assert payloads(orders) == [*expected, '"the rest flows"']


@pytest.mark.parametrize("name", METHODS)
def test_every_key_is_accepted_or_rejected(orders: Connection, database: Target, tmp_path: Path, name: str) -> None:
    for key in KEYS_ACCEPTED:
        assert is_accepted(METHODS[name], database, "1", key, tmp_path), f"{name} rejected {key[:40]!r}"
    for key in KEYS_REJECTED:
        if name == "command" and "\0" in key:
            continue  # The operating system has no such arguments.
        assert not is_accepted(METHODS[name], database, "1", key, tmp_path), f"{name} accepted {key[:40]!r}"
    drain(orders)
    assert [event.key for event in read_log(orders, "orders")] == KEYS_ACCEPTED


FIELDS: dict[str, tuple[str, Callable[[LoggedEvent], object]]] = {
    "type": ("p_type", lambda event: event.type),
    "producer": ("p_producer", lambda event: event.producer),
    "headers": ("p_headers", lambda event: event.headers),
    "topic": ("p_topic", lambda event: event.topic),
}


def in_field(field: str, text: str) -> dict[str, object]:
    """An event with the text in a field."""
    return {"topic": "orders", "type": "x", "payload": 1} | {field: {text: text} if field == "headers" else text}


def field_by_sql(conn: Connection, field: str, text: str) -> None:
    document = in_field(field, text)
    document["headers"] = json.dumps(document.get("headers", {}))
    conn.execute(
        "select headrace.publish(%(topic)s, %(type)s, '1', p_headers => %(headers)s::jsonb, p_producer => %(producer)s)",
        {"producer": None} | document,
    )


def field_by_python(conn: Connection, field: str, text: str) -> None:
    publish(conn, **in_field(field, text))  # type: ignore[arg-type]


def field_by_copy(conn: Connection, field: str, text: str) -> None:
    publish_many(conn, [Event(**in_field(field, text))])  # type: ignore[arg-type]


def publish_field(method: Callable[[Connection, str, str], None], field: str, text: str) -> Method:
    def publish_text(target: Target, _payload: str, _key: str | None, _folder: Path) -> None:
        with connect(target) as conn:
            method(conn, field, text)

    return publish_text


@pytest.mark.parametrize("field", FIELDS)
def test_every_string_is_accepted_or_rejected_in_every_field_by_all_methods_alike(
    orders: Connection, database: Target, tmp_path: Path, field: str
) -> None:
    methods = (field_by_sql, field_by_python, field_by_copy)
    kept: list[str] = []
    for text in (*KEYS_ACCEPTED, *KEYS_REJECTED):
        answers = [is_accepted(publish_field(method, field, text), database, "1", None, tmp_path) for method in methods]
        assert len(set(answers)) == 1, f"{text[:40]!r} as {field}: {answers}"
        kept += [text] * len(methods) if answers[0] else []
    drain(orders)
    _, read_field = FIELDS[field]
    wanted = [{text: text} for text in kept] if field == "headers" else kept
    assert [read_field(event) for event in read_log(orders, "orders")] == wanted


def time_by_sql(conn: Connection, at: str) -> None:
    conn.execute("select headrace.publish('orders', 'x', '1', p_emitted_at => %s::timestamptz)", (at,))


def time_by_sql_many(conn: Connection, at: str) -> None:
    event = json.dumps([{"topic": "orders", "type": "x", "emitted_at": at}])
    conn.execute("select headrace.publish_many(%s)", (event,))


def time_by_python(conn: Connection, at: str) -> None:
    publish(conn, "orders", "x", 1, emitted_at=datetime.fromisoformat(at))


def time_by_copy(conn: Connection, at: str) -> None:
    publish_many(conn, [Event(topic="orders", type="x", emitted_at=datetime.fromisoformat(at))])


TIME_METHODS = {"sql": time_by_sql, "sql-many": time_by_sql_many, "python": time_by_python, "copy": time_by_copy}


@pytest.mark.parametrize("clock", ["server", "event"])
@pytest.mark.parametrize("name", TIME_METHODS)
async def test_every_time_is_accepted_or_rejected_and_reaches_consumers_of_every_zone(
    conn: Connection, database: Target, name: str, clock: Clock, start: Start
) -> None:
    create_topic(conn, "orders", clock=clock, retention=timedelta(days=1))
    method = TIME_METHODS[name]
    for at in TIMES_REJECTED:
        if name in ("python", "copy") and not re.match(r"\d{4}-[^B]*$", at):
            continue  # Python itself has no such times.
        with pytest.raises(InvalidTime, match="0001-01-02 to 9999-12-30 are allowed"), map_database_errors():
            method(conn, at)
    for at in TIMES_ACCEPTED:
        method(conn, at)
    drain(conn)
    received: list[datetime] = []

    async def keep(event: LoggedEvent, _tx: AsyncConnection) -> None:
        received.append(event.emitted_at)

    await run_dry(await start(Consumer(topic="orders", name="c", handler=keep)))
    assert received == [datetime.fromisoformat(at) for at in TIMES_ACCEPTED]
    for zone in ("Pacific/Kiritimati", "Etc/GMT+12"):
        conn.execute("select set_config('timezone', %s, false)", (zone,))
        assert [event.emitted_at for event in read_log(conn, "orders")] == received
    assert get_topic(conn, "orders").last_position == len(received)
    maintain_log(conn)


@pytest.mark.parametrize("clock", ["server", "event"])
@pytest.mark.parametrize("at", ["infinity", "-infinity", "50000-01-01 00:00:00+00", "0001-01-01 00:00:00+00 BC"])
def test_time_out_of_range_in_the_outbox_is_brought_within_the_limits(conn: Connection, at: str, clock: Clock) -> None:
    create_topic(conn, "orders", clock=clock)
    statement = "insert into headrace_internal.outbox_0 (topic_id, type, payload, emitted_at) values (headrace.topic_id('orders'), 'x', '1', %s)"
    conn.execute(statement, (at,))
    time_by_sql(conn, "2026-01-01 00:00:00+00")
    assert drain(conn) == 2
    first, second = read_log(conn, "orders")
    assert first.emitted_at in (EMITTED_AT_MIN, EMITTED_AT_MAX)
    assert second.emitted_at == datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("name", [name for name in METHODS if name != "command"])
def test_payload_over_the_limit_is_rejected_and_the_largest_is_accepted(
    orders: Connection, database: Target, tmp_path: Path, name: str
) -> None:
    largest = '"' + "y" * (PAYLOAD_BYTES_MAX - 2) + '"'
    assert is_accepted(METHODS[name], database, largest, None, tmp_path)
    for size in (PAYLOAD_BYTES_MAX - 1, 20_000_000):
        assert not is_accepted(METHODS[name], database, '"' + "y" * size + '"', None, tmp_path)
    assert is_accepted(METHODS[name], database, "1", None, tmp_path)
    assert [len(str(one)) for one in payloads(orders)] == [PAYLOAD_BYTES_MAX, 1]


@pytest.mark.parametrize(
    "bytes_", [b"\xff", b'"\xff"', b'"\xc0\xaf"', b'"\xed\xa0\x80"', b"\x00", b"\xff\xfe1\x00", b"\x80" * 1000]
)
def test_bytes_that_are_not_text_are_rejected_by_file_and_python(
    orders: Connection, database: Target, tmp_path: Path, bytes_: bytes
) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"type":"x","payload":' + bytes_ + b"}\n")
    with pytest.raises(HeadraceError):
        run_command("publish", "orders", "--file", str(path), "--dsn", database.dsn, "--json")
    with pytest.raises(HeadraceError), connect(database) as conn:
        publish(conn, "orders", "x", msgspec.Raw(bytes_))
    assert payloads(orders) == []


async def test_every_accepted_text_reaches_the_consumer_and_every_reader(
    orders: Connection, database: Target, tmp_path: Path, start: Start
) -> None:
    for text in ACCEPTED:
        by_sql(database, text, "k", tmp_path)
    drain(orders)
    received: list[LoggedEvent] = []

    async def keep(events: list[LoggedEvent], _tx: AsyncConnection) -> None:
        received.extend(events)

    runner: ConsumerRunner = await start(Consumer(topic="orders", name="c", handler=keep, batch=Batch(max=7)))  # type: ignore[arg-type]
    await run_dry(runner)
    assert [event.payload for event in received] == [event.payload for event in read_log(orders, "orders")]
    assert len(received) == len(ACCEPTED)
    shown = call("tail", "orders", "--no-follow", "--from", "earliest", "--json", "--dsn", database.dsn)
    # Split by line feeds: a text may contain other characters that end a line for Python.
    assert (shown.code, [json.loads(line)["key"] for line in shown.out.strip().split("\n")]) == (0, ["k"] * len(ACCEPTED))
