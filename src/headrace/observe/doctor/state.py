"""Checks of time partitions, outbox, sequencer, consumers, dead letters and indexes."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.db import Connection, query
from headrace.observe.doctor.check import Check

OUTBOX_LIMIT = 100_000
WAITING_MAX_S = 10.0
"""With a running sequencer events wait for milliseconds; longer means that none runs, or that it is too slow."""


def check_time_partitions(shard: str, conn: Connection) -> Iterator[Check]:
    rows = conn.execute(query("observe/doctor/topics")).fetchall()
    for namespace, topic, until in rows:
        message = f"the last one of {namespace}/{topic} ends at {until:%Y-%m-%d %H:%M}"
        yield Check(shard, "time partitions", "warning", message, "run a node, or run: headrace topic maintain")
    if not rows:
        yield Check(shard, "time partitions", "ok", "created ahead")


def check_outbox(shard: str, conn: Connection) -> Iterator[Check]:
    waiting, oldest_s = conn.execute(query("observe/doctor/outbox"), {"limit": OUTBOX_LIMIT}).fetchone() or (0, 0.0)
    sequencers, hidden = conn.execute(query("observe/doctor/sequencers")).fetchone() or (0, 0)
    count = f"{waiting}{' or more' if waiting == OUTBOX_LIMIT else ''}"
    if waiting == 0 or oldest_s < WAITING_MAX_S:
        yield Check(shard, "outbox", "ok", f"{count} events are waiting")
    elif sequencers:
        advice = "look for a session that locks headrace.topic, or give the server more CPU"
        yield Check(
            shard,
            "outbox",
            "warning",
            f"{count} events are waiting, the oldest for {oldest_s:.0f} s, although a sequencer runs",
            advice,
        )
    else:
        yield Check(
            shard, "outbox", "problem", f"{count} events are waiting, the oldest for {oldest_s:.0f} s", "run: headrace node run"
        )
    yield _sequencer(shard, sequencers, hidden)


def _sequencer(shard: str, sequencers: int, hidden: int) -> Check:
    if sequencers:
        return Check(shard, "sequencer", "ok", "running")
    if hidden:
        return Check(shard, "sequencer", "info", "unknown: your role may not see the sessions of other roles")
    return Check(shard, "sequencer", "warning", "no sequencer runs", "run: headrace node run")


def check_consumers(shard: str, conn: Connection) -> Iterator[Check]:
    healthy = 0
    for namespace, topic, consumer, stopped, failing, dead_letters in conn.execute(query("observe/doctor/consumers")).fetchall():
        name = f"{namespace}/{topic}/{consumer}"
        where = f"{topic} {consumer} --namespace {namespace}"
        if stopped:
            advice = f"see: headrace consumer lag {where}; correct the error, then run: headrace consumer resume {where}"
            yield Check(shard, "consumers", "problem", f"{name}: {stopped} partitions have stopped", advice)
        if failing:
            advice = f"see: headrace consumer lag {where}"
            yield Check(shard, "consumers", "warning", f"{name}: {failing} partitions keep failing", advice)
        if dead_letters:
            which = f"--consumer {topic}/{consumer} --namespace {namespace}"
            advice = f"redrive or discard them; see: headrace dead-letter list {which}"
            yield Check(shard, "dead letters", "warning", f"{name}: {dead_letters} events were moved to the dead letters", advice)
        healthy += not (stopped or failing or dead_letters)
    yield Check(shard, "consumers", "ok" if healthy else "info", f"{healthy} without problems")


def check_indexes(shard: str, conn: Connection) -> Iterator[Check]:
    invalid = [row[0] for row in conn.execute(query("observe/doctor/invalid_indexes")).fetchall()]
    for index in invalid:
        yield Check(shard, "indexes", "problem", f"{index} is invalid", f"run: reindex index {index}")
    if not invalid:
        yield Check(shard, "indexes", "ok", "all are valid")
