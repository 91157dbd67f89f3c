"""Sampler: measures the progress of the workload twice a second during the run."""

from __future__ import annotations

import threading
from contextlib import suppress

import psycopg
from psycopg.rows import tuple_row

from headrace.db import query
from headrace.prove.evidence import Sample
from headrace.prove.history import now

INTERVAL_S = 0.5


class Sampler:
    """A thread that samples; it skips samples while the database is unreachable."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self.samples: list[Sample] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        conn: psycopg.Connection[tuple[int, ...]] | None = None
        while not self._stop.wait(INTERVAL_S):
            with suppress(psycopg.Error, OSError):
                if conn is None or conn.closed:
                    conn = psycopg.connect(self._dsn, autocommit=True, connect_timeout=2, row_factory=tuple_row)
                row = conn.execute(query("prove/sample")).fetchone()
                assert row is not None
                self.samples.append(Sample(now(), *(int(value) for value in row)))
