"""Sharded producer: splits each transaction by the shards of its keys, and publishes every part on its own shard.

A shard that is down delays its own parts, in their order, and no other shard's."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import psycopg

from headrace.core import HeadraceError
from headrace.db import Shards, Target
from headrace.prove.history import Completed, History, Invoked, Outcome, now
from headrace.prove.processes.config import MAIN, RETRY_S, ProcessConfig, StopSignal
from headrace.prove.processes.producer import LATE_MAX_S, METHODS, next_op
from headrace.prove.workload import Transaction, make_transaction


def run_sharded_producer(config: ProcessConfig) -> None:
    """Publishes on every shard, each in a thread, until SIGTERM."""
    stop = StopSignal()
    shards = Shards(config.targets())
    threads = [threading.Thread(target=_publish_on, args=(config, shards, target, stop)) for target in shards.targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            # With a timeout, so that the signal handler can run in the main thread.
            thread.join(0.2)


def part_on_shard(transaction: Transaction, shards: Shards, name: str) -> Transaction:
    """The events of a transaction whose keys belong to a shard."""
    return replace(transaction, events=tuple(event for event in transaction.events if shards.shard_of(event.key).name == name))


def _publish_on(config: ProcessConfig, shards: Shards, target: Target, stop: StopSignal) -> None:
    name = config.name if target.name == MAIN else f"{target.name}-{config.name}"
    history = History(config.history_of(name))
    op = next_op(Path(config.folder), name)
    due = time.monotonic()
    while not stop.is_set:
        transaction = make_transaction(config.seed, config.name, op)
        part = part_on_shard(transaction, shards, target.name)
        if part.events:
            _repeat_until_known(config, shards, history, part)
        op += 1
        due = max(due, time.monotonic() - LATE_MAX_S) + len(transaction.events) / config.rate
        time.sleep(max(due - time.monotonic(), 0))


def _repeat_until_known(config: ProcessConfig, shards: Shards, history: History, part: Transaction) -> None:
    while True:
        history.write(Invoked(op=part.op, at=now(), events=part.events, commits=part.commits))
        outcome, error = try_part(shards, config.name, part)
        history.write(Completed(op=part.op, at=now(), outcome=outcome, error=error))
        if outcome in ("ok", "rolled_back"):
            return
        time.sleep(RETRY_S)


def try_part(shards: Shards, producer: str, part: Transaction) -> tuple[Outcome, str | None]:
    """One attempt on the shard of the keys: the outcome as far as a producer can know it, and the error."""
    committing = False
    try:
        with shards.connect(part.events[0].key) as conn:
            conn.autocommit = False
            METHODS[part.method](conn, part.events, producer)
            if part.hold_s:
                time.sleep(part.hold_s)
            committing = part.commits
            conn.commit() if part.commits else conn.rollback()
    except (psycopg.Error, HeadraceError, OSError) as error:
        message = f"{type(error).__name__}: {error}"[:300]
        return ("unknown" if committing else "failed" if part.commits else "rolled_back"), message
    return ("ok" if part.commits else "rolled_back"), None
