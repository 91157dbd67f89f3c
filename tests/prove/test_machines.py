"""State machines: leases, schedules and retention in random orders of operations, compared with a model of a few lines each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from headrace.actions.queue import MSG_ID_MAX
from headrace.core import LeaseLost
from headrace.db import Connection, Server, Target, connect, map_database_errors
from headrace.log.topics import create_topic, drop_expired, read_log
from headrace.prove.bugs import BUGS, edit_function
from headrace.schedules import create_schedule, list_ticks, pause_schedule, resume_schedule, ticks
from tests.actions.claims import CLAIMS
from tests.examples import examples

pytestmark = [pytest.mark.lane("pg18"), pytest.mark.timeout(230), pytest.mark.xdist_group("prove")]
QUICK = settings(
    max_examples=examples(7, 12), stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
LEASE_S = 10


@contextmanager
def new_database(server: Server) -> Iterator[Connection]:
    """A database for one example."""
    name = f"machine_{uuid4().hex}"
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute(f"create database {name} template headrace_template strategy file_copy")
        with connect(Target("machine", server.dsn(name))) as conn:
            yield conn
        admin.execute(f"drop database {name} with (force)")


class Machine(RuleBasedStateMachine):
    """A machine with a database and a clock of its own that only goes forward."""

    server: Server

    def __init__(self) -> None:
        super().__init__()
        self._database = new_database(self.server)
        self.conn = self._database.__enter__()
        self.shift_s = 0.0
        self.set_up()

    def set_up(self) -> None:
        """Creates what the machine needs."""

    def teardown(self) -> None:
        self._database.__exit__(None, None, None)

    def pass_time(self, seconds: float) -> None:
        self.shift_s += seconds
        self.conn.execute("select set_config('headrace.clock_shift', %s, false)", (f"{self.shift_s} seconds",))

    def now(self) -> datetime:
        row = self.conn.execute("select headrace.clock()").fetchone()
        assert row is not None
        return row[0].astimezone(UTC)  # type: ignore[no-any-return]


class Leases(Machine):
    """One worker holds an action at a time; only the holder can ack it; no action is lost."""

    def set_up(self) -> None:
        self.held: list[tuple[int, int]] = []
        self.sent = self.done = 0
        self.until: dict[int, float] = {}

    def run_claim(self, name: str, *, after: int = 0) -> None:
        parameters = {"actions": ["work"], "max": 2, "lease_s": LEASE_S, "after": after, "ordered": False}
        for msg_id, attempt, _ in self.conn.execute(CLAIMS[name], parameters).fetchall():
            assert self.until.get(msg_id, 0.0) <= self.shift_s + 1, "another worker holds it"
            self.held.append((msg_id, attempt))
            self.until[msg_id] = self.shift_s + LEASE_S

    @rule()
    def send(self) -> None:
        self.conn.execute("select headrace.send_action('work')")
        self.sent += 1

    @rule(after=st.sampled_from([0, 2, MSG_ID_MAX]))
    def claim(self, after: int) -> None:
        self.run_claim("claim_retried_action")
        self.run_claim("claim_actions", after=after)

    @rule(seconds=st.sampled_from([20.0, 6.0]))
    def wait(self, seconds: float) -> None:
        self.pass_time(seconds)

    def is_held(self, claim: tuple[int, int]) -> bool:
        """True if no other worker has claimed it since."""
        return claim[0] in self.until and max(attempt for msg_id, attempt in self.held if msg_id == claim[0]) == claim[1]

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        claim = data.draw(st.sampled_from(self.held))
        try:
            with map_database_errors():
                self.conn.execute("select headrace.ack_actions(%s, %s, %s::real[])", ([claim[0]], [claim[1]], [0.0]))
        except LeaseLost:
            assert not self.is_held(claim)
        else:
            assert self.is_held(claim), "an ack by a worker that no longer holds it"
            self.done += 1
            del self.until[claim[0]]
            self.held = [other for other in self.held if other[0] != claim[0]]

    @precondition(lambda self: self.held)
    @rule(data=st.data(), extend=st.booleans())
    def extend_or_release(self, data: st.DataObject, extend: bool) -> None:
        claim = data.draw(st.sampled_from(self.held))
        text = "select headrace.extend_actions(%s, %s, %s)" if extend else "select headrace.release_actions(%s, %s)"
        arguments = ([claim[0]], [claim[1]], float(LEASE_S)) if extend else ([claim[0]], [claim[1]])
        row = self.conn.execute(text, arguments).fetchone()
        assert row == (int(self.is_held(claim)),)
        if self.is_held(claim):
            self.until[claim[0]] = self.shift_s + (LEASE_S if extend else 0)

    @invariant()
    def nothing_is_lost(self) -> None:
        row = self.conn.execute(
            "select (select count(*) from pgmq.q_hr_default), (select count(*) from headrace.action_result)"
        ).fetchone()
        assert row == (self.sent - self.done, self.done)


class Ticks(Machine):
    """Every tick of an active schedule fires once, whoever runs it and however often; a paused schedule fires none."""

    def set_up(self) -> None:
        create_topic(self.conn, "ticks")
        # Start early in a minute and move by whole minutes: real time must not add a tick between the firing and the model.
        self.pass_time(65 - self.now().second)
        create_schedule(
            self.conn, "s", cron="* * * * *", topic="ticks", type="tick", missed="all", missed_max=1000, grace_s=86400
        )
        self.active = True
        self.since = self.now()
        self.expected: set[datetime] = set()

    def expect_ticks(self) -> None:
        """Adds the ticks that must have fired by now."""
        now = self.now()
        for tick in ticks("* * * * *", "UTC", self.since):
            if tick > now:
                break
            self.expected.add(tick)
        self.since = now

    def fire(self) -> None:
        self.conn.execute("select headrace.run_schedule(1)")
        if self.active:
            self.expect_ticks()

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
        firings = [tick for tick in list_ticks(self.conn, "s", limit=1000) if tick.outcome == "fired"]
        assert sorted(tick.tick_at for tick in firings) == sorted(self.expected)
        assert sorted(str(event.id) for event in read_log(self.conn, "ticks", limit=1000)) == sorted(
            str(tick.event_id) for tick in firings
        )


class Retention(Machine):
    """The log has no gaps; retention keeps what a consumer has not passed; the consumer gets every event once."""

    def set_up(self) -> None:
        create_topic(self.conn, "old", time_partition="day", retention=timedelta(days=2))
        self.conn.execute("select headrace.create_consumer('old', 'c')")
        self.published = 0
        self.received: list[object] = []

    @rule(events=st.integers(1, 4))
    def publish(self, events: int) -> None:
        for _ in range(events):
            self.published += 1
            self.conn.execute("select headrace.publish('old', 'x', to_jsonb(%s::int))", (self.published,))
        self.conn.execute("select * from headrace.sequence()")

    @rule(days=st.sampled_from([0.5, 1.0, 3.0]))
    def wait(self, days: float) -> None:
        self.pass_time(days * 86400)

    @rule(limit=st.integers(1, 5))
    def consume(self, limit: int) -> None:
        with self.conn.transaction():
            claim = self.conn.execute("select partition, position, upto from headrace.claim(1, %s)", (limit,)).fetchone()
            if claim is not None:
                rows = self.conn.execute(
                    "select payload from headrace.log where position > %s and position <= %s order by position",
                    claim[1:],
                )
                self.received += [row[0] for row in rows.fetchall()]
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
            "select t.dropped_to, (select position from headrace.cursor), "
            "coalesce((select max(position) from headrace.log), t.dropped_to) from headrace.topic t"
        ).fetchone()
        assert row is not None
        dropped_to, cursor, head = row
        positions = [event.position for event in read_log(self.conn, "old", limit=10_000)]
        assert positions == list(range(dropped_to + 1, head + 1)), "the log has a gap"
        assert (dropped_to <= cursor, head) == (True, self.published)
        assert self.received == list(range(1, len(self.received) + 1)), "the consumer missed an event, or got it twice"


@pytest.mark.parametrize("machine", [Leases, Ticks, Retention])
def test_machine_and_model_agree(server: Server, machine: type[Machine]) -> None:
    machine.server = server
    run_state_machine_as_test(machine, settings=QUICK)


class LeasesWithBug(Leases):
    """With the seeded bug: an ack does not check whether the lease is still held."""

    def set_up(self) -> None:
        super().set_up()
        for edit in BUGS["no-fence"].edits:
            edit_function(self.conn, edit)


def test_machine_finds_an_ack_that_does_not_check_the_lease(server: Server) -> None:
    LeasesWithBug.server = server
    with pytest.raises((AssertionError, BaseExceptionGroup)):
        run_state_machine_as_test(LeasesWithBug, settings=settings(QUICK, max_examples=60, phases=[Phase.generate]))
