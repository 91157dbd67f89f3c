"""Nemesis: carries out the plan of faults, one after the other, and heals each."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import psycopg

from headrace.core import DatabaseUnavailable, Invalid
from headrace.prove import fault_load as load
from headrace.prove import fault_process as process
from headrace.prove.environment import Scene
from headrace.prove.evidence import Fallen, Missed
from headrace.prove.history import now
from headrace.prove.plan import Planned


@dataclass(frozen=True)
class Fault:
    """A kind of fault. `own`: only on a server that the checker started. `asked`: only where it is named, since it changes where
    the server lives. `spark`: only where a pipeline runs."""

    name: str
    act: Callable[[Scene, random.Random], AbstractContextManager[str]]
    what: str
    own: bool = False
    asked: bool = False
    spark: bool = False


FAULTS = {
    one.name: one
    for one in (
        Fault("kill-producer", process.kill_producer, "kill -9 of a producer"),
        Fault("kill-node", process.kill_node, "kill -9 of a node"),
        Fault("kill-sink", process.kill_sink, "kill -9 of the process that writes batches as Spark's driver does"),
        Fault("kill-spark", process.kill_spark, "kill -9 of a pipeline's Spark driver, its JVM and their workers", spark=True),
        Fault("stop-node", process.stop_node, "SIGSTOP of a node for longer than a lease"),
        Fault("kill-server", process.kill_server, "kill -9 of PostgreSQL, and a start", own=True),
        Fault("shard-down", process.shard_down, "kill -9 of one shard of two, down for seconds", own=True),
        Fault("restart-server", process.restart_server, "restart of PostgreSQL", own=True),
        Fault("kill-backends", process.kill_backends, "sessions ended by pg_terminate_backend"),
        Fault("exhaust", process.exhaust, "max_connections taken by idle connections", own=True),
        Fault("clock", process.clock, "one node's sessions with another time"),
        Fault("failpoint", process.failpoint, "a node that dies at a named statement, at its n-th time"),
        Fault("step", process.step, "a session that dies inside a function, before a statement of it, at its n-th time"),
        Fault(
            "disk-full",
            process.disk_full,
            "a disk without room, on a small disk in memory where one can be mounted",
            own=True,
            asked=True,
        ),
        Fault("cut", load.cut, "every connection cut, and none let in for a while"),
        Fault("delay", load.delay, "connections delayed both ways"),
        Fault("open-transaction", load.open_transaction, "a transaction that has published and stays open"),
        Fault("poison", load.poison, "events that no handler can digest"),
        Fault("slow-consumer", load.slow_consumer, "a consumer that is slow"),
        Fault("retention", load.retention, "retention while a consumer is behind"),
        Fault("migrate", load.remigrate, "every function applied again under load"),
    )
}


def chosen_faults(names: Sequence[str] | None, *, own_server: bool, spark: bool = False) -> tuple[str, ...]:
    """The faults asked for; all that can be done on this server where none were named."""
    if names is None:
        return tuple(
            name
            for name, fault in FAULTS.items()
            if not fault.asked and (own_server or not fault.own) and (spark or not fault.spark)
        )
    if unknown := [name for name in names if name not in FAULTS]:
        raise Invalid(f"there is no fault {', '.join(unknown)}; known: {', '.join(FAULTS)}")
    if not own_server and (ours := [name for name in names if FAULTS[name].own]):
        raise Invalid(f"fault {', '.join(ours)} needs a server that the checker may kill; leave --dsn out")
    if not spark and (its := [name for name in names if FAULTS[name].spark]):
        raise Invalid(f"fault {', '.join(its)} needs a pipeline on Spark; give --spark")
    return tuple(names)


class Nemesis:
    """Runs the plan; `tell` hears of every fault."""

    def __init__(self, scene: Scene, plan: Sequence[Planned], tell: Callable[[str], None]) -> None:
        self._scene = scene
        self._plan = plan
        self._tell = tell
        self.fallen: list[Fallen] = []

    def run(self, began_at: float, until: float) -> None:
        """Until the plan, or the time, is over. Faults that take longer than planned push the next ones back; each kind that
        was planned comes once all the same."""
        for number, planned in enumerate(self._plan, 1):
            time.sleep(max(began_at + planned.at_s - now(), 0))
            if now() > until and any(one.fault == planned.fault for one in self.fallen):
                return
            self._do(planned, f"{(now() - began_at) / 60:5.1f} min, fault {number} of {len(self._plan)}: {planned.fault}")
            self._scene.cast.mend()

    def _do(self, planned: Planned, called: str) -> None:
        fault = FAULTS[planned.fault]
        at, detail = now(), ""
        try:
            with fault.act(self._scene, random.Random(planned.seed)) as detail:
                self._tell(f"{called}, {detail}")
        except (psycopg.OperationalError, psycopg.InterfaceError, DatabaseUnavailable) as error:
            # The server was not to be reached for it, after an earlier fault: each heals what it has broken all the same.
            detail = Missed(f"{detail}, cut short: {' '.join(str(error).split())[:200]}")
            self._tell(f"{called}, {detail}")
        self.fallen.append(Fallen(planned.fault, at, now(), str(detail), struck=not isinstance(detail, Missed)))
