"""Relays as definitions: written by any means, versioned, walled off, and shown."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from headrace.actions import list_pauses, pause, resume
from headrace.consume import Consumer, consumer_lag, create_consumer, drop_consumer
from headrace.core import Conflict, Invalid, InvalidRelay, RelayExists, ReservedConsumer, TopicInUse, UnknownRelay
from headrace.db import Connection, Listener, StopSignal, Subscription, Target, connect, create_pool, map_database_errors
from headrace.definitions import apply, plan
from headrace.lang.condition import ConditionError
from headrace.log.topics import drop_topic
from headrace.observe.doctor import examine
from headrace.relays import (
    RELAYS,
    Relay,
    RelayEngine,
    RelayRunner,
    alter_relay,
    backtest_relay,
    create_relay,
    drop_relay,
    get_relay,
    list_relay_versions,
    list_relays,
    seek_relay,
)
from headrace.relays.delivery import Delivery
from tests.builders import drain, fill, publish, topic
from tests.relays.conftest import MakeRelay
from tests.relays.receiver import Receiver
from tests.relays.test_webhook import node, settled

URL = "https://example.com/hook"


def hook(**fields: object) -> Relay:
    values = {"name": "hook", "topic": "orders", "target": "webhook", "options": {"url": URL}} | fields
    return Relay(**values)  # type: ignore[arg-type]


@pytest.mark.lane("pg18", "pg15")
def test_each_change_is_a_version_and_the_cursors_stay(conn: Connection) -> None:
    topic(conn, partitions=2)
    fill(conn, 10)
    create_relay(conn, hook())
    seek_relay(conn, "hook", "5")
    alter_relay(conn, hook(condition="type = 'paid'", attempts=3))
    alter_relay(conn, hook(condition="type = 'paid'", attempts=3), source="file.yaml")
    assert [lag.position for lag in consumer_lag(conn, consumer="relay.hook")] == [4, 4]
    state = get_relay(conn, "hook")
    assert (state.version, state.source, state.status, state.relay.attempts) == (2, "file.yaml", "pending", 3)
    assert conn.execute("select attempts_max from headrace.consumer where consumer = 'relay.hook'").fetchone() == (3,)
    drop_relay(conn, "hook")
    versions = list_relay_versions(conn, "hook")
    assert [(version.version, version.condition, version.dropped) for version in versions] == [
        (1, "true", False),
        (2, "type = 'paid'", False),
        (3, "type = 'paid'", True),
    ]
    assert consumer_lag(conn, consumer="relay.hook") == []
    with pytest.raises(UnknownRelay):
        get_relay(conn, "hook")


def test_mistakes_are_found_when_a_relay_is_written(conn: Connection) -> None:
    topic(conn)
    with pytest.raises(ConditionError):
        create_relay(conn, hook(condition="total >"))
    mistakes: list[tuple[dict[str, object], str]] = [
        ({"target": "pigeon"}, "there is no target 'pigeon'; known are"),
        ({"options": {}}, "option 'url' is missing"),
        ({"options": {"url": URL, "colour": 1}}, "option 'colour' is unknown; known are"),
        ({"options": {"url": "ftp://example.com"}}, "not an http or https address"),
        ({"options": {"url": "https://me:pw@example.com"}}, "clear text"),
        ({"options": {"url": URL, "secret": "whsec_abc"}}, "option 'secret' has a secret in clear text"),
        ({"options": {"url": URL, "secret": "env:BANK__KEY"}}, "option 'secret': .* is not a reference to a secret"),
        ({"options": {"url": URL, "headers": {"authorization": "Bearer x"}}}, "option 'headers.authorization' has a secret"),
        ({"options": {"url": URL, "timeout_s": 99}}, "option 'timeout_s' must be at most 30, it is 99"),
        ({"format": "template"}, "the mapping is not an object with fields"),
        ({"mapping": {"a": 1}}, "a mapping is for the format template"),
        ({"format": "template", "mapping": {"a": "$.total"}}, "field a: '\\$.total' is not a path; it starts with"),
        ({"format": "template", "mapping": {"a": {"b": "$.payload..x"}}}, "field a.b: .* is not a path at '..x'"),
        ({"format": "template", "mapping": {"a": "$.id.x"}}, "goes into id, which has no fields"),
    ]
    for fields, message in mistakes:
        with pytest.raises(Invalid, match=message):
            create_relay(conn, hook(**fields))
    assert list_relays(conn) == []
    create_relay(conn, hook())
    with pytest.raises(RelayExists):
        create_relay(conn, hook())
    topic(conn, "other")
    with pytest.raises(Conflict, match="keeps its name and its topic"):
        alter_relay(conn, hook(topic="other"))


@pytest.mark.lane("pg18", "pg15")
def test_sql_rejects_a_secret_in_clear_text(conn: Connection) -> None:
    topic(conn)
    insert = "insert into headrace.relay (relay, topic, target, options) values ('hook', 'orders', 'webhook', %s)"
    for options in (
        '{"secret": "whsec_x"}',
        '{"secrets": ["env:RELAY_A", "whsec_x"]}',
        '{"headers": {"Authorization": "Bearer x"}}',
        '{"url": "https://me:pw@example.com"}',
        '{"dsn": "host=x password=y"}',
    ):
        with pytest.raises(Invalid, match="clear text"), map_database_errors():
            conn.execute(insert, (options,))
    conn.execute(insert, ('{"url": "https://example.com", "secrets": ["env:RELAY_A"], "password": "file:pw"}',))
    assert get_relay(conn, "hook").status == "pending"


def test_the_consumer_of_a_relay_belongs_to_it(conn: Connection) -> None:
    topic(conn)
    create_relay(conn, hook())
    with pytest.raises(ReservedConsumer, match='belongs to relay "hook"'):
        create_consumer(conn, Consumer(topic="orders", name="relay.hook", handler=print))  # type: ignore[arg-type]
    with pytest.raises(ReservedConsumer):
        drop_consumer(conn, "orders", "relay.hook")
    with pytest.raises(TopicInUse):
        drop_topic(conn, "orders")
    drop_topic(conn, "orders", force=True)
    assert list_relays(conn) == []


def test_a_pause_has_one_name_for_relay_and_consumer(conn: Connection) -> None:
    topic(conn)
    create_relay(conn, hook())
    assert pause(conn, "relay", "hook", reason="quiet")
    assert not pause(conn, "consumer", "orders/relay.hook")
    assert [(one.kind, one.name) for one in list_pauses(conn)] == [("relay", "hook")]
    assert resume(conn, "consumer", "orders/relay.hook") == 1
    assert list_pauses(conn) == []
    with pytest.raises(UnknownRelay):
        pause(conn, "relay", "other")


def test_a_file_creates_alters_and_drops_relays(conn: Connection, tmp_path: Path) -> None:
    topic(conn)
    file = tmp_path / "relays.yaml"
    file.write_text(
        """
relays:
  - name: crm
    topic: orders
    target: webhook
    options: {url: "https://example.com/a", secret: "env:RELAY_CRM"}
    condition: "(object -> 'total')::int > 100"
    format: template
    mapping: {id: $.id, total: $.payload.total}
  - {name: all, topic: orders, target: webhook, options: {url: "https://example.com/b"}}
""",
        encoding="utf-8",
    )
    apply(conn, plan(conn, file, kinds=(RELAYS,)))
    assert [state.relay.name for state in list_relays(conn)] == ["all", "crm"]
    assert plan(conn, file, kinds=(RELAYS,)).is_empty, "what was written is what is read"
    file.write_text("relays:\n  - {name: all, topic: orders, target: webhook, options: {url: 'https://example.com/c'}}\n")
    changes = plan(conn, file, kinds=(RELAYS,)).changes
    assert [(change.operation, change.name, change.differences) for change in changes] == [
        ("alter", "all", ("options",)),
        ("drop", "crm", ()),
    ]


def test_a_backtest_shows_what_would_be_sent_and_sends_nothing(conn: Connection) -> None:
    topic(conn)
    conn.execute(
        """select headrace.publish('orders', case when n % 2 = 0 then 'paid' else 'placed' end,
               jsonb_build_object('total', n, 'exact', 1.10::numeric, 'lines', jsonb_build_array(n)), p_key => 'k')
           from generate_series(1, 10) n"""
    )
    drain(conn)
    mapping = {"id": "$.id", "total": "$.payload.total", "line": "$.payload.lines[0]", "exact": "$.payload.exact",
               "none": "$.payload.none", "fixed": "x", "dollar": "$$5", "nested": {"type": "$.type"}}  # fmt: skip
    relay = hook(condition="type = 'paid' and (object -> 'total')::int > 2", format="template", mapping=mapping)
    result = backtest_relay(conn, relay, end="9", samples=1)
    assert (result.events, result.messages, result.by_event_type) == (8, 3, {"paid": 3})
    [first] = result.samples
    assert b'"exact": 1.10' in first.body, "every digit is kept"
    assert first.body.decode().startswith("{")
    for part in ('"total": 4', '"line": 4', '"none": null', '"fixed": "x"', '"dollar": "$5"', '"nested": {"type": "paid"}'):
        assert part in first.body.decode()
    structured = backtest_relay(conn, hook(format="cloudevents"), samples=1).samples[0]
    assert structured.content_type == "application/cloudevents+json" and b'"specversion":"1.0"' in structured.body


async def test_the_cursor_passes_what_does_not_match_also_behind_a_dead_letter(
    conn: Connection, database: Target, receiver: Receiver, make_relay: MakeRelay
) -> None:
    topic(conn)
    fill(conn, 30, keys=2)
    make_relay("/refuse/21", condition="(object #>> '{}')::int > 20 and key = 'k1'")
    async with node(database):
        await settled(conn)
        assert sorted(receiver.values) == [], "they wait behind 21, the dead letter of their key"
        receiver._answer = _accepting(receiver)  # type: ignore[method-assign]
        conn.execute("select headrace.redrive('orders', 'relay.hook')")
        await receiver.wait(5)
        async with asyncio.timeout(20):
            while conn.execute(
                "select count(*) from headrace.event_dead_letter where state in ('behind', 'redrive')"
            ).fetchone() != (0,):
                await asyncio.sleep(0.02)
    assert receiver.values == [21, 23, 25, 27, 29], "in order, and only what meets the condition"


def _accepting(receiver: Receiver):  # type: ignore[no-untyped-def]
    answer = receiver._answer

    async def accept(request, writer):  # type: ignore[no-untyped-def]
        request.path = "/ok"
        await answer(request, writer)

    return accept


def _failures(conn: Connection, relay: str) -> list[str]:
    rows = conn.execute("select error from headrace.failure where kind = 'relay' and name = %s", (relay,)).fetchall()
    return [error for (error,) in rows]


async def test_one_failing_relay_stops_no_other_and_is_shown(
    conn: Connection, database: Target, receiver: Receiver, make_relay: MakeRelay
) -> None:
    topic(conn)
    fill(conn, 20)
    make_relay("/slow", name="slow", options={"timeout_s": 1})
    make_relay(name="down", options={"url": "http://127.0.0.1:1/"})
    # Written past all checks of the library, as SQL may.
    conn.execute(
        "insert into headrace.relay (relay, topic, target, start, condition) values ('broken', 'orders', 'webhook', 'earliest', 'total >')"
    )
    conn.execute("insert into headrace.relay (relay, topic, target, start) values ('unknown', 'orders', 'pigeon', 'earliest')")
    make_relay(name="good")
    async with node(database):
        await receiver.wait(20)
        async with asyncio.timeout(20):
            while get_relay(conn, "broken").status != "invalid" or not _failures(conn, "unknown"):
                await asyncio.sleep(0.02)
            while not any(lag.attempts > 1 for lag in consumer_lag(conn, consumer="relay.down")):
                await asyncio.sleep(0.02)
        findings = {check.message for check in await asyncio.to_thread(examine, database) if check.check == "relays"}
        assert any("default/broken is invalid" in message for message in findings)
        assert "there is no target 'pigeon'" in _failures(conn, "unknown")[0]
        [lag] = consumer_lag(conn, consumer="relay.good")
        assert (lag.state, lag.nodes) == ("running", 1)
    assert any("waits: no live node" in check.message for check in examine(database) if check.check == "relays")


async def test_a_change_takes_effect_on_a_running_node(
    conn: Connection, database: Target, receiver: Receiver, make_relay: MakeRelay
) -> None:
    topic(conn)
    async with node(database):
        relay = make_relay()
        publish(conn, 1)
        await receiver.wait(1)
        changed = Relay(**{**vars(relay), "condition": "(object #>> '{}')::int > 10"})
        alter_relay(conn, changed)
        async with asyncio.timeout(60):
            while get_relay(conn, "hook").status != "valid":
                await asyncio.sleep(0.02)
        publish(conn, 2)
        publish(conn, 11)
        await receiver.wait(2)
        pause(conn, "relay", "hook")
        publish(conn, 12)
        drop_relay(conn, "hook")
    assert receiver.values == [1, 11]


async def test_a_version_that_is_not_the_newest_claims_nothing(
    conn: Connection, database: Target, receiver: Receiver, make_relay: MakeRelay
) -> None:
    """A node that has not heard of a change must not send by the old options what the new condition selects."""
    topic(conn)
    relay = make_relay(condition="(object #>> '{}')::int <= 2")
    pool = create_pool(database, size=2)
    await pool.open()

    async def start() -> RelayRunner:
        engine = RelayEngine(pool, pool, Subscription("headrace_relay"), StopSignal(), listener=Listener(database))
        [runnable] = await engine.list_runnable()
        delivery = Delivery(runnable.relay, namespace="default", uid=runnable.uid, on_gone=_fail)
        runner = RelayRunner(runnable, delivery, pool, Subscription("headrace_log"), StopSignal())
        await runner.register()
        return runner

    older = await start()
    alter_relay(conn, replace(relay, condition="(object #>> '{}')::int > 2"))
    newer = await start()
    for number in (1, 2, 3):
        publish(conn, number)
    drain(conn)
    assert await older.handle_once() == 0 and receiver.values == []
    assert await newer.handle_once() == 1 and receiver.values == [3]
    await pool.close()


async def _fail(reason: str) -> None:
    raise AssertionError(reason)


def test_another_namespace_can_neither_see_nor_touch_a_relay(conn: Connection, database: Target) -> None:
    topic(conn)
    create_relay(conn, hook())
    [(relay_id, consumer_id)] = conn.execute("select relay_id, consumer_id from headrace.relay_state").fetchall()
    conn.execute("select headrace.create_namespace('other')")
    role = "relay_stranger_" + database.dsn[-8:]
    conn.execute(f"create role {role}")
    try:
        conn.execute("select headrace.grant_namespace(%s, 'other', 'admin')", (role,))
        with connect(database) as stranger:
            stranger.execute(f"set role {role}")
            for view in ("relay", "relay_version", "relay_state"):
                assert stranger.execute(f"select count(*) from headrace.{view}").fetchone() == (0,)
            for statement in (
                f"select headrace.report_relay({relay_id}, 1, 'invalid', 'x')",
                "select headrace.pause('relay', 'hook', p_namespace => 'default')",
                f"select * from headrace.claim_events({consumer_id}, 1)",
                "insert into headrace.relay (namespace, relay, topic, target) values ('default', 'x', 'orders', 'webhook')",
                "select from headrace_internal.relay",
            ):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    stranger.execute(statement)
            assert stranger.execute("update headrace.relay set active = false").rowcount == 0
            assert stranger.execute("update headrace.relay set dropped = true").rowcount == 0
    finally:
        conn.execute(f"drop owned by {role}; drop role {role}")
    assert get_relay(conn, "hook").status == "pending"


def test_a_relay_reads_only_the_secrets_of_its_namespace(tmp_path: Path) -> None:
    from headrace.relays.targets.options import resolve_secrets

    (tmp_path / "shop.key").write_text("whsec_x\n")
    (tmp_path / "bank.other").write_text("private")
    (tmp_path / "other").write_text("private")
    environ = {
        "HEADRACE_SECRETS": str(tmp_path),
        "HEADRACE_SECRET_SHOP__A": "a",
        "HEADRACE_SECRET_BANK__B": "private",
        "RELAY_C": "private",
        "HEADRACE_DSN": "postgresql://me:pw@db/x",
    }
    secrets = resolve_secrets({"secret": "file:key", "secrets": ["env:A"], "url": "https://x"}, "shop", environ)
    assert secrets == {"secret": "whsec_x", "secrets.0": "a"}
    assert "whsec" not in repr(secrets)
    foreign = ("env:HEADRACE_DSN", "env:B", "env:RELAY_C", "env:BANK__B", "file:other", "file:../other", f"file:{tmp_path}/other")
    for reference in foreign:
        with pytest.raises(InvalidRelay) as caught:
            resolve_secrets({"secret": reference}, "shop", environ)
        assert "pw" not in str(caught.value) and "private" not in str(caught.value)
