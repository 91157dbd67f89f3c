"""The faults by name, and which of them a run may inject."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from headrace.core import Invalid
from headrace.prove.environment import Environment
from headrace.prove.faults import erasure, load, process, server, tenant


@dataclass(frozen=True)
class Fault:
    """A kind of fault. `inject` is a block: the fault lasts while it runs, and is healed at its end."""

    name: str
    inject: Callable[[Environment, random.Random], AbstractContextManager[str]]
    what: str
    needs_own_server: bool = False
    """Only on a server that the checker started."""
    opt_in: bool = False
    """Only if it is named, since it changes where the server's data is."""
    spark: bool = False
    """Only if the run has a pipeline."""
    relays: bool = False
    """Only if the run has relays to servers of its own."""


_ALL = (
    Fault("kill-producer", process.kill_producer, "kill -9 of a producer"),
    Fault("kill-node", process.kill_node, "kill -9 of a node"),
    Fault("kill-sink", process.kill_sink, "kill -9 of the process that writes batches as Spark's driver does"),
    Fault("kill-spark", process.kill_spark, "kill -9 of a pipeline's Spark driver, its JVM and their workers", spark=True),
    Fault("stop-node", process.stop_node, "SIGSTOP of a node for longer than a lease"),
    Fault("kill-server", server.kill_server, "kill -9 of PostgreSQL, and a start", needs_own_server=True),
    Fault("shard-down", server.shard_down, "kill -9 of one shard of two, down for seconds", needs_own_server=True),
    Fault("restart-server", server.restart_server, "restart of PostgreSQL", needs_own_server=True),
    Fault("kill-backends", server.kill_backends, "sessions ended by pg_terminate_backend"),
    Fault("exhaust", server.exhaust_connections, "max_connections used up by idle connections", needs_own_server=True),
    Fault("clock", process.shift_clock, "another time in one node's sessions"),
    Fault("failpoint", process.failpoint, "a node that dies at a named statement, at its n-th execution"),
    Fault("step", server.sql_failpoint, "a session that dies inside a function, before a statement, at its n-th execution"),
    Fault(
        "disk-full", server.disk_full, "a full disk; needs the right to mount one in memory", needs_own_server=True, opt_in=True
    ),
    Fault("cut", load.cut, "every connection cut, and new ones rejected for a while"),
    Fault("blackhole", load.blackhole, "connections that stay open and swallow everything for longer than a lease"),
    Fault("kill-target", load.kill_target, "kill -9 of a server that a relay delivers to, and a start", relays=True),
    Fault("cut-target", load.cut_target, "connections of a relay cut, and new ones rejected for a while", relays=True),
    Fault("delay", load.delay, "connections delayed in both directions"),
    Fault("open-transaction", load.open_transaction, "a transaction that has published and stays open"),
    Fault("poison", load.poison, "events on which every handler fails"),
    Fault("slow-consumer", load.slow_consumer, "a slow consumer"),
    Fault("retention", load.retention, "retention while a consumer is behind"),
    Fault("erase", erasure.erase_people, "the data of keys erased while nodes work on it"),
    Fault("tenant", tenant.hostile_tenant, "a role of another namespace that sends random statements"),
    Fault("migrate", load.migrate_again, "every function applied again under load"),
)
FAULTS = {fault.name: fault for fault in _ALL}


def select_faults(names: Sequence[str] | None, *, own_server: bool, spark: bool = False, relays: bool = False) -> tuple[str, ...]:
    """The named faults, or all that are possible on this server. Raises Invalid for one that is not."""
    if names is None:
        return tuple(
            name
            for name, fault in FAULTS.items()
            if not fault.opt_in
            and (own_server or not fault.needs_own_server)
            and (spark or not fault.spark)
            and (relays or not fault.relays)
        )
    if unknown := [name for name in names if name not in FAULTS]:
        raise Invalid(f"there is no fault {', '.join(unknown)}; known: {', '.join(FAULTS)}")
    if not own_server and (wrong := [name for name in names if FAULTS[name].needs_own_server]):
        raise Invalid(f"fault {', '.join(wrong)} needs a server that the checker may kill; omit --dsn")
    if not spark and (wrong := [name for name in names if FAULTS[name].spark]):
        raise Invalid(f"fault {', '.join(wrong)} needs a pipeline on Spark; give --spark")
    if not relays and (wrong := [name for name in names if FAULTS[name].relays]):
        raise Invalid(f"fault {', '.join(wrong)} needs a relay; give --relays")
    return tuple(names)
