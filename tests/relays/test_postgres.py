"""Another PostgreSQL: exactly once, whatever is cut or killed in between."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import struct
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from headrace.consume import consumer_lag
from headrace.core import DeliveryError, Invalid
from headrace.db import Connection, Server, Target, connect
from headrace.log.topics import read_log
from headrace.relays import Relay, check_relay, create_relay, seek_relay
from headrace.relays.targets.postgres import open_target
from tests.builders import drain, fill, own_database, start_python, through_proxy, topic, wait_until
from tests.conftest import remove_server, start_server
from tests.relays.test_webhook import node, settled

TABLE = "create table public.copy (id uuid primary key, n integer check (n <> 13), key text, at timestamptz, body jsonb)"
MAPPING = {"id": "$.id", "n": "$.payload", "key": "$.key", "at": "$.emitted_at", "body": {"n": "$.payload"}}


@pytest.fixture(scope="module")
def second_server() -> Iterator[Server]:
    """Another server process."""
    running = start_server("pg18")
    yield running
    remove_server(running)


@pytest.fixture
def remote(second_server: Server) -> Iterator[Target]:
    """A database with headrace on the other server."""
    with own_database(second_server, "remote", template="headrace_template") as target:
        yield target


def address(target: Target) -> dict[str, Any]:
    parts = conninfo_to_dict(target.dsn)
    return {"host": "127.0.0.1", "port": int(parts["port"] or 5432), "dbname": parts["dbname"], "user": parts["user"]}


def table_relay(target: Target, **fields: Any) -> Relay:
    options = {**address(target), "table": "public.copy", "columns": list(MAPPING)}
    values = {"name": "copy", "start": "earliest", "format": "template", "mapping": MAPPING, "batch": 50, "backoff_s": 0.05}
    return Relay(topic="orders", target="postgres", options=options, **values | fields)


def copied(remote: Connection) -> list[tuple[Any, ...]]:
    return remote.execute("select n, id::text, key from public.copy order by n").fetchall()


def logged(conn: Connection) -> list[tuple[Any, ...]]:
    return sorted((event.payload, str(event.id), event.key) for event in read_log(conn, "orders", limit=1_000_000))


async def test_rows_are_inserted_exactly_once_although_connections_are_cut(
    conn: Connection, database: Target, remote: Target
) -> None:
    topic(conn, partitions=2)
    fill(conn, 12)
    with connect(remote) as there, through_proxy(remote) as (cut_remote, proxy):
        there.execute(TABLE.replace("check (n <> 13)", ""))
        create_relay(conn, table_relay(cut_remote, concurrency=2, batch=20))
        async with node(database):
            for n in range(40):
                conn.execute(
                    "select headrace.publish('orders', 'placed', to_jsonb(%s * 25 + i), p_key => 'k' || i) from generate_series(0, 24) i",
                    (n + 1,),
                )
                await asyncio.sleep(random.random() * 0.05)
                await asyncio.to_thread(proxy.cut)
            await settled(conn, "copy")
        assert len(logged(conn)) == 1012
        assert copied(there) == logged(conn)
        # Again from the start: the ledger knows them all.
        seek_relay(conn, "copy", "earliest")
        async with node(database):
            await settled(conn, "copy")
        assert copied(there) == logged(conn)


@pytest.mark.parametrize("kills", [1, pytest.param(6, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
def test_rows_are_inserted_exactly_once_although_nodes_are_killed(
    conn: Connection, database: Target, remote: Target, kills: int
) -> None:
    count_all = 1500 * (kills + 1)
    topic(conn, partitions=2)
    fill(conn, 12)
    with connect(remote) as there:
        there.execute(TABLE.replace("check (n <> 13)", ""))
        conn.execute(
            "select headrace.publish('orders', 'placed', to_jsonb(i), p_key => 'k' || i %% 50) from generate_series(14, %s) i",
            (count_all,),
        )
        create_relay(conn, table_relay(remote, concurrency=2, batch=10))

        def count() -> int:
            return int(there.execute("select count(*) from public.copy").fetchone()[0])  # type: ignore[index]

        for _ in range(kills):
            before = count()
            process = start_python("headrace", "node", "run", "--dsn", database.dsn)
            wait_until(lambda before=before: count() > before + 300, "a delivery")  # type: ignore[misc]
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        process = start_python("headrace", "node", "run", "--dsn", database.dsn)
        try:
            wait_until(lambda: not any(lag.lag_events for lag in consumer_lag(conn, consumer="relay.copy")), "the end")
        finally:
            process.terminate()
            process.wait()
        assert len(logged(conn)) == count_all - 1
        assert copied(there) == logged(conn)


async def test_a_rejected_row_is_a_dead_letter_and_redriven_exactly_once(
    conn: Connection, database: Target, remote: Target
) -> None:
    topic(conn)
    fill(conn, 20)
    with connect(remote) as there:
        there.execute(TABLE)
        create_relay(conn, table_relay(remote))
        async with node(database):
            await settled(conn, "copy")
            assert [row[0] for row in copied(there)] == [n for n in range(1, 21) if n != 13]
            [(error,)] = conn.execute("select error from headrace.dead_letter").fetchall()
            assert "copy_n_check" in error
            there.execute("alter table public.copy drop constraint copy_n_check")
            conn.execute("select headrace.redrive('orders', 'relay.copy')")
            async with asyncio.timeout(20):
                while copied(there) != logged(conn):
                    await asyncio.sleep(0.02)
        assert there.execute("select position from public.headrace_relay_redriven").fetchall() == [(13,)]


async def test_another_headrace_publishes_the_same_events_once(conn: Connection, database: Target, remote: Target) -> None:
    topic(conn, partitions=2)
    fill(conn, 100, keys=5)
    conn.execute("select headrace.publish('orders', 'placed', '1.10', p_headers => '{\"traceparent\": \"00-1\"}')")
    drain(conn)
    options = {**address(remote), "topic": "copies"}
    with connect(remote) as there:
        topic(there, "copies", partitions=3)
        create_relay(conn, Relay(name="copy", topic="orders", target="postgres", options=options, start="earliest"))
        async with node(database):
            await settled(conn, "copy")
            seek_relay(conn, "copy", "earliest")
            await settled(conn, "copy")
        drain(there)
        events = read_log(there, "copies", limit=1000)
        assert {event.id for event in events} == {event.id for event in read_log(conn, "orders", limit=1000)}
        assert len(events) == 101
        for key in range(5):
            values = [event.payload for event in events if event.key == f"k{key}"]
            assert values == sorted(values), "the order of a key is that of the first log"  # type: ignore[type-var]
        assert events[-1].headers == {"traceparent": "00-1"} or any(event.headers for event in events)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"host": "/var/run/postgresql"}, "host is a socket"),
        ({"host": "@abstract"}, "host is a socket"),
        ({"dsn": "host=x dbname=y user=z service=prod"}, "dsn has service"),
        ({"dsn": "host=x dbname=y user=z sslkey=/etc/shadow"}, "dsn has sslkey"),
        ({"dsn": "postgresql://u:pw@x/y"}, "clear text"),
        ({"password": "pw"}, "clear text"),
        ({"topic": "t"}, "one of them"),
        ({"columns": []}, "option 'columns' must be a list of texts"),
    ],
)
def test_mistakes_and_ways_to_the_nodes_own_rights_are_refused(options: dict[str, Any], message: str) -> None:
    own = {"host": "db.example", "dbname": "shop", "user": "relay", "table": "public.copy", "columns": ["id"]}
    with pytest.raises(Invalid, match=message):
        check_relay(Relay(name="copy", topic="orders", target="postgres", options=own | options))


async def test_a_relay_signs_in_with_nothing_of_the_node(database: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither certificate nor Kerberos ticket nor a variable, file or service of libpq: only what the definition says."""
    address = {name: str(value) for name, value in conninfo_to_dict(database.dsn).items()}
    own = {"host": "127.0.0.1", "port": address.get("port", "5432"), "dbname": "nowhere", "user": "nobody", "sslmode": "disable"}
    for variable in ("PGPASSWORD", "PGPASSFILE", "PGSSLCERT", "PGSSLKEY", "PGHOSTADDR", "PGOPTIONS"):
        monkeypatch.setenv(variable, "/of-the-node")
    used: list[dict[str, str]] = []

    async def connect(conninfo: str, **_options: object) -> None:
        used.append({str(name): str(value) for name, value in conninfo_to_dict(conninfo).items()})
        connection = psycopg.pq.PGconn.connect_start(conninfo.encode())
        used[-1] |= {option.keyword.decode(): (option.val or b"").decode() for option in connection.info}
        connection.finish()
        raise psycopg.OperationalError("not connected")

    monkeypatch.setattr(psycopg.AsyncConnection, "connect", connect)
    target = open_target("copy", {**own, "table": "a", "columns": ["b"]}, {})
    with pytest.raises(DeliveryError):
        await target.open()
    [parameters] = used
    assert (parameters["sslcertmode"], parameters["gssencmode"]) == ("disable", "disable")
    assert {name: value for name, value in parameters.items() if "of-the-node" in value} == {}
    assert (parameters["user"], parameters["dbname"], parameters.get("password", "")) == ("nobody", "nowhere", "")


@pytest.mark.parametrize("request_code", [7, 9])
async def test_a_server_that_asks_for_a_kerberos_ticket_gets_none(request_code: int) -> None:
    """Whoever writes relays chooses the server. 7: GSSAPI, 9: SSPI."""

    async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        (length,) = struct.unpack(">I", await reader.readexactly(4))
        await reader.readexactly(length - 4)
        writer.write(b"R" + struct.pack(">II", 8, request_code))
        await writer.drain()
        await reader.read()
        writer.close()

    async with await asyncio.start_server(ask, "127.0.0.1", 0) as server:
        options = {
            "host": "127.0.0.1",
            "port": server.sockets[0].getsockname()[1],
            "dbname": "a",
            "user": "b",
            "sslmode": "disable",
        }
        target = open_target("copy", {**options, "table": "a", "columns": ["b"]}, {})
        with pytest.raises(DeliveryError, match="authentication method requirement"):
            await target.open()
