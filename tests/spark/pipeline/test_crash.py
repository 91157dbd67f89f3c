"""Whatever is killed, at any time: every event is handled once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psycopg
import pytest

from headrace.db import Connection, Target, connect
from headrace.spark.pipeline import set_engine
from headrace.spark.pipeline.computation import BatchComputer
from tests.builders import topic

from .conftest import MakePipeline
from .steps import differences, read_results, run_database
from .test_agreement import prepare

pytestmark = pytest.mark.lane("pg18")


class DyingConnection:
    """A connection that is cut at a statement, as by a kill; the server then rolls back."""

    def __init__(self, conn: Connection, after: int) -> None:
        self._conn = conn
        self.left = after

    def execute(self, *given: object) -> object:
        if self.left == 0:
            self._conn.close()
            raise psycopg.OperationalError("killed")
        self.left -= 1
        return self._conn.execute(*given)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> object:
        return getattr(self._conn, name)


async def test_transaction_cut_at_any_statement_is_repeated(
    conn: Connection,
    database: Target,
    copy_database: Callable[[], Target],
    make_pipeline: MakePipeline,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await prepare(conn, database, events=60, seed=12)
    set_engine(conn, "cars", "spark")
    conn.close()
    other = copy_database()
    with connect(other) as theirs:
        theirs.execute("update headrace_internal.topic set engine = 'database'")
    await run_database(other)
    results: dict[str, object] = {}
    compute = BatchComputer.compute

    def cached_compute(self: BatchComputer, parts: Sequence[object]) -> object:
        """Spark's result is the same every time."""
        key = repr(parts)
        if key not in results:
            results[key] = compute(self, parts)  # type: ignore[arg-type]
        return results[key]

    monkeypatch.setattr(BatchComputer, "compute", cached_compute)
    cuts = 0
    while True:
        with connect(database) as dying:
            pipeline = make_pipeline(database, dying, events_max=100)
            pipeline._conn = DyingConnection(dying, after=cuts)  # type: ignore[assignment]
            try:
                while pipeline.step() or pipeline.tick():
                    pass
                break
            except psycopg.OperationalError:
                cuts += 1
    assert cuts > 15, "a batch has more statements than that"
    with connect(database) as ours, connect(other) as theirs:
        assert list(differences(read_results(ours, in_order=False), read_results(theirs, in_order=False))) == []


Driver = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def driver(database: Target) -> Iterator[Driver]:
    """Starts the command in its own process session, so that its JVM and workers end with it, at the latest with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> subprocess.Popen[bytes]:
        started.append(start_driver(database, *words))
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)


def start_driver(database: Target, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "headrace", "pipeline", "run", "--topic", "cars", "--dsn", database.dsn, *words]
    environ = {**os.environ, "PYTHONPATH": ":".join(str(Path(path).absolute()) for path in sys.path if path)}
    return subprocess.Popen(command, env=environ, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def kill_after_a_batch(running: subprocess.Popen[bytes], conn: Connection, later_s: float) -> None:
    done = "select count(*) from headrace.pipeline_batch"
    before, deadline = conn.execute(done).fetchone(), time.monotonic() + 120
    while conn.execute(done).fetchone() == before and running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(later_s)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait(30)


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_driver_killed_at_random_moments_changes_nothing(
    conn: Connection, database: Target, copy_database: Callable[[], Target], driver: Driver
) -> None:
    chance = random.Random(3)
    await prepare(conn, database, events=400, seed=13)
    conn.close()
    other = copy_database()
    await run_database(other)
    with connect(database) as ours, connect(other) as theirs:
        set_engine(ours, "cars", "spark")
        for _ in range(4):
            running = driver("--max-events-per-trigger", "5")
            kill_after_a_batch(running, ours, chance.uniform(0, 0.6))
        reached = ours.execute("select min(position) from headrace.cursor").fetchone()
        assert reached is not None and 0 < reached[0] < 400, "the kills did not come in the middle"
        assert driver("--once").wait(180) == 0
        assert list(differences(read_results(ours, in_order=False), read_results(theirs, in_order=False))) == []


@pytest.mark.slow
def test_driver_ends_cleanly_on_sigterm(conn: Connection, driver: Driver) -> None:
    topic(conn, "cars")
    topic(conn, "derived")
    set_engine(conn, "cars", "spark")
    running = driver()
    deadline = time.monotonic() + 120
    while conn.execute("select state from headrace.pipeline_state").fetchone() != ("running",):
        assert time.monotonic() < deadline and running.poll() is None
        time.sleep(0.1)
    running.send_signal(signal.SIGTERM)
    assert running.wait(60) == 0
    assert conn.execute("select state from headrace.pipeline_state").fetchone() == ("stopped",)
