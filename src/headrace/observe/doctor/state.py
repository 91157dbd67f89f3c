"""Checks of outbox, sequencer, consumers, queues and dead letters."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.db import Connection, query
from headrace.observe.doctor.checks import Finding

OUTBOX_LIMIT = 100_000
WAITING_MAX_S = 10.0
"""With a running sequencer events wait for milliseconds; longer means that none runs, or that it is too slow."""
DUE_MAX_S = 60.0
"""With enough nodes, actions wait for much less."""


def check_outbox(conn: Connection) -> Iterator[Finding]:
    waiting, oldest_s = conn.execute(query("observe/doctor/outbox"), {"limit": OUTBOX_LIMIT}).fetchone() or (0, 0.0)
    sequencers = [name for (name,) in conn.execute(query("observe/doctor/sequencers")).fetchall()]
    count = (
        "1 event is waiting" if waiting == 1 else f"{waiting}{' or more' if waiting == OUTBOX_LIMIT else ''} events are waiting"
    )
    late = f"{count}, the oldest for {oldest_s:.0f} s"
    if waiting == 0 or oldest_s < WAITING_MAX_S:
        yield "outbox", "ok", count
    elif sequencers:
        advice = "look for a session that locks headrace.topic, or give the server more CPU"
        yield "outbox", "warning", f"{late}, although a sequencer runs", advice
    else:
        yield "outbox", "problem", late, "run: headrace node run"
    if sequencers:
        yield "sequencer", "ok", f"runs on {', '.join(sequencers)}"
    else:
        yield "sequencer", "warning", "no sequencer runs", "run: headrace node run"


def check_consumers(conn: Connection) -> Iterator[Finding]:
    healthy = 0
    rows = conn.execute(query("observe/doctor/consumers")).fetchall()
    for namespace, topic, consumer, stopped, failing, dead_letters, error, kept in rows:
        name = f"{namespace}/{topic}/{consumer}"
        where = f"{topic} {consumer} --namespace {namespace}"
        see_lag = f"see: headrace consumer lag {where}"
        if stopped:
            advice = f"{see_lag}; correct the error, then run: headrace consumer resume {where}"
            yield (
                "consumers",
                "problem",
                f"{name}: {stopped} {'partition has' if stopped == 1 else 'partitions have'} stopped",
                advice,
            )
        if kept:
            events = "1 event behind it stays" if kept == 1 else f"{kept} events behind it stay"
            advice = f"run a node with it; if it was renamed or is not needed any more: headrace consumer drop {where}"
            yield "consumers", "warning", f"{name}: no node runs it, and {events} in the log whatever its retention", advice
        if failing:
            yield "consumers", "warning", f"{name}: {failing} partitions keep failing: {error}", see_lag
        if dead_letters:
            which = f"--consumer {topic}/{consumer} --namespace {namespace}"
            advice = f"redrive or discard them; see: headrace dead-letter list {which}"
            yield "dead letters", "warning", f"{name}: {_count(dead_letters, 'event')} moved to the dead letters", advice
        healthy += not (stopped or failing or dead_letters or kept)
    yield "consumers", "ok" if healthy else "info", f"{healthy} without problems"


def check_actions(conn: Connection) -> Iterator[Finding]:
    healthy = True
    for namespace, due, dead, oldest_due_s in conn.execute(query("observe/doctor/queues")).fetchall():
        if oldest_due_s > DUE_MAX_S:
            message = f"{namespace}: {due} actions are due; the oldest has waited {oldest_due_s:.0f} s"
            advice = f"run more nodes with handlers for them; see: headrace node list --namespace {namespace}"
            yield "actions", "warning", message, advice
        if dead:
            advice = f"redrive or discard them; see: headrace dead-letter groups --namespace {namespace}"
            yield "dead letters", "warning", f"{namespace}: {_count(dead, 'action')} moved to the dead letters", advice
        healthy = healthy and not dead and oldest_due_s <= DUE_MAX_S
    if healthy:
        yield "actions", "ok", "no action is late, and there are no dead letters"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun} was" if number == 1 else f"{number} {noun}s were"
