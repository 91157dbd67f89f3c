"""Stolen cards: a rule and a pattern run in the database, then on Spark with the same answers; then a changed pattern is backtested."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from payments import Payment, generate_payments

from headrace import Action, Event, Headrace, Node, Target, connect, create_topic, migrate, publish_many
from headrace.correlators import CORRELATORS
from headrace.db import AsyncConnection, Connection, configured_targets
from headrace.definitions import apply, plan
from headrace.rules import RULES
from headrace.spark import correlate, match, session
from headrace.spark.backtest import Result, backtest, correlator_subject, rule_subjects

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(__file__).parent
Answers = set[tuple[object, ...]]
app = Headrace()


@app.handler("REVIEW_PAYMENT")
@app.handler("BLOCK_CARD")
async def decide(action: Action, tx: AsyncConnection) -> None:
    """Exactly once per firing: the row and the end of the action are one transaction."""
    await tx.execute("insert into decision (action, card) values (%s, %s)", (action.action, action.key))


def prepare(conn: Connection) -> None:
    """A topic whose time is the time of its events, since these are of the past, and the definitions of fraud.yaml."""
    conn.execute("create table decision (action text, card text)")
    create_topic(conn, "payments", clock="event")
    apply(conn, plan(conn, FOLDER / "fraud.yaml", kinds=(RULES, CORRELATORS)))


def publish_payments(conn: Connection, payments: list[Payment]) -> None:
    """The payload is the dataclass itself: its Decimal becomes a number with all its digits, its datetime ISO 8601."""
    publish_many(
        conn,
        (
            Event(topic="payments", type="payment.made", payload=payment, key=payment.card, emitted_at=payment.paid_at)
            for payment in payments
        ),
    )


async def run_in_database(target: Target, events: int, *, timeout_s: float = 60) -> None:
    """Runs a node until the rule and the pattern have seen every event and every action is handled."""
    done = """select (select min(c.position) from headrace.cursor c) = %s
        and (select count(*) from decision) = (select count(*) from headrace.firing) + (select count(*) from headrace.correlation)"""
    node = Node(app, [target])
    running = asyncio.create_task(node.run())
    with connect(target) as conn:
        async with asyncio.timeout(timeout_s):
            while conn.execute(done, (events,)).fetchone() != (True,) and not running.done():  # noqa: ASYNC110 (the node changes it)
                await asyncio.sleep(0.05)
    node.stop()
    await running


def database_answers(conn: Connection) -> Answers:
    """Which rule fired where, and which pattern pushed what, on which evidence."""
    fired = """select v.rule, f.position from headrace.firing f
        join headrace.rule_version v on v.version_id = f.rule_version_id"""
    pushed = "select correlator, key, position, evidence from headrace.correlation_history"
    outputs = conn.execute(pushed).fetchall()
    return {*conn.execute(fired).fetchall(), *((*row, tuple(evidence)) for *row, evidence in outputs)}


def spark_answers(spark: SparkSession, conn: Connection, options: dict[str, str]) -> Answers:
    """The same, from a DataFrame of the topic."""
    payments = spark.read.format("headrace").options(subscribe="payments", **options).load()
    rules = [subject.spec for subject in rule_subjects(conn, "large-payment")]
    pattern = correlator_subject(conn, "stolen-card").spec
    fired = match(payments, rules).select("rule", "offset").collect()
    pushed = correlate(payments, pattern).select("correlator", "key", "offset", "evidence").collect()
    return {*map(tuple, fired), *((*row, tuple(evidence)) for *row, evidence in pushed)}


def backtest_change(spark: SparkSession, conn: Connection, target: Target) -> Result:
    """What the pattern of stolen-card.ecl would have found, compared with the live one."""
    changed = correlator_subject(conn, str(FOLDER / "stolen-card.ecl"))
    return backtest(spark, [target], [changed]).results[0]


def main() -> None:
    target = configured_targets()[0]
    payments = generate_payments()
    with connect(target) as conn:
        migrate(conn)
        prepare(conn)
        publish_payments(conn, payments)
        asyncio.run(run_in_database(target, len(payments)))
        answers = database_answers(conn)
        spark = session()
        agreement = "the same on Spark" if spark_answers(spark, conn, {}) == answers else "OTHERS on Spark"
        result = backtest_change(spark, conn, target)
    sys.stdout.write(f"{len(payments)} payments, {len(answers)} answers in the database, {agreement}\n")
    for label, count in result.totals:
        sys.stdout.write(f"changed pattern: {label:16} {count}\n")


if __name__ == "__main__":
    main()
