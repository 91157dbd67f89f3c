"""Which engine runs a topic's rules and correlators."""

from __future__ import annotations

from typing import Literal

from headrace.db import Connection, map_database_errors

Engine = Literal["database", "spark"]


def set_engine(conn: Connection, topic: str, engine: Engine, *, namespace: str | None = None) -> bool:
    """Moves a topic to an engine, after the batch that runs; the other one goes on from there. False: it was there already.

    Raises UnknownTopic, Invalid."""
    with map_database_errors():
        row = conn.execute("select headrace.set_engine(%s, %s, %s)", (topic, engine, namespace)).fetchone()
    assert row is not None
    return bool(row[0])
