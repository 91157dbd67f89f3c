"""Checks of headrace's own state: time partitions, outbox and sequencer, consumers, dead letters, indexes."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.db import Connection, query
from headrace.observe.doctor.check import Check

OUTBOX_LIMIT = 100_000
WAITING_MAX_S = 10.0
"""Events wait milliseconds while a sequencer runs; so long means that none does, or that it cannot keep up."""


def check_time_partitions(shard: str, conn: Connection) -> Iterator[Check]:
    short = conn.execute(query("observe/doctor/topics")).fetchall()
    for namespace, topic, until in short:
        message = f"those of {namespace}/{topic} end at {until:%Y-%m-%d %H:%M}"
        yield Check(shard, "time partitions", "warning", message, "run a node, or: headrace topic maintain")
    if not short:
        yield Check(shard, "time partitions", "ok", "made ahead")


def check_outbox(shard: str, conn: Connection) -> Iterator[Check]:
    waiting, oldest_s = conn.execute(query("observe/doctor/outbox"), {"limit": OUTBOX_LIMIT}).fetchone() or (0, 0.0)
    sequencers, hidden = conn.execute(query("observe/doctor/sequencers")).fetchone() or (0, 0)
    count = f"{waiting}{' or more' if waiting == OUTBOX_LIMIT else ''}"
    if waiting == 0 or oldest_s < WAITING_MAX_S:
        yield Check(shard, "outbox", "ok", f"{count} events wait")
    elif sequencers:
        advice = "give the server more, or look for a session that holds a lock on headrace.topic"
        yield Check(
            shard, "outbox", "warning", f"{count} events wait, the oldest for {oldest_s:.0f} s, while a sequencer runs", advice
        )
    else:
        yield Check(shard, "outbox", "problem", f"{count} events wait, the oldest for {oldest_s:.0f} s", "run: headrace node run")
    yield _sequencer(shard, sequencers, hidden)


def _sequencer(shard: str, sequencers: int, hidden: int) -> Check:
    if sequencers:
        return Check(shard, "sequencer", "ok", "running")
    if hidden:
        return Check(shard, "sequencer", "info", "cannot tell: other roles' sessions are hidden from this one")
    return Check(shard, "sequencer", "warning", "none seems to run", "run: headrace node run")


def check_consumers(shard: str, conn: Connection) -> Iterator[Check]:
    well = 0
    for namespace, topic, consumer, stopped, struggling, dead_letters in conn.execute(
        query("observe/doctor/consumers")
    ).fetchall():
        name = f"{namespace}/{topic}/{consumer}"
        where = f"{topic} {consumer} --namespace {namespace}"
        if stopped:
            advice = f"see: headrace consumer lag {where}; mend it, then: headrace consumer resume {where}"
            yield Check(shard, "consumers", "problem", f"{name}: {stopped} partitions have stopped", advice)
        if struggling:
            advice = f"see: headrace consumer lag {where}"
            yield Check(shard, "consumers", "warning", f"{name}: {struggling} partitions fail again and again", advice)
        if dead_letters:
            which = f"--consumer {topic}/{consumer} --namespace {namespace}"
            advice = f"see: headrace dead-letter list {which}; then redrive or discard them"
            yield Check(shard, "dead letters", "warning", f"{name}: {dead_letters} events were put aside", advice)
        well += not (stopped or struggling or dead_letters)
    yield Check(shard, "consumers", "ok" if well else "info", f"{well} without trouble")


def check_indexes(shard: str, conn: Connection) -> Iterator[Check]:
    broken = [row[0] for row in conn.execute(query("observe/doctor/invalid_indexes")).fetchall()]
    for index in broken:
        yield Check(shard, "indexes", "problem", f"{index} is not valid", f"run: reindex index {index}")
    if not broken:
        yield Check(shard, "indexes", "ok", "all valid")
