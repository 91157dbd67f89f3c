"""Families: every metric of headrace, with its labels, and its values in one database, read in one round trip.

Owns: the names, which metrics, dashboard, alerts and docs take from here; and what a reader remembers between two scrapes (the heads of
sleeping topics, positions up to which firings were counted, the size of the log). Promises: it only reads, and only what the reader's
role may see; scrapes within a second share one reading, so that nobody can load the database by scraping; a database that does not
answer costs a scrape at most TIMEOUT_S.

Labels hold names that people chose (topics, consumers, rules), never ids, keys or error texts, so their number is bounded by the
number of definitions. Above SERIES_MAX series a family sums the rest under the label value `other`."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from headrace.core import JSON, decode, encode
from headrace.db import Connection, Pool

SERIES_MAX = 1000
"""Series of one family, beside the one for the rest. Those that come first stay, so that a series does not come and go."""
OTHER = "other"


@dataclass(frozen=True)
class Family:
    """One metric. `source`: the database, so that every node shows the same value (combine nodes by max); or the node's own process
    (combine nodes by sum). `rest`: how the series above the maximum are combined."""

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    source: Literal["database", "node"]
    labels: tuple[str, ...]
    help: str
    rest: Literal["sum", "max", "min"] = "sum"


FAMILIES: tuple[Family, ...] = (
    Family(
        "headrace_consumer_lag_events", "gauge", "database", ("namespace", "topic", "consumer"),
        "Events that a consumer has not handled yet.",
    ),
    Family(
        "headrace_consumer_lag_seconds", "gauge", "database", ("namespace", "topic", "consumer"),
        "Age of the oldest event that a consumer has not handled yet.", "max",
    ),
    Family(
        "headrace_outbox_waiting", "gauge", "database", ("namespace", "topic"),
        "Published events that are not in the log yet; exact up to 10 000 together, above that an estimate.",
    ),
    Family(
        "headrace_sequenced_events_total", "counter", "database", ("namespace", "topic"),
        "Events in the log since the topic was created: the newest position.",
    ),
    Family(
        "headrace_action_queue", "gauge", "database", ("namespace", "state"),
        "Actions in the queue by state; exact up to 1 000 of a state, above that an estimate.",
    ),
    Family(
        "headrace_action_wait_seconds", "gauge", "database", ("namespace",),
        "Time since the oldest action that waits for a handler fell due; 0 if none waits.", "max",
    ),
    Family(
        "headrace_dead_letters", "gauge", "database", ("namespace", "kind", "reason"),
        "Open dead letters of actions and events; exact up to 1 000 of a kind.",
    ),
    Family(
        "headrace_rule_firings_total", "counter", "database", ("namespace", "topic", "rule"),
        "Firings of a rule since the node was first scraped.",
    ),
    Family(
        "headrace_log_bytes", "gauge", "database", ("namespace", "topic"),
        "Size of a topic's log on disk, with indexes; read every 5 minutes.",
    ),
    Family(
        "headrace_notification_queue_usage", "gauge", "database", (),
        "Fill of the server's notification queue, 0 to 1; from 0.5 on publishers do not notify and the sequencer polls.", "max",
    ),
    Family(
        "headrace_node_up", "gauge", "database", ("namespace", "node"),
        "1 if a registered node is alive, 0 if it is lost: no heartbeat for 90 seconds.", "min",
    ),
    Family(
        "headrace_database_up", "gauge", "node", (),
        "1 if this node could read the metrics of the database at the last scrape.", "min",
    ),
    Family(
        "headrace_correlator_outputs_total", "counter", "node", ("namespace", "correlator"),
        "Outputs of a correlator that this node wrote.",
    ),
    Family(
        "headrace_handler_duration_seconds", "histogram", "node", ("kind", "handler"),
        "Time that the handlers of this node took: per event of a consumer, per batch of a batch consumer, per action.",
    ),
    Family(
        "headrace_loop_failures_total", "counter", "node", ("loop",),
        "Steps of this node's loops that failed and were tried again.",
    ),
)  # fmt: skip
_BY_NAME = {family.name: family for family in FAMILIES}


def metric_family(name: str) -> Family:
    """The family with a name."""
    return _BY_NAME[name]


@dataclass(frozen=True)
class Sample:
    """A value of a family; `labels` has the values of the family's labels, in order."""

    family: Family
    labels: tuple[str, ...]
    value: float


def limit_series(family: Family, samples: Iterable[Sample], *, series_max: int = SERIES_MAX) -> Sequence[Sample]:
    """The samples of one family; those beyond `series_max` are combined into one with the label value `other`."""
    samples = list(samples)
    if len(samples) <= series_max:
        return samples
    values = [sample.value for sample in samples[series_max:]]
    rest = {"sum": sum(values), "max": max(values), "min": min(values)}[family.rest]
    return [*samples[:series_max], Sample(family, (OTHER,) * len(family.labels), rest)]


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
