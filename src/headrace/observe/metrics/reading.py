"""Reading: the numbers of one database, in one round trip.

Owns: what a reader remembers between two scrapes (the heads of sleeping topics, positions up to which firings were counted, the size
of the log). Promises: it only reads, and only what the reader's role may see; scrapes within a second share one reading, so that
nobody can load the database by scraping; a database that does not answer costs a scrape at most TIMEOUT_S."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Iterable, Sequence

from headrace.core import JSON, decode, encode
from headrace.db import Connection, Pool
from headrace.observe.metrics.families import Sample, metric_family

logger = logging.getLogger(__name__)

AGE_MIN_S = 1.0
"""A reading younger than this is used again."""
TIMEOUT_S = 5.0
LOG_BYTES_EVERY_S = 300.0
"""Sizes change slowly, and asking for them takes longer than all the rest."""

_READ = "select metric, labels, value from headrace.metrics(%s::jsonb, %s)"
_KNOWN = "headrace_known"
_FIRINGS, _LOG_BYTES = "headrace_rule_firings_total", "headrace_log_bytes"

Row = tuple[str, list[str], float | None]


class MetricsMemory:
    """What one reader of one database remembers between two scrapes."""

    def __init__(self) -> None:
        self._log_bytes_at = float("-inf")
        self._log_bytes: list[Sample] = []
        self._known: dict[str, JSON] = {}
        self._firings: Counter[tuple[str, ...]] = Counter()

    @property
    def parameters(self) -> tuple[str, bool]:
        """Those of the next reading: what is known, and whether the sizes are due."""
        return encode(self._known), time.monotonic() - self._log_bytes_at >= LOG_BYTES_EVERY_S

    def samples(self, rows: Sequence[Row], *, with_log_bytes: bool) -> list[Sample]:
        """The samples of a reading, with the counters since the first one and the sizes of the last 5 minutes."""
        known: dict[str, JSON] = {}
        for metric, labels, value in rows:
            if metric == _FIRINGS:
                self._firings[tuple(labels)] += int(value or 0)
            elif metric == _KNOWN:
                known[labels[0]] = decode(labels[1])
        self._known = known
        if with_log_bytes:
            self._log_bytes_at = time.monotonic()
            self._log_bytes = list(_samples(row for row in rows if row[0] == _LOG_BYTES))
        own = _samples(row for row in rows if row[0] not in (_FIRINGS, _KNOWN, _LOG_BYTES))
        fired = (Sample(metric_family(_FIRINGS), labels, count) for labels, count in self._firings.items())
        return [*own, *fired, *self._log_bytes]


class DatabaseMetrics:
    """The metrics of one database, as one node sees them."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._lock = asyncio.Lock()
        self._read_at = float("-inf")
        self._memory = MetricsMemory()
        self.samples: Sequence[Sample] = ()
        """Those of the last reading; none if it failed."""
        self.error: str | None = None

    async def read(self) -> Sequence[Sample]:
        """The samples of the database; none if it cannot be read, and then `error` tells why."""
        async with self._lock:
            if time.monotonic() - self._read_at >= AGE_MIN_S:
                try:
                    async with asyncio.timeout(TIMEOUT_S):
                        await self._read()
                    self.error = None
                except Exception as error:  # noqa: BLE001 - a scrape shows what it can, and the loops report the outage
                    self.samples, self.error = (), str(error) or f"no answer within {TIMEOUT_S:g} s"
                    logger.debug("the metrics could not be read: %s", self.error)
                self._read_at = time.monotonic()
            return self.samples

    async def _read(self) -> None:
        known, with_log_bytes = self._memory.parameters
        async with self._pool.connection() as conn:
            rows: list[Row] = await (await conn.execute(_READ, (known, with_log_bytes))).fetchall()
        self.samples = self._memory.samples(rows, with_log_bytes=with_log_bytes)


def read_metrics(conn: Connection, memory: MetricsMemory | None = None) -> list[Sample]:
    """The metrics of a database; without `memory` there are no counters that need an earlier reading."""
    memory = memory or MetricsMemory()
    known, with_log_bytes = memory.parameters
    return memory.samples(conn.execute(_READ, (known, with_log_bytes)).fetchall(), with_log_bytes=with_log_bytes)


def _samples(rows: Iterable[Row]) -> Iterable[Sample]:
    return (Sample(metric_family(metric), tuple(labels), value or 0.0) for metric, labels, value in rows)
