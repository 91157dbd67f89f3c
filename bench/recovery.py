"""Recovery: does the rate recover after faults of PostgreSQL and of workers? Compared with procrastinate and pgmq's client.

The scenarios are those of public chaos runs of PostgreSQL queues. Jobs come at a steady rate, two workers are supervised (one
that ends is started again after a second); the rate before is compared with the rate after the scenario is over and five
seconds have passed."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import psycopg

from bench.lab import Lab, surroundings
from bench.result import Figure, report
from headrace.db import Target, connect

QUEUES = ("headrace", "procrastinate", "pgmq")
SEND = {
    "headrace": "select headrace.send_action('work')",
    "procrastinate": "select procrastinate_defer_jobs_v1(array[row('bench', 'work', 0, null, null, '{}', null)"
    "::procrastinate_job_to_defer_v1])",
    "pgmq": "select pgmq.send('bare', '{}'::jsonb)",
}  # fmt: skip
RATE = 150
SETTLE_S = 5.0
RESTART_S = 1.0


@dataclass(frozen=True)
class Plan:
    window_s: float


FULL, QUICK = Plan(12.0), Plan(4.0)


class Sender(threading.Thread):
    """Sends jobs at a steady rate, on a new connection where the old one is lost."""

    def __init__(self, dsn: str, statement: str) -> None:
        super().__init__(daemon=True)
        self._dsn, self._statement = dsn, statement
        self.end = threading.Event()

    def run(self) -> None:
        conn: psycopg.Connection[tuple[object, ...]] | None = None
        due = time.monotonic()
        while not self.end.is_set():
            try:
                conn = conn or psycopg.connect(self._dsn, autocommit=True, connect_timeout=2)
                conn.execute(self._statement)
            except psycopg.OperationalError:
                conn = None
                time.sleep(0.1)
            due = max(due + 1 / RATE, time.monotonic() - 0.2)
            time.sleep(max(due - time.monotonic(), 0))


@dataclass
class Workers:
    """Two supervised workers."""

    queue: str
    dsn: str
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    ended: int = 0
    """How often one ended by itself."""
    _end: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        self.running = [self._start() for _ in range(2)]
        threading.Thread(target=self._supervise, daemon=True).start()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "bench.recovery_worker", self.queue, self.dsn]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _supervise(self) -> None:
        while not self._end.wait(RESTART_S):
            for place, process in enumerate(self.running):
                if process.poll() is not None:
                    self.ended += process.returncode != -9
                    self.running[place] = self._start()

    def kill(self) -> None:
        random.choice(self.running).kill()

    def stop(self) -> None:
        self._end.set()
        time.sleep(RESTART_S)
        for process in self.running:
            process.kill()
            process.wait()


def postgres_restart(lab: Lab, _workers: Workers, _dsn: str) -> None:
    lab.server.stop()
    time.sleep(2)
    lab.server.start()


def pg_backend_kill(_lab: Lab, _workers: Workers, dsn: str) -> None:
    for _ in range(6):
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() "
                "and datname = current_database()"
            )
        time.sleep(0.5)


def pool_exhaustion(_lab: Lab, _workers: Workers, dsn: str) -> None:
    taken: list[psycopg.Connection[tuple[object, ...]]] = []

    def take_all() -> None:
        with suppress(psycopg.OperationalError):
            while len(taken) < 500:
                taken.append(psycopg.connect(dsn, connect_timeout=2))

    take_all()
    if taken:
        taken[0].execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and state = 'idle' "
            "and datname = current_database() order by backend_start limit 3"
        )
    take_all()  # Their places too: they are to stay out.
    time.sleep(5)
    for conn in taken:
        conn.close()


def crash_recovery(_lab: Lab, workers: Workers, _dsn: str) -> None:
    workers.kill()
    time.sleep(3)


def repeated_kills(_lab: Lab, workers: Workers, _dsn: str) -> None:
    for _ in range(5):
        workers.kill()
        time.sleep(1.5)


def idle_in_tx(_lab: Lab, _workers: Workers, dsn: str) -> None:
    with psycopg.connect(dsn) as conn:
        conn.execute("set transaction isolation level repeatable read")
        conn.execute("select count(*) from done")
        time.sleep(30)


SCENARIOS: dict[str, Callable[[Lab, Workers, str], None]] = {
    scenario.__name__: scenario
    for scenario in (postgres_restart, pg_backend_kill, pool_exhaustion, crash_recovery, repeated_kills, idle_in_tx)
}


@dataclass(frozen=True)
class Recovered:
    """Jobs per second before and after, and how often a worker ended by itself."""

    before: float
    after: float
    ended: int

    @property
    def part(self) -> float:
        return self.after / self.before if self.before else 0.0


@contextmanager
def at_work(lab: Lab, queue: str) -> Iterator[tuple[Target, Workers]]:
    with lab.database(f"recovery_{queue}", partitions=1) as target:
        with connect(target) as conn:
            conn.execute("create table done (at timestamptz not null default clock_timestamp())")
            conn.execute("select pgmq.create('bare')")
            if queue == "procrastinate":
                from procrastinate import App, SyncPsycopgConnector

                with App(connector=SyncPsycopgConnector(conninfo=target.dsn)).open() as app:
                    app.schema_manager.apply_schema()
        workers, sender = Workers(queue, target.dsn), Sender(target.dsn, SEND[queue])
        workers.start()
        sender.start()
        try:
            yield target, workers
        finally:
            sender.end.set()
            workers.stop()


def rate(dsn: str, window_s: float) -> float:
    """Jobs per second over the next seconds."""
    time.sleep(window_s)
    with psycopg.connect(dsn, connect_timeout=10) as conn:
        row = conn.execute(
            "select count(*) from done where at > clock_timestamp() - make_interval(secs => %s)", (window_s,)
        ).fetchone()
    assert row is not None
    return float(row[0]) / window_s


def measure(lab: Lab, queue: str, scenario: str, plan: Plan) -> Recovered:
    with at_work(lab, queue) as (target, workers):
        deadline = time.monotonic() + 60
        while rate(target.dsn, 1.0) < RATE * 0.5 and time.monotonic() < deadline:
            pass
        time.sleep(SETTLE_S)
        before = rate(target.dsn, plan.window_s)
        SCENARIOS[scenario](lab, workers, target.dsn)
        time.sleep(SETTLE_S)
        after = rate(target.dsn, plan.window_s)
        return Recovered(before, after, workers.ended)


def run(lab: Lab, *, quick: bool) -> None:
    plan = QUICK if quick else FULL
    facts = surroundings(lab)
    outcomes = {(scenario, queue): measure(lab, queue, scenario, plan) for scenario in SCENARIOS for queue in QUEUES}
    figures = []
    for scenario in SCENARIOS:
        beside = ", ".join(
            f"{queue} {outcome.part:.0%} ({outcome.before:.0f} → {outcome.after:.0f}/s, ended {outcome.ended}×)"
            for queue in QUEUES
            if (outcome := outcomes[scenario, queue])
        )
        figures.append(Figure(scenario, outcomes[scenario, "headrace"].part, 0.95, detail=beside))
    raw = {
        f"{scenario} {queue}": [outcome.before, outcome.after, outcome.ended] for (scenario, queue), outcome in outcomes.items()
    }
    report("recovery", facts, figures, dict(raw))
