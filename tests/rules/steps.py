"""Steps of the tests of rules."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from headrace.db import Connection
from headrace.rules import RuleEngine
from tests.builders import drain


def publish(conn: Connection, type: str, payload: object, *, topic: str = "cars", id: UUID | None = None) -> UUID:
    """One event, not yet in the log."""
    parameters = (topic, type, Jsonb(payload), id)
    row = conn.execute("select headrace.publish(%s, %s, %s, p_event_id => %s)", parameters).fetchone()
    assert row is not None
    return row[0]


def write(
    conn: Connection,
    rule: str,
    condition: str,
    *,
    action: str = "act",
    type: str = "NEW_CAR",
    topic: str = "cars",
    timing: str = "after",
) -> None:
    """A rule, by plain SQL."""
    conn.execute(
        "insert into headrace.rule (rule, topic, event_type, condition, action, timing) values (%s, %s, %s, %s, %s, %s)",
        (rule, topic, type, condition, action, timing),
    )


async def settle(reactor: RuleEngine, conn: Connection) -> int:
    """Compiles, sequences and evaluates until nothing is left; returns how many rules fired."""
    await compile_all(reactor)
    drain(conn)
    fired = 0
    for watched in await reactor.watched():
        while batch := await reactor.fire_once(watched):
            fired += batch.firings
    return fired


async def compile_all(reactor: RuleEngine) -> None:
    while await reactor.compile_once():
        pass


def sent(conn: Connection) -> list[dict[str, Any]]:
    """The actions sent so far, in order."""
    return [row[0] for row in conn.execute("select action from public.sent order by n").fetchall()]


def firings(conn: Connection) -> list[tuple[object, ...]]:
    """Rule, version and position of every firing."""
    return conn.execute(
        """select v.rule, v.version, f.position from headrace.firing f
           join headrace.rule_version v on v.version_id = f.rule_version_id order by f.position, v.rule, v.version"""
    ).fetchall()
