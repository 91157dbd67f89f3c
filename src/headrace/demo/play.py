"""The play: the year is published, with a rollback, a crash and a retry in it; its last hours live, one event at a time."""

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

from headrace.actions import DeadGroup, group_dead_letters
from headrace.core import Event, HeadraceError
from headrace.db import Connection, connect, query
from headrace.demo.correlators import Bookkeeper, CorrelatorFigures, correlator_figures
from headrace.demo.flights import events_in_order, last_minute, read_flights, read_weather
from headrace.demo.look_back import LookedBack, look_back
from headrace.demo.rules import Expected, RuleFigures, expect, rule_figures
from headrace.demo.stage import NodeProcess, Stage, node
from headrace.demo.verify import Airport, Proof, Tally, busiest, verify, verify_correlators, verify_rules
from headrace.demo.watch import Progress, look
from headrace.outbox import publish, publish_many

BATCH = 5000
LIVE = 300
CRASH_AT = 1 / 6
"""Of the year: late in February."""
LIVE_PAUSE_S = 0.005
LOOK_S = 0.15
STANDSTILL_S = 60.0


@dataclass(frozen=True)
class Figures:
    """What happened, and how fast."""

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
    """What was killed with -9 on the way."""
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
    rules: list[RuleFigures]
    correlators: list[CorrelatorFigures]
    looked_back: LookedBack | None
    dead_groups: list[DeadGroup]
    proofs: list[Proof]

    @property
    def adds_up(self) -> bool:
        return all(proof.holds for proof in self.proofs)


@dataclass
class Demo:
    """One run. `play` yields how far it is; afterwards `figures` tells."""

    stage: Stage
    flights: int | None = None
    spark: bool = True
    figures: Figures | None = None
    _tally: Tally = field(default_factory=Tally)
    _total: int = 0
    _expected: Expected = field(default_factory=lambda: expect([]))
    _bookkeeper: Bookkeeper = field(default_factory=Bookkeeper)
    _now: datetime | None = None
    _months: Counter[tuple[int, int]] = field(default_factory=Counter)
    _sequenced_at: float = 0.0
    _rolled_back: list[UUID] = field(default_factory=list)
    _last_batch: list[Event] = field(default_factory=list)
    _killed: list[str] = field(default_factory=list)
    _crash_s: float = 0.0
    _sent_at: dict[UUID, datetime] = field(default_factory=dict)

    def play(self) -> Iterator[Progress]:
        """The acts in their order."""
        began = time.monotonic()
        flights = read_flights(self.flights)
        weather = read_weather(last_minute(flights))
        self._total = sum(1 + (flight.arrived is not None) for flight in flights) + len(weather)
        self._expected = expect(flights)
        events = events_in_order(flights, weather)
        read_s = time.monotonic() - began
        in_year = max(self._total - LIVE, 0)
        until_crash = int(in_year * CRASH_AT)
        with tempfile.TemporaryDirectory() as folder, node(self.stage, Path(folder) / "node.log") as process:
            began = time.monotonic()
            with self._connected() as (conn, watcher):
                yield from self._year(conn, watcher, islice(events, until_crash))
                self._roll_back(conn)
            self._crash(process)
            with self._connected() as (conn, watcher):
                self._send_again(conn)
                yield from self._year(conn, watcher, islice(events, in_year - until_crash))
                publish_s = time.monotonic() - began
                yield from self._catch_up(watcher, process, "year published")
                end_to_end_s = time.monotonic() - began
                span = self._tally.events, self._sequenced_at - began
                yield from self._live(conn, watcher, events)
                yield from self._catch_up(watcher, process, "last hours live")
                process.end()
                looked_back = None
                if self.spark:
                    yield self._progress(watcher, "looking back on Spark")
                    looked_back = look_back(
                        self.stage.target, self.stage.folder / "archive" if self.stage.folder else Path(folder)
                    )
                self.figures = self._figures(watcher, len(flights), span, (read_s, publish_s, end_to_end_s), looked_back)

    @contextmanager
    def _connected(self) -> Iterator[tuple[Connection, Connection]]:
        """The publisher's connection, and one to look with."""
        with connect(self.stage.target) as conn, connect(self.stage.target) as watcher:
            yield conn, watcher

    def _year(self, conn: Connection, watcher: Connection, events: Iterator[Event]) -> Iterator[Progress]:
        batches = iter(lambda: list(islice(events, BATCH)), [])
        for batch in batches:
            with conn.transaction():
                publish_many(conn, batch)
            for event in batch:
                self._count(event)
            self._last_batch = batch
            yield self._progress(watcher, "publishing the year")

    def _count(self, event: Event) -> None:
        self._tally.count(event)
        self._bookkeeper.take(event)
        assert event.emitted_at is not None
        self._now = event.emitted_at
        self._months[self._now.year, self._now.month] += 1

    def _roll_back(self, conn: Connection) -> None:
        """A transaction that is rolled back has published nothing."""
        ghosts = [Event(topic=event.topic, type=event.type, key=event.key, payload=event.payload) for event in self._last_batch]
        with conn.transaction(force_rollback=True):
            self._rolled_back = publish_many(conn, ghosts)

    def _crash(self, process: NodeProcess) -> None:
        """kill -9 of PostgreSQL, where it is the demo's own, and of the node, in the middle of their work."""
        began = time.monotonic()
        if self.stage.server:
            self.stage.server.kill()
            self.stage.server.start()
            self._killed.append("PostgreSQL")
        process.refuse_ended()
        process.kill()
        process.start()
        self._killed.append("the node")
        self._crash_s = time.monotonic() - began

    def _send_again(self, conn: Connection) -> None:
        """A publisher whose commit got no answer sends the batch again: the ids are the same, so nothing is there twice."""
        with conn.transaction():
            publish_many(conn, self._last_batch)
        self._tally.repeated = len(self._last_batch)

    def _live(self, conn: Connection, watcher: Connection, events: Iterator[Event]) -> Iterator[Progress]:
        for number, event in enumerate(events):
            self._publish_live(conn, event)
            self._count(event)
            time.sleep(LIVE_PAUSE_S)
            if number % 20 == 0:
                yield self._progress(watcher, "last hours live")

    def _publish_live(self, conn: Connection, event: Event) -> None:
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
            # The server's clock at both ends, so that a remote server measures the same.
            row = conn.execute("select clock_timestamp()").fetchone()
        assert row is not None
        self._sent_at[event.id] = row[0]

    def _catch_up(self, watcher: Connection, process: NodeProcess, act: str) -> Iterator[Progress]:
        """Waits until all that was published is handled, and all that is late was told."""
        moved_at, last = time.monotonic(), None
        while True:
            process.refuse_ended()
            progress = self._progress(watcher, act)
            yield progress
            if self._has_caught_up(progress):
                return
            if progress != last:
                moved_at, last = time.monotonic(), progress
            if time.monotonic() - moved_at > STANDSTILL_S:
                raise HeadraceError(f"nothing has moved for {STANDSTILL_S:.0f} s at {progress}; see: headrace doctor")
            time.sleep(LOOK_S)

    def _has_caught_up(self, progress: Progress) -> bool:
        """Consumers, rules and correlators have come past the newest event, and whatever they asked for has ended."""
        passed = min(progress.handled, progress.ruled, progress.correlated) >= self._tally.events
        told = progress.told >= max(progress.late, self._tally.late)
        return passed and told and progress.on_the_way == 0 and progress.ended >= progress.fired

    def _progress(self, watcher: Connection, act: str) -> Progress:
        seen = look(watcher)
        if seen.in_log < self._tally.events or not self._sequenced_at:
            self._sequenced_at = time.monotonic()
        return Progress(act=act, total=self._total, published=self._tally.events, **asdict(seen))

    def _figures(
        self,
        conn: Connection,
        flights: int,
        span: tuple[int, float],
        times: tuple[float, float, float],
        looked_back: LookedBack | None,
    ) -> Figures:
        read_s, publish_s, end_to_end_s = times
        in_log, sequence_s = span
        tally = self._tally
        in_log_at_end = look(conn).in_log
        p50_ms, p99_ms = self._latency(conn)
        return Figures(
            flights=flights,
            events=tally.events,
            departures=tally.departures,
            arrivals=tally.arrivals,
            cancelled=tally.cancelled,
            weather=tally.weather,
            repeated_dropped=tally.repeated - (in_log_at_end - tally.events),
            rolled_back=len(self._rolled_back),
            late=tally.late,
            killed=self._killed,
            read_s=read_s,
            publish_s=publish_s,
            sequence_s=sequence_s,
            end_to_end_s=end_to_end_s,
            crash_s=self._crash_s,
            publish_per_s=(in_log + tally.repeated) / publish_s if publish_s else 0,
            sequence_per_s=in_log / sequence_s if sequence_s else 0,
            end_to_end_per_s=in_log / end_to_end_s if end_to_end_s else 0,
            live_p50_ms=p50_ms,
            live_p99_ms=p99_ms,
            busiest=busiest(conn),
            rules=rule_figures(conn),
            correlators=correlator_figures(conn),
            looked_back=looked_back,
            dead_groups=group_dead_letters(conn),
            proofs=[
                *verify(conn, tally, self._rolled_back),
                *verify_rules(conn, tally, self._expected),
                *verify_correlators(conn, self._bookkeeper.total(self._now)),
                *(looked_back.proofs(tally.events - self._months[max(self._months)]) if looked_back else ()),
            ],
        )

    def _latency(self, conn: Connection) -> tuple[float, float]:
        """Median and 99th percentile of the live events, from the publisher's commit to the handler's end."""
        handled = conn.execute(query("demo/live_handled"), {"ids": list(self._sent_at)}).fetchall()
        waits = [(at - self._sent_at[event_id]).total_seconds() * 1000 for event_id, at in handled]
        if len(waits) < 2:
            return 0, 0
        cuts = quantiles(waits, n=100)
        return cuts[49], cuts[98]
