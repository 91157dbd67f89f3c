"""The rules, correlators, schedules and the relay of the workload, and their creation in an empty database."""

from __future__ import annotations

import os
from dataclasses import dataclass

from psycopg.conninfo import conninfo_to_dict

from headrace.core import JSON
from headrace.correlators import ActionOutput, Correlator, EventOutput, Output, create_correlator
from headrace.db import Connection, query
from headrace.log.topics import create_topic
from headrace.prove.workload import (
    ALERTS,
    CRON,
    EXPIRING,
    EXPIRING_DAYS,
    EXPIRING_PER_DAY_MIN,
    EXPIRING_PER_MINUTE,
    GREET,
    LAGGARD,
    ORDERS,
    PARTITIONS,
    PEOPLE,
    PERSON,
    POISON,
    RELAY,
    RELAYED,
    RETURNS,
    SCHEDULE,
    SHIP,
    SINK,
    STEPS,
    TICKS,
    TRIPS,
    TROUBLE,
)
from headrace.relays import Relay, create_relay
from headrace.rules import Rule, create_rule
from headrace.schedules import create_schedule
from headrace.spark.pipeline import set_engine

RULES = (
    Rule(name="big", topic=ORDERS, event_type="placed", action="charge", condition="(object -> 'amount')::int >= 800"),
    Rule(
        name="red",
        topic=ORDERS,
        event_type="placed",
        action="paint",
        condition="object ->> 'color' = 'red' and (object -> 'amount')::int % 3 = 0",
    ),
    Rule(
        name="odd",
        topic=ORDERS,
        event_type="returned",
        action="inspect",
        condition="key like '%-1' or object ->> 'color' = 'blue'",
    ),
    Rule(name=SHIP, topic=ORDERS, event_type="returned", action=SHIP),
    Rule(name="trouble", topic=TROUBLE, event_type=POISON, action="explode"),
    Rule(name="far", topic=TRIPS, event_type="out", action="charge", condition="(object -> 'amount')::int >= 500"),
    Rule(name="lost", topic=TRIPS, event_type="lost", action="inspect", condition="object ->> 'color' in ('red', 'blue')"),
)


PASSWORD = "PROVE"
"""The variable with the password of the relay's target."""


@dataclass(frozen=True)
class Pattern:
    """The pattern of a correlator, over a topic."""

    topic: str
    text: str


PATTERNS = {
    "simple": Pattern(STEPS, "repeat {push(x) {do {sequential {a, b, a}} unless {c}}}"),
    "timed": Pattern(STEPS, "repeat {push(late) {sequential {a, fail {within 300 ms {b}}}}}"),
    "wide": Pattern(STEPS, "parallel {repeat {push(x) {sequential {a, b}}}, repeat {push(y) {accumulate {b, c}}}}"),
    "rising": Pattern(
        STEPS,
        "capture amount = (object -> 'amount')::int; repeat {push(more) {sequential {a as first, b as second, c and <amount > second.amount>}}}",
    ),
    "trip": Pattern(TRIPS, "repeat {push(home) {do {sequential {out, back}} unless {lost}}}"),
    "overdue": Pattern(TRIPS, "repeat {push(overdue) {sequential {out, fail {within 400 ms {back}}}}}"),
}
OUTPUTS: dict[str, Output] = {
    "x": ActionOutput(action="notify"),
    "y": EventOutput(event="y", topic=ALERTS),
    "late": ActionOutput(action="remind"),
    "more": ActionOutput(action="notify"),
    "home": EventOutput(event="home", topic=ALERTS),
    "overdue": ActionOutput(action="remind"),
}


def create_workload(conn: Connection, *, minutes: float, spark: bool = False) -> None:
    """Creates everything the workload needs in a migrated database. With `spark`, a pipeline runs the topic of trips."""
    conn.execute(query("prove/tables"))
    for topic in (ORDERS, STEPS, TRIPS):
        create_topic(conn, topic, partitions=PARTITIONS)
    for topic in (ALERTS, TICKS, TROUBLE, SINK):
        create_topic(conn, topic)
    for rule in RULES:
        create_rule(conn, rule)
    for name, pattern in PATTERNS.items():
        outputs = {token: output for token, output in OUTPUTS.items() if f"push({token})" in pattern.text}
        create_correlator(conn, Correlator(name=name, topic=pattern.topic, key="key", pattern=pattern.text, outputs=outputs))
    create_schedule(conn, SCHEDULE, cron=CRON, topic=TICKS, type="tick", missed="all", missed_max=1000, grace_s=5)
    _create_people(conn)
    if spark:
        set_engine(conn, TRIPS, "spark")
    _fill_expiring(conn, max(EXPIRING_PER_DAY_MIN, round(minutes * EXPIRING_PER_MINUTE)))


def _create_people(conn: Connection) -> None:
    """What keeps personal data: a log, an action that waits for an hour, instances with captured values, and outputs."""
    create_topic(conn, PEOPLE, partitions=PARTITIONS)
    create_topic(conn, RETURNS)
    create_rule(
        conn,
        Rule(
            name=GREET, topic=PEOPLE, event_type="joined", action=GREET, condition="object ->> 'email' is not null", delay_s=3600
        ),
    )
    pattern = "capture email = object ->> 'email'; repeat {push(back) {sequential {joined as j, joined and <email = j.email>}}}"
    outputs = {"back": EventOutput(event="returned", topic=RETURNS)}
    create_correlator(conn, Correlator(name=PERSON, topic=PEOPLE, key="object ->> 'email'", pattern=pattern, outputs=outputs))


def create_copying_relay(conn: Connection, dsn: str) -> None:
    """Creates a relay that writes the events of a topic into the table of what consumers have handled, in the database at an address.

    Where the address has a password, the processes find it in a variable."""
    parts = conninfo_to_dict(dsn)
    address: dict[str, JSON] = {name: str(parts[name]) for name in ("host", "dbname", "user", "sslmode") if parts.get(name)}
    if parts.get("password"):
        os.environ[f"HEADRACE_SECRET_DEFAULT__{PASSWORD}"] = str(parts["password"])
        address["password"] = f"env:{PASSWORD}"
    table: dict[str, JSON] = {
        "port": int(str(parts.get("port") or 5432)),
        "table": "headrace_prove.consumed",
        "columns": ["consumer", "partition", "position", "event_id", "node"],
        "ledger": "headrace_prove.headrace_relay",
    }
    mapping = {"consumer": RELAYED, "partition": "$.partition", "position": "$.position", "event_id": "$.id", "node": "relay"}
    relay = Relay(
        name=RELAY, topic=ORDERS, target="postgres", options=address | table, format="template", mapping=mapping, start="earliest",
        batch=50, concurrency=2, backoff_s=0.1, backoff_max_s=1,
    )  # fmt: skip
    create_relay(conn, relay)


def _fill_expiring(conn: Connection, per_day: int) -> None:
    """Fills days of a log that retention may drop after their slow consumer has passed them, and not before."""
    for day in range(EXPIRING_DAYS, 0, -1):
        conn.execute("select set_config('headrace.clock_shift', %s, false)", (f"-{day + 2} days",))
        if day == EXPIRING_DAYS:
            create_topic(conn, EXPIRING, time_partition="day")
        statement = "select headrace.publish(%s, 'old', to_jsonb(n)) from generate_series(1, %s::int) n"
        conn.execute(statement, (EXPIRING, per_day))
        while conn.execute("select * from headrace.sequence()").fetchall():
            pass
    conn.execute("select set_config('headrace.clock_shift', '', false)")
    # Before retention is set: a log without consumers may be dropped at once.
    conn.execute("select headrace.create_consumer(%s, %s)", (EXPIRING, LAGGARD))
    conn.execute("update headrace_internal.topic set retention = '1 day' where topic = %s", (EXPIRING,))
