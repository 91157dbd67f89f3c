"""What the console's database holds in tests: a little shop, with everything that can go wrong, and names and payloads of an enemy.

Tests that change something use namespace `lab`. Namespace `enemy` has everything that users can name or send, by somebody with evil
in mind."""

from __future__ import annotations

from uuid import uuid4

from headrace import Action, Headrace
from headrace.consume import Failure
from headrace.core import Bury, LoggedEvent, encode
from headrace.correlators import ActionOutput, Correlator, create_correlator
from headrace.db import Connection, Target, create_namespace, grant_namespace
from headrace.log.topics import create_topic
from headrace.relays import Relay, create_relay
from headrace.rules import Rule, create_rule
from headrace.schedules import create_schedule
from headrace.testing import Kit
from headrace.web.http import create_access_token, create_hook
from tests.builders import drain

SCRIPT = "<script>window.hacked = true</script>"
IMAGE = "<img src=x onerror='window.hacked=true'>"
HOSTILE = f"{SCRIPT}{IMAGE}\x1b[31mred\u202egnirts\u200b{{{{7*7}}}}"
"""Markup, an escape sequence, a right-to-left override, an invisible character, a template's braces."""
DEEP_LEVELS = 100
PATTERN = "repeat {push(late) {sequential {order.placed, fail {within 1 h {order.paid}}}}}"


class CardError(Exception):
    """An error whose text is hostile."""


def application() -> Headrace:
    """A consumer that works, one that stops, one that moves events to the dead letters, and actions that succeed or die."""
    app = Headrace()

    @app.consumer("orders", name="billing")
    def bill(event: LoggedEvent, tx: Connection) -> None:
        """Handles everything."""

    @app.consumer("orders", name="shipping", failure=Failure.stop())
    def ship(event: LoggedEvent, tx: Connection) -> None:
        if event.type == "order.paid":
            raise CardError(f"no truck for {event.key}: {HOSTILE}")

    @app.consumer("orders", name="mailing", failure=Failure.dead_letter(attempts=1))
    def mail(event: LoggedEvent, tx: Connection) -> None:
        if event.type == "order.cancelled":
            raise CardError(f"mailbox of {event.key} is full")

    @app.handler("REVIEW")
    def review(action: Action, tx: Connection) -> None:
        """Succeeds."""

    @app.handler("CHARGE")
    def charge(action: Action, tx: Connection) -> None:
        if action.key and action.key.endswith("3"):
            raise Bury(f"card declined {HOSTILE}")

    return app


def fill(database: Target) -> None:
    """Fills both namespaces."""
    with Kit(database) as kit:
        conn = kit.conn
        create_topic(conn, "orders", partitions=4)
        create_topic(conn, "payments")
        _define(conn)
        for number in range(60):
            _publish_order(kit, number)
        kit.publish("orders", "order.placed", {"note": HOSTILE, "total": 1}, key=HOSTILE[:200])
        kit.publish("orders", "order.placed", _deep(DEEP_LEVELS), key="deep")
        kit.publish("orders", "order.placed", {"blob": "x" * 1_000_000}, key="large")
        kit.run_until_idle_sync(application())
        # One more for a consumer that nobody runs: it lags behind.
        kit.conn.execute("select headrace.create_consumer('orders', 'reporting')")
        _fill_lab(conn)
    _fill_enemy(database)


def _publish_order(kit: Kit, number: int) -> None:
    key = f"order-{number}"
    total = 20 + number * 7
    kit.publish(
        "orders",
        "order.placed",
        {"total": total, "customer": {"name": f"Ada {number}", "email": f"a{number}@x.example"}},
        key=key,
    )
    if number % 3 == 0:
        kit.publish("orders", "order.paid", {"total": total, "card": "4111 1111 1111 1111"}, key=key)
    if number % 10 == 9:
        kit.publish("orders", "order.cancelled", {"reason": "changed my mind"}, key=key)


def _define(conn: Connection) -> None:
    create_rule(
        conn,
        Rule(
            name="large", topic="orders", event_type="order.placed", action="REVIEW", condition="(object ->> 'total')::int > 300"
        ),
    )
    create_rule(conn, Rule(name="charge", topic="orders", event_type="order.paid", action="CHARGE"))
    output = {"late": ActionOutput(action="REMIND")}
    create_correlator(conn, Correlator(name="unpaid", topic="orders", pattern=PATTERN, key="key", outputs=output))
    create_schedule(conn, "nightly", cron="30 2 * * *", topic="orders", type="report.due", zone="Europe/Berlin")
    create_relay(conn, Relay(name="crm", topic="payments", target="webhook", options={"url": "https://crm.example/hook"}))
    create_hook(conn, "github", "orders", "github", ["env:GITHUB"])
    create_access_token(conn, "shop", ["publish", "read"], topics=["orders"], event_types=["order.*"])


def _fill_enemy(database: Target) -> None:
    """Hostile keys, payloads, headers, producers, conditions, patterns, errors, reasons, names of nodes."""
    app = Headrace(namespace="enemy")

    @app.consumer("orders", name="mailing", failure=Failure.dead_letter(attempts=1))
    def mail(event: LoggedEvent, tx: Connection) -> None:
        raise CardError(HOSTILE)

    @app.handler("CHARGE")
    def charge(action: Action, tx: Connection) -> None:
        raise Bury(HOSTILE)

    with Kit(database) as owner:
        create_namespace(owner.conn, "enemy")
    with Kit(database, namespace="enemy") as kit:
        conn, own = kit.conn, {"namespace": "enemy"}
        create_topic(conn, "orders", **own)
        text = HOSTILE.replace("\x1b", "").replace("'", "''")
        rule = Rule(name="charge", topic="orders", event_type="order.placed", action="CHARGE", condition=f"key <> '{text}x'")
        create_rule(conn, rule, **own)
        pattern = f"repeat {{push(evil) {{sequential {{order.placed and <key <> '{text}x'>, order.paid}}}}}}"
        output = {"evil": ActionOutput(action="CHARGE")}
        create_correlator(conn, Correlator(name="evil", topic="orders", pattern=pattern, key="key", outputs=output), **own)
        create_schedule(conn, "nightly", cron="30 2 * * *", topic="orders", type="report.due", payload={"note": HOSTILE}, **own)
        options = {"url": "https://crm.example/<script>window.hacked=true</script>"}
        create_relay(conn, Relay(name="crm", topic="orders", target="webhook", options=options), **own)
        create_hook(
            conn,
            "github",
            "orders",
            "github",
            ["env:GITHUB"],
            mapping={"key": "<script>window.hacked=true</script>{hook}"},
            **own,
        )
        create_access_token(conn, "shop", ["publish"], **own)
        headers = {HOSTILE.replace("\x1b", ""): HOSTILE}
        kit.publish("orders", "order.placed", {HOSTILE: [HOSTILE], "total": 1}, key=HOSTILE[:200], headers=headers)
        kit.run_until_idle_sync(app)
        conn.execute("select headrace.pause('consumer', 'orders/mailing', %s, 'enemy')", (HOSTILE,))
        conn.execute(
            "select headrace.register_node(%s, %s, %s, %s, %s, '{}', 'enemy')", (uuid4(), HOSTILE, HOSTILE, [HOSTILE], HOSTILE)
        )


def _fill_lab(conn: Connection) -> None:
    create_namespace(conn, "lab")
    for role, level in (("lab_admin", "admin"), ("lab_reader", "consume")):
        if conn.execute("select 1 from pg_roles where rolname = %s", (role,)).fetchone() is None:
            conn.execute(f"create role {role}")
        grant_namespace(conn, role, "lab", level)  # type: ignore[arg-type]
    create_topic(conn, "parcels", partitions=2, namespace="lab")
    for consumer in ("loading", "sorting", "counting"):
        conn.execute("select headrace.create_consumer('parcels', %s, p_namespace => 'lab')", (consumer,))
    for number in range(20):
        conn.execute(
            "select headrace.publish('parcels', 'parcel.sent', %s, p_key => %s, p_namespace => 'lab')",
            (f'{{"weight": {number}}}', f"parcel-{number}"),
        )
    drain(conn)
    _fill_nodes(conn)


def _fill_nodes(conn: Connection) -> None:
    """A node, a loop that fails, and a pipeline with two batches, as their processes would have written them."""
    report = {
        "consumers": [{"topic": "parcels", "consumer": "loading", "partitions": [0, 1], "events_per_min": 120}],
        "actions": [{"action": "WEIGH", "per_min": 4.5}],
    }
    node_id = uuid4()
    conn.execute("select headrace.register_node(%s, 'worker-1', '0.1.0', '{WEIGH}', p_namespace => 'lab')", (node_id,))
    conn.execute("select headrace.heartbeat(%s, %s)", (node_id, encode(report)))
    conn.execute(
        """insert into headrace_internal.failure (kind, namespace, name, error, failures, retry_at)
        values ('schedule', 'lab', 'nightly', 'there is no topic "reports"', 3, headrace.clock() + interval '8 seconds')"""
    )
    conn.execute(
        """with new as (
            insert into headrace_internal.pipeline (topic_id, run_id, process, master, batches, events, firings)
            values (headrace.topic_id('parcels', 'lab'), %s, 'spark-1:99', 'local[2]', 2, 20, 3) returning topic_id, run_id)
        insert into headrace_internal.pipeline_batch (topic_id, batch, run_id, from_position, upto, firings, outputs, timers, took_ms)
        select n.topic_id, b.batch, n.run_id, b.batch * 10 - 10, b.batch * 10, b.batch, 0, 0, 180 from new n, generate_series(1, 2) b (batch)""",
        (uuid4(),),
    )


def _deep(levels: int) -> dict[str, object]:
    value: dict[str, object] = {"bottom": HOSTILE}
    for _ in range(levels):
        value = {"in": value}
    return value
