"""A run of the demo: publishes the year, with a rollback, a crash and a retry, and its last hours live, one event at a time."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from statistics import quantiles
from uuid import UUID

from headrace.actions import DeadLetterGroup, group_dead_letters
from headrace.core import Event, HeadraceError
from headrace.db import Connection, connect, query
from headrace.demo.definitions import (
    CorrelatorTotals,
    ExpectedFirings,
    OutputCounter,
    RuleTotals,
    correlator_totals,
    expected_firings,
    rule_totals,
)
from headrace.demo.environment import Environment, NodeProcess, run_node
from headrace.demo.flights import events_in_order, last_minute, read_flights, read_weather
from headrace.demo.verify import (
    Airport,
    BacktestResult,
    Check,
    ProgressCounts,
    PublishedCounts,
    archive_and_backtest,
    busiest,
    read_progress,
    verify,
    verify_correlators,
    verify_isolation,
    verify_rules,
)
from headrace.log.outbox import publish, publish_many


@dataclass(frozen=True)
class Progress(ProgressCounts):
    """How many events have come how far, in which phase, and how many there are."""

    phase: str
    total: int
    published: int


BATCH = 5000
LIVE = 300
CRASH_AT = 1 / 6
"""The crash comes late in February."""
LIVE_PAUSE_S = 0.005
POLL_S = 0.15
STALLED_S = 60.0


@dataclass(frozen=True)
class DemoResult:
    """The numbers of a run, its speed, and the checks."""

    flights: int
    events: int
    departures: int
    arrivals: int
    cancelled: int
    weather: int
    repeated_dropped: int
    rolled_back: int
    late: int
    killed: list[str]
    """What was killed with -9 during the run."""
    read_s: float
    publish_s: float
    sequence_s: float
    end_to_end_s: float
    crash_s: float
    publish_per_s: float
    sequence_per_s: float
    end_to_end_per_s: float
    live_p50_ms: float
    live_p99_ms: float
    busiest: list[Airport]
    rules: list[RuleTotals]
    correlators: list[CorrelatorTotals]
    backtest: BacktestResult | None
    dead_groups: list[DeadLetterGroup]
    checks: list[Check]

    @property
    def adds_up(self) -> bool:
        return all(check.holds for check in self.checks)


@dataclass
class Demo:
    """One run. `run` yields its progress; afterwards `result` is set."""

    environment: Environment
    flights: int | None = None
    spark: bool = True
    result: DemoResult | None = None
    _published: PublishedCounts = field(default_factory=PublishedCounts)
    _total: int = 0
    _expected: ExpectedFirings = field(default_factory=lambda: expected_firings([]))
    _output_counter: OutputCounter = field(default_factory=OutputCounter)
    _now: datetime | None = None
    _months: Counter[tuple[int, int]] = field(default_factory=Counter)
    _sequenced_at: float = 0.0
    _rolled_back: list[UUID] = field(default_factory=list)
    _last_batch: list[Event] = field(default_factory=list)
    _killed: list[str] = field(default_factory=list)
    _crash_s: float = 0.0
    _sent_at: dict[UUID, datetime] = field(default_factory=dict)

    def run(self) -> Iterator[Progress]:
        """Publishes everything, waits for the rest of the work, and builds the result."""
        start = time.monotonic()
        flights = read_flights(self.flights)
        weather = read_weather(last_minute(flights))
        self._total = sum(1 + (flight.arrived is not None) for flight in flights) + len(weather)
        self._expected = expected_firings(flights)
        events = events_in_order(flights, weather)
        read_s = time.monotonic() - start
        in_year = max(self._total - LIVE, 0)
        until_crash = int(in_year * CRASH_AT)
        with tempfile.TemporaryDirectory() as folder, run_node(self.environment, Path(folder) / "node.log") as process:
            start = time.monotonic()
            with self._connections() as (conn, watcher):
                yield from self._publish_year(conn, watcher, islice(events, until_crash))
                self._roll_back(conn)
            self._crash(process)
            with self._connections() as (conn, watcher):
                self._repeat_last_batch(conn)
                yield from self._publish_year(conn, watcher, islice(events, in_year - until_crash))
                publish_s = time.monotonic() - start
                yield from self._catch_up(watcher, process, "year published")
                end_to_end_s = time.monotonic() - start
                sequenced = self._published.events, self._sequenced_at - start
                yield from self._publish_live(conn, watcher, events)
                yield from self._catch_up(watcher, process, "last hours live")
                process.stop()
                backtest = None
                if self.spark:
                    yield self._progress(watcher, "backtest on Spark")
                    backtest = archive_and_backtest(
                        self.environment.target, self.environment.folder / "archive" if self.environment.folder else Path(folder)
                    )
                self.result = self._build_result(watcher, len(flights), sequenced, (read_s, publish_s, end_to_end_s), backtest)

    @contextmanager
    def _connections(self) -> Iterator[tuple[Connection, Connection]]:
        """A connection to publish, and one to read the progress."""
        with connect(self.environment.target) as conn, connect(self.environment.target) as watcher:
            yield conn, watcher

    def _publish_year(self, conn: Connection, watcher: Connection, events: Iterator[Event]) -> Iterator[Progress]:
        batches = iter(lambda: list(islice(events, BATCH)), [])
        for batch in batches:
            with conn.transaction():
                publish_many(conn, batch)
            for event in batch:
                self._count(event)
            self._last_batch = batch
            yield self._progress(watcher, "publishing the year")

    def _count(self, event: Event) -> None:
        self._published.count(event)
        self._output_counter.count(event)
        assert event.emitted_at is not None
        self._now = event.emitted_at
        self._months[self._now.year, self._now.month] += 1

    def _roll_back(self, conn: Connection) -> None:
        """Publishes the last batch again under new ids, and rolls back: none of these events may ever be visible."""
        copies = [Event(topic=event.topic, type=event.type, key=event.key, payload=event.payload) for event in self._last_batch]
        with conn.transaction(force_rollback=True):
            self._rolled_back = publish_many(conn, copies)

    def _crash(self, process: NodeProcess) -> None:
        """kill -9 of PostgreSQL, if it is the demo's own, and of the node, in the middle of their work."""
        start = time.monotonic()
        if self.environment.server:
            self.environment.server.kill()
            self.environment.server.start()
            self._killed.append("PostgreSQL")
        process.check_alive()
        process.kill()
        process.start()
        self._killed.append("the node")
        self._crash_s = time.monotonic() - start

    def _repeat_last_batch(self, conn: Connection) -> None:
        """Repeats a batch, as a publisher does whose commit got no answer: with the same ids, so no event is there twice."""
        with conn.transaction():
            publish_many(conn, self._last_batch)
        self._published.repeated = len(self._last_batch)

    def _publish_live(self, conn: Connection, watcher: Connection, events: Iterator[Event]) -> Iterator[Progress]:
        for number, event in enumerate(events):
            self._publish_timed(conn, event)
            self._count(event)
            time.sleep(LIVE_PAUSE_S)
            if number % 20 == 0:
                yield self._progress(watcher, "last hours live")

    def _publish_timed(self, conn: Connection, event: Event) -> None:
        with conn.transaction():
            publish(
                conn,
                event.topic,
                event.type,
                event.payload,
                key=event.key,
                id=event.id,
                emitted_at=event.emitted_at,
                producer=event.producer,
            )
            # The server's clock at both ends, so that a remote server gives the same result.
            row = conn.execute("select clock_timestamp()").fetchone()
        assert row is not None
        self._sent_at[event.id] = row[0]

    def _catch_up(self, watcher: Connection, process: NodeProcess, phase: str) -> Iterator[Progress]:
        """Waits until all published events are handled, and all notices are written."""
        changed_at, last = time.monotonic(), None
        while True:
            process.check_alive()
            progress = self._progress(watcher, phase)
            yield progress
            if self._has_caught_up(progress):
                return
            if progress != last:
                changed_at, last = time.monotonic(), progress
            if time.monotonic() - changed_at > STALLED_S:
                raise HeadraceError(f"no progress for {STALLED_S:.0f} s at {progress}; see: headrace doctor")
            time.sleep(POLL_S)

    def _has_caught_up(self, progress: Progress) -> bool:
        """True if consumers, rules and correlators have passed the newest event, and all their actions have ended."""
        passed = min(progress.handled, progress.matched_to, progress.correlated_to) >= self._published.events
        all_notified = progress.notices >= max(progress.late, self._published.late)
        return passed and all_notified and progress.pending == 0 and progress.actions_ended >= progress.actions_sent

    def _progress(self, watcher: Connection, phase: str) -> Progress:
        counts = read_progress(watcher)
        if counts.in_log < self._published.events or not self._sequenced_at:
            self._sequenced_at = time.monotonic()
        return Progress(phase=phase, total=self._total, published=self._published.events, **asdict(counts))

    def _build_result(
        self,
        conn: Connection,
        flights: int,
        sequenced: tuple[int, float],
        times: tuple[float, float, float],
        backtest: BacktestResult | None,
    ) -> DemoResult:
        read_s, publish_s, end_to_end_s = times
        in_log, sequence_s = sequenced
        published = self._published
        in_log_at_end = read_progress(conn).in_log
        p50_ms, p99_ms = self._latency(conn)
        return DemoResult(
            flights=flights,
            events=published.events,
            departures=published.departures,
            arrivals=published.arrivals,
            cancelled=published.cancelled,
            weather=published.weather,
            repeated_dropped=published.repeated - (in_log_at_end - published.events),
            rolled_back=len(self._rolled_back),
            late=published.late,
            killed=self._killed,
            read_s=read_s,
            publish_s=publish_s,
            sequence_s=sequence_s,
            end_to_end_s=end_to_end_s,
            crash_s=self._crash_s,
            publish_per_s=(in_log + published.repeated) / publish_s if publish_s else 0,
            sequence_per_s=in_log / sequence_s if sequence_s else 0,
            end_to_end_per_s=in_log / end_to_end_s if end_to_end_s else 0,
            live_p50_ms=p50_ms,
            live_p99_ms=p99_ms,
            busiest=busiest(conn),
            rules=rule_totals(conn),
            correlators=correlator_totals(conn),
            backtest=backtest,
            dead_groups=group_dead_letters(conn),
            checks=[
                *verify(conn, published, self._rolled_back),
                *verify_rules(conn, published, self._expected),
                *verify_correlators(conn, self._output_counter.total(self._now)),
                *verify_isolation(conn),
                *(backtest.checks(published.events - self._months[max(self._months)]) if backtest else ()),
            ],
        )

    def _latency(self, conn: Connection) -> tuple[float, float]:
        """Median and 99th percentile of the live events in ms, from the publisher's commit to the handler's end."""
        handled = conn.execute(query("demo/live_handled"), {"ids": list(self._sent_at)}).fetchall()
        latencies = [(at - self._sent_at[event_id]).total_seconds() * 1000 for event_id, at in handled]
        if len(latencies) < 2:
            return 0, 0
        cuts = quantiles(latencies, n=100)
        return cuts[49], cuts[98]
