"""Spread: one producer over several shards. Each of its transactions is cut by the shards of its keys, and every share is
published on its shard: one that is down keeps its own shares waiting, in their order, and no other's."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import psycopg

from headrace.core import HeadraceError
from headrace.db import Shards, Target
from headrace.prove.actor import AGAIN_S, MAIN, Ending, Orders
from headrace.prove.history import Ended, History, Invoked, Outcome, now
from headrace.prove.producer import LATE_S, WAYS, next_op
from headrace.prove.workload import Transaction, transaction


def spread(orders: Orders) -> None:
    ending = Ending()
    shards = Shards(orders.targets())
    threads = [threading.Thread(target=_serve, args=(orders, shards, target, ending)) for target in shards.targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            # In pieces, so that the signal's handler gets its turn in the main thread.
            thread.join(0.2)


def share(wanted: Transaction, shards: Shards, name: str) -> Transaction:
    """The events of a transaction whose keys live on a shard."""
    return replace(wanted, events=tuple(one for one in wanted.events if shards.shard_of(one.key).name == name))


def _serve(orders: Orders, shards: Shards, target: Target, ending: Ending) -> None:
    name = orders.name if target.name == MAIN else f"{target.name}-{orders.name}"
    history = History(orders.history_of(name))
    op = next_op(Path(orders.folder), name)
    due = time.monotonic()
    while not ending.wanted:
        wanted = transaction(orders.seed, orders.name, op)
        if (own := share(wanted, shards, target.name)).events:
            _until_ended(orders, shards, history, own)
        op += 1
        due = max(due, time.monotonic() - LATE_S) + len(wanted.events) / orders.rate
        time.sleep(max(due - time.monotonic(), 0))


def _until_ended(orders: Orders, shards: Shards, history: History, wanted: Transaction) -> None:
    while True:
        history.write(Invoked(op=wanted.op, at=now(), events=wanted.events, commits=wanted.commits))
        outcome, error = attempt(shards, orders.name, wanted)
        history.write(Ended(op=wanted.op, at=now(), outcome=outcome, error=error))
        if outcome in ("ok", "rolled_back"):
            return
        time.sleep(AGAIN_S)


def attempt(shards: Shards, producer: str, wanted: Transaction) -> tuple[Outcome, str | None]:
    """One try on the shard of the keys: how it ended, as far as the producer can know."""
    committing = False
    try:
        with shards.connect(wanted.events[0].key) as conn:
            conn.autocommit = False
            WAYS[wanted.way](conn, wanted.events, producer)
            if wanted.hold_s:
                time.sleep(wanted.hold_s)
            committing = wanted.commits
            conn.commit() if wanted.commits else conn.rollback()
    except (psycopg.Error, HeadraceError, OSError) as error:
        told = f"{type(error).__name__}: {error}"[:300]
        return ("unknown" if committing else "failed" if wanted.commits else "rolled_back"), told
    return ("ok" if wanted.commits else "rolled_back"), None
