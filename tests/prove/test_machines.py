"""State machines: leases, schedules and retention under any order of what may happen, beside a model of a few lines each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from psycopg import sql

from headrace.actions.queue import NOWHERE
from headrace.core import LeaseLost
from headrace.db import Connection, Server, Target, connect, map_database_errors, query
from headrace.log import create_topic, drop_expired, read
from headrace.prove.bug import BUGS, edit_function
from headrace.schedules import create_schedule, list_ticks, pause_schedule, resume_schedule, ticks

pytestmark = [pytest.mark.lane("pg18"), pytest.mark.timeout(230), pytest.mark.xdist_group("prove")]
QUICK = settings(
    max_examples=12, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
LEASE_S = 10


@contextmanager
def fresh(server: Server) -> Iterator[Connection]:
    """A database for one example."""
    name = f"machine_{uuid4().hex}"
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(f"create database {name} template headrace_template strategy file_copy")
        with connect(Target("machine", server.dsn(name))) as conn:
            yield conn
        admin.execute(f"drop database {name} with (force)")


class Clocked(RuleBasedStateMachine):
    """A machine with a database and a clock of its own, which only goes forward."""

    server: Server

    def __init__(self) -> None:
        super().__init__()
        self._fresh = fresh(self.server)
        self.conn = self._fresh.__enter__()
        self.shift_s = 0.0
        self.begin()

    def begin(self) -> None:
        """What stands there at the start."""

    def teardown(self) -> None:
        self._fresh.__exit__(None, None, None)

    def pass_time(self, seconds: float) -> None:
        self.shift_s += seconds
        self.conn.execute("select set_config('headrace.clock_shift', %s, false)", (f"{self.shift_s} seconds",))

    def now(self) -> datetime:
        row = self.conn.execute("select headrace.clock()").fetchone()
        assert row is not None
        return row[0].astimezone(UTC)  # type: ignore[no-any-return]


class Leases(Clocked):
    """An action is in one hand at a time; an ack counts only from the hand that holds it; nothing is lost."""

    def begin(self) -> None:
        self.held: list[tuple[int, int]] = []
        self.sent = self.done = 0
        self.until: dict[int, float] = {}
        self.table = sql.Identifier("pgmq", "q_hr_default")

    def claims(self, name: str, *, after: int = 0) -> None:
        given = {"actions": ["work"], "max": 2, "lease_s": LEASE_S, "after": after, "ordered": False}
        for msg_id, attempt, _ in self.conn.execute(sql.SQL(query(name)).format(queue=self.table), given).fetchall():
            assert self.until.get(msg_id, 0.0) <= self.shift_s + 1, "it is in another hand"
            self.held.append((msg_id, attempt))
            self.until[msg_id] = self.shift_s + LEASE_S

    @rule()
    def send(self) -> None:
        self.conn.execute("select headrace.send_action('work')")
        self.sent += 1

    @rule(after=st.sampled_from([0, 2, NOWHERE]))
    def claim(self, after: int) -> None:
        self.claims("actions/claim_retried")
        self.claims("actions/claim", after=after)

    @rule(seconds=st.sampled_from([20.0, 6.0]))
    def wait(self, seconds: float) -> None:
        self.pass_time(seconds)

    def current(self, claim: tuple[int, int]) -> bool:
        """Nobody has taken it since."""
        return claim[0] in self.until and max(attempt for msg_id, attempt in self.held if msg_id == claim[0]) == claim[1]

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        claim = data.draw(st.sampled_from(self.held))
        try:
            with map_database_errors():
                self.conn.execute("select headrace.ack_actions(%s, %s, %s::real[])", ([claim[0]], [claim[1]], [0.0]))
        except LeaseLost:
            assert not self.current(claim)
        else:
            assert self.current(claim), "an ack from a hand that no longer holds it"
            self.done += 1
            del self.until[claim[0]]
            self.held = [one for one in self.held if one[0] != claim[0]]

    @precondition(lambda self: self.held)
    @rule(data=st.data(), extend=st.booleans())
    def extend_or_release(self, data: st.DataObject, extend: bool) -> None:
        claim = data.draw(st.sampled_from(self.held))
        text = "select headrace.extend_actions(%s, %s, %s)" if extend else "select headrace.release_actions(%s, %s)"
        given = ([claim[0]], [claim[1]], float(LEASE_S)) if extend else ([claim[0]], [claim[1]])
        row = self.conn.execute(text, given).fetchone()
        assert row == (int(self.current(claim)),)
        if self.current(claim):
            self.until[claim[0]] = self.shift_s + (LEASE_S if extend else 0)

    @invariant()
    def nothing_is_lost(self) -> None:
        row = self.conn.execute(
            "select (select count(*) from pgmq.q_hr_default), (select count(*) from headrace_internal.action_result)"
        ).fetchone()
        assert row == (self.sent - self.done, self.done)


class Ticks(Clocked):
    """Every tick of an active schedule is fired once; a paused one fires none; whoever runs it, however often."""

    def begin(self) -> None:
        create_topic(self.conn, "ticks")
        # Early in a minute, and whole minutes from there: real time must not bring a tick between the firing and the model.
        self.pass_time(65 - self.now().second)
        create_schedule(
            self.conn, "s", cron="* * * * *", topic="ticks", type="tick", missed="all", missed_max=1000, grace_s=86400
        )
        self.active = True
        self.since = self.now()
        self.expected: set[datetime] = set()

    def collect(self) -> None:
        """What must have been fired by now."""
        now = self.now()
        for tick in ticks("* * * * *", "UTC", self.since):
            if tick > now:
                break
            self.expected.add(tick)
        self.since = now

    def fire(self) -> None:
        self.conn.execute("select headrace.run_schedule(1)")
        if self.active:
            self.collect()

    @rule(minutes=st.integers(1, 7))
    def wait(self, minutes: int) -> None:
        self.pass_time(minutes * 60)

    @rule(times=st.integers(1, 3))
    def run(self, times: int) -> None:
        for _ in range(times):
            self.fire()

    @precondition(lambda self: self.active)
    @rule()
    def pause(self) -> None:
        self.fire()
        pause_schedule(self.conn, "s")
        self.active = False

    @precondition(lambda self: not self.active)
    @rule()
    def resume(self) -> None:
        resume_schedule(self.conn, "s")
        self.active = True
        self.since = self.now()

    @invariant()
    def each_tick_is_one_event(self) -> None:
        while self.conn.execute("select * from headrace.sequence()").fetchall():
            pass
        fired = [tick for tick in list_ticks(self.conn, "s", limit=1000) if tick.outcome == "fired"]
        assert sorted(tick.tick_at for tick in fired) == sorted(self.expected)
        assert sorted(str(event.id) for event in read(self.conn, "ticks", limit=1000)) == sorted(
            str(tick.event_id) for tick in fired
        )


class Retention(Clocked):
    """The log has no holes; nothing goes that a consumer has not passed; every consumer gets every event once."""

    def begin(self) -> None:
        create_topic(self.conn, "old", time_partition="day", retention=timedelta(days=2))
        self.conn.execute("select headrace.create_consumer('old', 'c')")
        self.published = 0
        self.got: list[object] = []

    @rule(events=st.integers(1, 4))
    def publish(self, events: int) -> None:
        for _ in range(events):
            self.published += 1
            self.conn.execute("select headrace.publish('old', 'x', to_jsonb(%s::int))", (self.published,))
        self.conn.execute("select * from headrace.sequence()")

    @rule(days=st.sampled_from([0.5, 1.0, 3.0]))
    def wait(self, days: float) -> None:
        self.pass_time(days * 86400)

    @rule(most=st.integers(1, 5))
    def consume(self, most: int) -> None:
        with self.conn.transaction():
            claim = self.conn.execute("select partition, position, upto from headrace.claim(1, %s)", (most,)).fetchone()
            if claim is not None:
                rows = self.conn.execute(
                    "select payload from headrace_internal.log where position > %s and position <= %s order by position",
                    claim[1:],
                )
                self.got += [row[0] for row in rows.fetchall()]
                self.conn.execute("select headrace.advance(1, %s, %s)", (claim[0], claim[2]))

    @rule(maintain=st.booleans())
    def expire(self, maintain: bool) -> None:
        if maintain:
            self.conn.execute("select * from headrace.maintain_log()")
        else:
            drop_expired(self.conn, "old", before=self.now() - timedelta(days=1))

    @invariant()
    def nothing_is_lost(self) -> None:
        row = self.conn.execute(
            "select t.dropped_to, (select position from headrace_internal.cursor), "
            "coalesce((select max(position) from headrace_internal.log), t.dropped_to) from headrace.topic t"
        ).fetchone()
        assert row is not None
        dropped_to, cursor, head = row
        there = [event.position for event in read(self.conn, "old", limit=10_000)]
        assert there == list(range(dropped_to + 1, head + 1)), "the log has a hole"
        assert (dropped_to <= cursor, head) == (True, self.published)
        assert self.got == list(range(1, len(self.got) + 1)), "the consumer missed an event, or got one twice"


@pytest.mark.parametrize("machine", [Leases, Ticks, Retention])
def test_machine_and_model_agree(server: Server, machine: type[Clocked]) -> None:
    machine.server = server
    run_state_machine_as_test(machine, settings=QUICK)


class Fenceless(Leases):
    """With the seeded bug: an ack does not ask whether the lease is still held."""

    def begin(self) -> None:
        super().begin()
        for edit in BUGS["no-fence"].edits:
            edit_function(self.conn, edit)


def test_machine_finds_a_missing_fence(server: Server) -> None:
    Fenceless.server = server
    with pytest.raises((AssertionError, BaseExceptionGroup)):
        run_state_machine_as_test(Fenceless, settings=settings(QUICK, max_examples=60, phases=[Phase.generate]))
