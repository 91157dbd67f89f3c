"""The laws through a whole node: events are published, a node with the relay is killed on the way, and the broker has what the log has."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Sequence

import pytest

from headrace.consume import consumer_lag
from headrace.db import Connection, Target
from headrace.relays import Relay, create_relay
from tests.builders import fill, start_python, topic, wait_until
from tests.relays.targets.brokers import Broker
from tests.relays.targets.builders import RELAY, Stored, first_occurrences
from tests.relays.targets.servers import PASSWORD

EVENTS = 1200
BATCH = 20


def delivered(conn: Connection) -> int:
    """How many events the relay's cursors have passed."""
    return EVENTS - sum(lag.lag_events for lag in consumer_lag(conn, consumer=f"relay.{RELAY}"))


def start_node(database: Target) -> subprocess.Popen[str]:
    return start_python("headrace", "node", "run", "--dsn", database.dsn)


async def run_relay_with_kills(
    broker: Broker, conn: Connection, database: Target, monkeypatch: pytest.MonkeyPatch, *, kills: int = 1
) -> None:
    """Publishes, relays with kill -9 of the node in between, and compares the broker's content with the log."""
    monkeypatch.setenv("HEADRACE_SECRET_DEFAULT__RELAY_X", PASSWORD)
    name = await broker.prepare()
    topic(conn, name, partitions=2)
    relay = Relay(
        name=RELAY, topic=name, target=broker.kind, options=broker.options(), start="earliest", backoff_s=0.05, batch=BATCH
    )
    create_relay(conn, relay)
    fill(conn, EVENTS, keys=7, topic=name)
    node = start_node(database)
    try:
        for kill in range(1, kills + 1):
            enough = EVENTS * kill // (kills + 2)
            await asyncio.to_thread(wait_until, lambda enough=enough: delivered(conn) > enough, "the delivery of some events")  # type: ignore[misc]
            os.kill(node.pid, signal.SIGKILL)
            node.wait(10)
            node = start_node(database)
        await asyncio.to_thread(wait_until, lambda: delivered(conn) == EVENTS, "the delivery of all events")
    finally:
        node.kill()
        node.wait(10)
    for partition in range(2):
        check_against_log(broker, conn, partition, await broker.read(name, partition), repeats_max=2 * BATCH * (kills + 1))


def check_against_log(broker: Broker, conn: Connection, partition: int, stored: Sequence[Stored], *, repeats_max: int) -> None:
    rows = conn.execute(
        """select position, event_id::text, key, payload::text from headrace_internal.log
           where partition = %s order by position""",
        (partition,),
    ).fetchall()
    entries = [(entry.position, entry.event_id, entry.key, entry.body.decode()) for entry in stored]
    if broker.exactly_once:
        assert entries == rows
        return
    unique = first_occurrences(stored)
    assert sorted((entry.position, entry.event_id, entry.key, entry.body.decode()) for entry in unique) == rows
    assert len(stored) - len(unique) <= repeats_max
    for key in {entry.key for entry in unique}:
        positions = [entry.position for entry in unique if entry.key == key]
        assert positions == sorted(positions), f"order of {key}"
