"""What tests of correlators do and do not want to show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg.types.json import Jsonb

from headrace.correlators import CorrelatorEngine
from headrace.db import Connection
from tests.builders import drain


def happen(conn: Connection, events: str, *, topic: str = "cars", payloads: Sequence[object] | None = None) -> None:
    """Events such as "a:k1 b": a type, and a key where it has one; in the log, one transaction."""
    with conn.transaction():
        for number, event in enumerate(events.split()):
            type_, _, key = event.partition(":")
            payload = payloads[number] if payloads else {"n": number + 1}
            conn.execute("select headrace.publish(%s, %s, %s, p_key => %s)", (topic, type_, Jsonb(payload), key or None))
    drain(conn)


async def settle_correlators(correlators: CorrelatorEngine, conn: Connection, *, batch: int | None = None) -> int:
    """Compiles and runs until nothing is left; returns how many tokens were pushed."""
    while await correlators.compile_once():
        pass
    before = correlators.outputs
    for watched in await correlators.watched():
        while await correlators.step_once(watched, limit=batch) or await correlators.tick_once(watched):
            pass
    return correlators.outputs - before


def pushed(conn: Connection) -> list[tuple[Any, ...]]:
    """Correlator, version, key, token, position and evidence of every output, in order."""
    return conn.execute(
        """select correlator, version, key, token, position, evidence from headrace.correlation_history
           order by output_at, position nulls first, correlation_id"""
    ).fetchall()
