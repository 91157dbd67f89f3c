"""Fifteen mistakes that a new user makes. Each answer says what is wrong and what to do."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from headrace import Action, Headrace
from headrace.core import Conflict, HeadraceError, InvalidPayload, LoggedEvent
from headrace.db import AsyncConnection, Connection, Server, Target, migrate
from headrace.log.outbox import publish
from headrace.node import Node, WorkerSettings
from tests.builders import own_database, topic
from tests.cli.conftest import Cli, call

pytestmark = pytest.mark.lane("pg18")


@pytest.fixture
def cli(database: Target) -> Cli:
    return lambda *words, stdin=None: call(*words, "--dsn", database.dsn, stdin=stdin)


def says(text: str, *, wrong: str, advice: str) -> None:
    """Both halves of a good answer, whatever the line breaks."""
    line = " ".join(text.split())
    assert wrong in line, f"does not say what is wrong: {line}"
    assert advice in line, f"does not say what to do: {line}"


async def run_until(app: Headrace, database: Target, holds: Callable[[], bool], *, work: WorkerSettings | None = None) -> None:
    """Runs a node until something is true."""
    node = Node(app, [database], work=work)
    running = asyncio.create_task(node.run())
    try:
        async with asyncio.timeout(30):
            while not holds() and not running.done():
                await asyncio.sleep(0.02)
    finally:
        node.stop()
        await running


def test_unknown_topic(cli: Cli, conn: Connection) -> None:
    topic(conn, "orders")
    says(
        cli("publish", "oders", "order.placed", "{}").err,
        wrong='there is no topic "oders" in namespace "default"',
        advice="create it: select headrace.create_topic('oders'). Known topics: orders",
    )


def test_wrong_dsn() -> None:
    says(
        call("topic", "list", "--dsn", "mysql://root:secret@localhost/shop").err,
        wrong="the address of database 'main' is invalid: it is not one of PostgreSQL",
        advice="write postgresql://user@host:5432/database",
    )


def test_database_that_does_not_exist(database: Target) -> None:
    says(
        call("topic", "list", "--dsn", make_conninfo(database.dsn, dbname="nowhere")).err,
        wrong='database "nowhere" does not exist',
        advice="check that PostgreSQL runs there, and the address in --dsn, HEADRACE_DSN or DATABASE_URL",
    )


def test_database_down() -> None:
    says(
        call("topic", "list", "--dsn", "postgresql://shop:secret@127.0.0.1:1/shop").err,
        wrong="cannot reach database main (127.0.0.1:1/shop)",
        advice="check that PostgreSQL runs there, and the address in --dsn, HEADRACE_DSN or DATABASE_URL",
    )


def test_unserialisable_payload(conn: Connection) -> None:
    topic(conn, "orders")
    with pytest.raises(InvalidPayload) as refusal:
        publish(conn, "orders", "order.placed", {"total": object()})  # type: ignore[dict-item]
    says(str(refusal.value), wrong="object", advice="convert")


async def test_raising_handler(conn: Connection, database: Target, caplog: pytest.LogCaptureFixture) -> None:
    topic(conn, "orders")
    app = Headrace()

    @app.consumer("orders")
    async def billing(event: LoggedEvent, tx: AsyncConnection) -> None:
        raise ValueError("no money")

    publish(conn, "orders", "order.placed", {})
    failed = "select count(*) > 0 from headrace.consumer_lag where error like '%%no money%%'"
    await run_until(app, database, lambda: conn.execute(failed).fetchone() == (True,))
    says(caplog.text, wrong="consumer orders/billing failed at position 1: ValueError: no money", advice="retried")
    says(call("consumer", "lag", "--dsn", database.dsn).out, wrong="ValueError: no money", advice="")


def test_wrong_handler_signature() -> None:
    app = Headrace()
    with pytest.raises(HeadraceError) as refusal:

        @app.handler("MAIL")  # type: ignore[arg-type]
        async def mail() -> None: ...

    says(str(refusal.value), wrong="mail", advice="write: async def mail(action")


async def test_blocking_handler(conn: Connection, database: Target, caplog: pytest.LogCaptureFixture) -> None:
    app = Headrace()

    @app.handler("MAIL")
    async def mail(action: Action, tx: AsyncConnection) -> None:
        time.sleep(1.5)  # noqa: ASYNC251 - the mistake

    conn.execute("select headrace.send_action('MAIL', '{}')")
    done = "select count(*) = 1 from headrace.action_result"
    with caplog.at_level(logging.WARNING):
        await run_until(app, database, lambda: conn.execute(done).fetchone() == (True,))
    says(caplog.text, wrong="handler of action MAIL blocked the event loop", advice="await an async call instead")


def test_condition_typo(cli: Cli, conn: Connection) -> None:
    topic(conn, "cars")
    condition = "(object -> 'hp')::int > 1000 andd key = 'x'"
    words = ("--topic", "cars", "--event-type", "NEW_CAR", "--action", "NOTIFY", "--condition", condition)
    says(
        cli("rule", "create", "fast", *words).err,
        wrong="line 1, column 30: andd does not belong here",
        advice="allowed: an operator, and, or",
    )


def test_missing_brace(cli: Cli, conn: Connection) -> None:
    topic(conn, "cars")
    words = ("--topic", "cars", "--action", "x=X", "--pattern", "push(x) {sequential {a, b}")
    says(cli("correlator", "create", "pair", *words).err, wrong="line 1, column 27", advice="expected")


def test_publishing_outside_of_a_transaction(conn: Connection, database: Target) -> None:
    """It is a transaction of its own, so nothing is lost; the documentation says what that means."""
    topic(conn, "orders")
    with psycopg.connect(database.dsn, autocommit=True) as shop, suppress(ZeroDivisionError):
        publish(shop, "orders", "order.placed", {})
        raise ZeroDivisionError
    assert conn.execute("select count(*) from headrace.outbox").fetchone() == (1,), "committed at once"
    shop = psycopg.connect(database.dsn)
    publish(shop, "orders", "order.placed", {})
    shop.close()
    assert conn.execute("select count(*) from headrace.outbox").fetchone() == (1,), "without a commit there is no event"
    for text in (publish.__doc__ or "", (Path(__file__).parents[1] / "docs/publish.md").read_text(encoding="utf-8")):
        says(text.replace("Open", "open"), wrong="the event is committed at once", advice="open a transaction around")


def test_duplicate_consumer() -> None:
    app = Headrace()

    async def billing(event: LoggedEvent, tx: AsyncConnection) -> None: ...

    app.consumer("orders")(billing)
    with pytest.raises(Conflict) as refusal:
        app.consumer("orders")(billing)
    says(str(refusal.value), wrong="consumer 'billing' of topic 'orders' exists twice", advice="rename one of them")


def test_dropping_a_topic_in_use(cli: Cli, conn: Connection) -> None:
    topic(conn, "orders")
    cli("consumer", "create", "orders", "billing")
    answer = cli("topic", "drop", "orders", "--yes")
    says(
        answer.err,
        wrong='topic "orders" has consumers: billing',
        advice="headrace consumer drop), or drop everything together (--force",
    )
    assert answer.code == 4


def test_unknown_action(cli: Cli, conn: Connection) -> None:
    """When the rule is written, and when the action finds no handler."""
    topic(conn, "cars")
    words = ("--topic", "cars", "--event-type", "NEW_CAR", "--action", "NOTFY", "--condition", "true")
    says(
        cli("rule", "create", "fast", *words).err,
        wrong='does not know event type "NEW_CAR" and action "NOTFY"',
        advice="insert the name into headrace.event_type or headrace.action, or correct the rule",
    )
    conn.execute("select headrace.send_action('NOTFY', '{}')")
    conn.execute("select headrace.bury_unhandled(0)")
    says(
        cli("dead-letter", "list").out,
        wrong="no node of namespace default handles action NOTFY",
        advice="run a node with a handler for it, then redrive; or correct the name",
    )


def test_invalid_cron(cli: Cli, conn: Connection) -> None:
    topic(conn, "reports")
    answer = cli("schedule", "create", "daily", "30 25 * * *", "--topic", "reports", "--type", "due")
    says(answer.err, wrong="'30 25 * * *': Bad hour", advice="write 5 fields (minute hour day-of-month month day-of-week)")


def test_older_schema(server: Server) -> None:
    with own_database(server, "old", template="template0") as old:
        says(call("topic", "list", "--dsn", old.dsn).err, wrong="does not exist", advice="run: headrace migrate")
        says(call("node", "run", "--dsn", old.dsn).err, wrong="lacks", advice="run: headrace migrate")
        with psycopg.connect(old.dsn, autocommit=True) as conn:
            migrate(conn)
            conn.execute("update headrace_internal.release set release = '0.0.9'")
        says(call("node", "run", "--dsn", old.dsn).err, wrong="was migrated by headrace 0.0.9", advice="run: headrace migrate")
