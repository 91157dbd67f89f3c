"""Transition counts: how often keys went from one state of a correlator to another, by the newest events of its topic.

Nothing is recorded for it: the events are stepped through the compiled table again, each key from its start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from psycopg import sql

from headrace.correlators.correlator import get_correlator
from headrace.db import Connection, map_database_errors, query
from headrace.lang.condition import micros_of
from headrace.lang.ecl import (
    Table,
    TableState,
    advance_state,
    from_json,
    key_to_sql,
    next_deadline,
    run_step,
    start_state,
    symbols_to_sql,
)

TIMERS_MAX = 10_000
"""Deadlines that are stepped through; a short timer over a long time has many."""


@dataclass(frozen=True)
class TransitionCounts:
    """`counts`: by unit, state before and state after. `is_complete`: the topic has no older events, so the counts are exact."""

    events: int
    keys: int
    is_complete: bool
    counts: Mapping[tuple[int, int, int], int]


def count_transitions(
    conn: Connection, name: str, *, events_max: int = 2_000, namespace: str | None = None
) -> TransitionCounts | None:
    """Counts the transitions of the newest events; None while no version runs, or for a pattern that keeps values. Raises UnknownCorrelator."""
    correlator = get_correlator(conn, name, namespace=namespace).correlator
    parameters = {"correlator": name, "namespace": namespace}
    with map_database_errors(), conn.transaction():
        running = conn.execute(query("correlators/running_table"), parameters).fetchone()
        topic = conn.execute(query("correlators/topic_time"), {"topic": correlator.topic, "namespace": namespace}).fetchone()
        if running is None or topic is None or not topic[1]:
            return None
        table, (topic_id, last, _, first) = from_json(running[0]), topic
        if table.registers is not None:
            # Its symbols follow from what each key has kept; only its engine knows that.
            return None
        after = max(last - events_max, first - 1)
        rows = conn.execute(_statement(table, running[1], topic_id, after)).fetchall()
    keys, counts = step_keys(table, rows)
    return TransitionCounts(len(rows), keys, after < first, counts)


def step_keys(
    table: Table, rows: Iterable[tuple[str | None, list[int], datetime]]
) -> tuple[int, Mapping[tuple[int, int, int], int]]:
    """The number of keys, and the transitions, of events with their keys and symbols in the order of their positions."""
    states: dict[str, TableState] = {}
    counts: Counter[tuple[int, int, int]] = Counter()
    timers_left = TIMERS_MAX
    for key, symbols, at in rows:
        if key is None:
            continue
        now = micros_of(at)
        state = states.get(key) or start_state(table, now)
        while timers_left and (deadline := next_deadline(state)) is not None and deadline <= now:
            timers_left -= 1
            state = _pass(counts, state, advance_state(table, state, deadline)[0])
        following, outputs = run_step(table, state, tuple(symbols), now)
        # Where a table has one unit, an output without another state is an edge that leads back.
        states[key] = _pass(counts, state, following, is_loop=bool(outputs) and len(table.units) == 1)
    return len(states), counts


def _pass(counts: Counter[tuple[int, int, int]], before: TableState, after: TableState, *, is_loop: bool = False) -> TableState:
    for unit, (source, target) in enumerate(zip(before.units, after.units, strict=True)):
        if source != target or is_loop:
            counts[unit, source, target] += 1
    return after


def _statement(table: Table, key: str | None, topic_id: int, after: int) -> sql.Composed:
    # SQL() takes what our own printers made of checked trees.
    return sql.SQL(query("correlators/recent_symbols")).format(
        key=sql.SQL("''::text" if key is None else key_to_sql(key, {})),
        symbols=sql.SQL(", ".join(symbols_to_sql(table, {}))),
        topic_id=sql.Literal(topic_id),
        after=sql.Literal(after),
    )
