"""Two or three real sessions run publish, sequence, claim, ack and seek in every possible order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from uuid import UUID

import pytest

from headrace.actions.queue import MSG_ID_MAX
from headrace.db import Connection, Target
from tests.actions.claims import CLAIMS
from tests.builders import drain, fill, topic
from tests.prove.isolation import Sessions, Step, orders

pytestmark = [pytest.mark.lane("pg18"), pytest.mark.timeout(230), pytest.mark.xdist_group("prove")]


def sql(text: str, *parameters: object) -> Step:
    def step(conn: Connection) -> object:
        cursor = conn.execute(text, parameters)
        return cursor.fetchall() if cursor.description else None

    return step


def publish(key: str, n: int) -> Step:
    return sql("select headrace.publish('orders', 'placed', to_jsonb(%s::int), p_key => %s)", n, key)


def begin(step: Step) -> Step:
    """A step that begins a transaction first."""

    def begin_and_run(conn: Connection) -> object:
        conn.execute("begin")
        return step(conn)

    return begin_and_run


COMMIT, ROLLBACK = sql("commit"), sql("rollback")
SEQUENCE = sql("select * from headrace.sequence()")


class LogObserver:
    """Reads the log between steps: an event stays at its position, and no event appears before it."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        self._before: list[tuple[int, UUID]] = []
        self._events: list[tuple[int, UUID]] = []

    def start(self) -> int:
        """Begins a new order; returns the last position of the log."""
        self._before += self._events
        self._events = []
        return len(self._before)

    def check(self) -> None:
        now = self._after(len(self._before))
        assert now[: len(self._events)] == self._events, "a position changed, or an event appeared before one that was read"
        assert [position for position, _ in now] == list(range(len(self._before) + 1, len(self._before) + len(now) + 1))
        self._events = now

    def check_all(self) -> None:
        """The events of all earlier orders are unchanged."""
        assert self._after(0) == self._before + self._events

    def _after(self, position: int) -> list[tuple[int, UUID]]:
        text = "select position, event_id from headrace.log where position > %s order by position"
        return self._conn.execute(text, (position,)).fetchall()


@pytest.fixture
def log(conn: Connection) -> Iterator[LogObserver]:
    topic(conn)
    observer = LogObserver(conn)
    yield observer
    observer.check_all()


def test_every_order_of_publishing_and_sequencing_keeps_the_log_whole(
    conn: Connection, database: Target, log: LogObserver
) -> None:
    """One session publishes twice and commits, one publishes and commits or rolls back, one sequences."""
    for last in (COMMIT, ROLLBACK):
        scripts = (
            (begin(publish("a", 1)), publish("a", 2), COMMIT),
            (begin(publish("a", 3)), last),
            (SEQUENCE, SEQUENCE),
        )
        with Sessions(database.dsn, len(scripts)) as sessions:
            for order in orders([len(script) for script in scripts]):
                before = log.start()
                assert sessions.run(scripts, order, log.check) is not None, "no session waits for another"
                drain(conn)
                log.check()
                rows = conn.execute(
                    "select payload from headrace.log where position > %s order by position", (before,)
                ).fetchall()
                numbers = [row[0] for row in rows]
                assert sorted(numbers) == ([1, 2, 3] if last is COMMIT else [1, 2]), order
                assert numbers.index(1) < numbers.index(2), "the order of the producer"
            assert sessions.waits == 0


def test_every_order_of_two_sequencers_gives_each_event_one_position(
    conn: Connection, database: Target, log: LogObserver
) -> None:
    scripts = ((begin(SEQUENCE), COMMIT), (begin(SEQUENCE), ROLLBACK, SEQUENCE), (publish("a", 1), publish("b", 2)))
    with Sessions(database.dsn, len(scripts)) as sessions:
        for order in orders([len(script) for script in scripts]):
            before = log.start()
            assert sessions.run(scripts, order, log.check) is not None
            drain(conn)
            log.check()
            assert last_position(conn) == before + 2, order


def handle_batch(name: str) -> tuple[Step, ...]:
    """What a consumer does with a batch: claim, effects, cursor, commit."""
    claimed: list[tuple[int, int, int]] = []

    def claim(conn: Connection) -> object:
        claimed[:] = conn.execute("select partition, position, upto from headrace.claim(1, 2)").fetchall()
        return list(claimed)

    def effect(conn: Connection) -> object:
        for partition, position, upto in claimed:
            conn.execute(
                "insert into effect (node, position) select %s, l.position from headrace.log l "
                "where l.partition = %s and l.position > %s and l.position <= %s",
                (name, partition, position, upto),
            )
        return None

    def advance(conn: Connection) -> object:
        for partition, _, upto in claimed:
            conn.execute("select headrace.advance(1, %s, %s)", (partition, upto))
        return None

    return (begin(claim), effect, advance, COMMIT)


def finish(conn: Connection) -> None:
    """Handles the remaining events."""
    claim, *rest = handle_batch("end")
    while True:
        claimed = claim(conn)
        for step in rest:
            step(conn)
        if not claimed:
            return


@pytest.fixture
def consumer(conn: Connection) -> Connection:
    topic(conn)
    conn.execute("create table effect (id bigint generated always as identity, node text, position bigint)")
    conn.execute("select headrace.create_consumer('orders', 'c')")
    return conn


def test_every_order_of_two_consumers_handles_each_event_once_and_in_order(consumer: Connection, database: Target) -> None:
    scripts = (handle_batch("one"), handle_batch("two"))
    with Sessions(database.dsn, 2) as sessions:
        for order in orders([len(script) for script in scripts]):
            consumer.execute("truncate effect")
            head = last_position(consumer)
            fill(consumer, 4)
            sessions.run(scripts, order, lambda: None)
            finish(consumer)
            handled = [row[0] for row in consumer.execute("select position from effect order by id").fetchall()]
            assert handled == list(range(head + 1, head + 5)), order
        assert sessions.waits == 0, "a held cursor is skipped, not waited for"


def last_position(conn: Connection) -> int:
    row = conn.execute("select coalesce(max(position), 0) from headrace.log").fetchone()
    assert row is not None
    return int(row[0])


def test_every_order_of_a_seek_and_a_handler_runs_them_one_after_the_other(consumer: Connection, database: Target) -> None:
    """The seek waits for the handler, or comes first; then every event after its target is handled again."""
    seek = sql("select * from headrace.seek('orders', 'c', 'earliest')")
    scripts = (handle_batch("one"), (begin(seek), COMMIT))
    with Sessions(database.dsn, 2) as sessions:
        for order in orders([len(script) for script in scripts]):
            fill(consumer, 2)
            finish(consumer)
            head = last_position(consumer)
            fill(consumer, 1)
            consumer.execute("truncate effect")
            sessions.run(scripts, order, lambda: None)
            finish(consumer)
            handled = [row[0] for row in consumer.execute("select position from effect order by id").fetchall()]
            assert set(handled) == set(range(1, head + 2)), order
            steps_back = sum(following <= position for position, following in pairwise(handled))
            assert steps_back <= 1, f"it went back more than once: {handled}"


def claim_actions(conn: Connection, name: str, *, after: int = MSG_ID_MAX) -> list[tuple[int, int]]:
    """Claims with the product's own statement; returns message and attempt of each action."""
    parameters = {"actions": ["work"], "action": "work", "max": 2, "lease_s": 60, "after": after, "ordered": False}
    claimed = conn.execute(CLAIMS[name], parameters).fetchall()
    return [(msg_id, attempt) for msg_id, attempt, _ in claimed]


def worker(name: str, *, lapsed: bool) -> tuple[Step, ...]:
    """The steps of a worker: claim (a new action, or one whose lease has ended by its clock), effect, ack."""
    held: list[tuple[int, int]] = []

    def claim(conn: Connection) -> object:
        conn.execute("select set_config('headrace.clock_shift', %s, false)", ("1 hour" if lapsed else "",))
        held[:] = claim_actions(conn, "claim_retried_action" if lapsed else "claim_actions")
        return list(held)

    def effect(conn: Connection) -> object:
        for msg_id, _ in held:
            conn.execute("insert into effect (node, position) values (%s, %s)", (name, msg_id))
        return None

    def ack(conn: Connection) -> object:
        if held:
            (msg_id, attempt), *_ = held
            try:
                conn.execute("select headrace.ack_actions(%s, %s, %s::real[])", ([msg_id], [attempt], [0.0]))
            except Exception as error:  # noqa: BLE001 - the test checks the effects below
                return str(error)
        return None

    return (claim, begin(effect), ack, COMMIT)


def test_every_order_of_a_lapsed_lease_lets_one_ack_through(consumer: Connection, database: Target) -> None:
    """The second worker takes the action of the first, as if its lease had ended: whoever acks, the effect is there once."""
    scripts = (worker("first", lapsed=False), worker("second", lapsed=True))
    with Sessions(database.dsn, 2) as sessions:
        for order in orders([len(script) for script in scripts]):
            consumer.execute("truncate effect; truncate pgmq.q_hr_default; truncate headrace_internal.action_result")
            consumer.execute("select headrace.send_action('work')")
            sessions.run(scripts, order, lambda: None)
            ended = consumer.execute("select count(*) from headrace.action_result").fetchone()
            effects = consumer.execute("select count(*) from effect").fetchone()
            assert (ended, effects) == ((1,), (1,)), order


@pytest.mark.parametrize(("name", "after"), [("claim_actions", 0), ("claim_actions", MSG_ID_MAX), ("claim_retried_action", 0)])
def test_every_order_of_two_claims_gives_an_action_to_one(consumer: Connection, database: Target, name: str, after: int) -> None:
    """Both in open transactions, so neither sees the other's claim."""
    scripts = ((begin(lambda conn: claim_actions(conn, name, after=after)), COMMIT),) * 2
    with Sessions(database.dsn, 2) as sessions:
        for order in orders([2, 2]):
            consumer.execute("truncate pgmq.q_hr_default")
            consumer.execute("select headrace.send_action('work') from generate_series(1, 3)")
            if name == "claim_retried_action":
                consumer.execute("update pgmq.q_hr_default set read_ct = 1")
            results = sessions.run(scripts, order, lambda: None)
            assert results is not None
            (one, _), (other, _) = results
            assert isinstance(one, list) and isinstance(other, list)
            both = [msg_id for msg_id, _ in (*one, *other)]
            assert one and other and len(both) == len(set(both)), order
        assert sessions.waits == 0, "a claimed action is skipped, not waited for"


def test_every_order_of_two_ordered_claims_gives_a_key_to_one(consumer: Connection, database: Target) -> None:
    """The second waits for the first; then the rest of the key must wait behind the first one's actions."""

    def claim(conn: Connection) -> object:
        return claim_actions(conn, "claim_ordered_actions")

    scripts = ((begin(claim), COMMIT),) * 2
    possible = []
    with Sessions(database.dsn, 2) as sessions:
        for order in orders([2, 2]):
            consumer.execute("truncate pgmq.q_hr_default restart identity")
            consumer.execute("select headrace.send_action('work', p_key => 'k') from generate_series(1, 3)")
            results = sessions.run(scripts, order, lambda: None)
            held = consumer.execute("select msg_id, read_ct from pgmq.q_hr_default order by msg_id").fetchall()
            assert held == [(1, 1), (2, 1), (3, 0)], order
            if results is not None:
                assert sorted(map(str, (results[0][0], results[1][0]))) == ["[(1, 1), (2, 1)]", "[]"]
                possible.append(order)
        assert sessions.waits > 0 and possible


def test_tester_runs_every_order_once() -> None:
    assert sorted(orders([2, 1])) == [(0, 0, 1), (0, 1, 0), (1, 0, 0)]
    assert len(list(orders([4, 3, 2]))) == 1260


def test_tester_continues_while_a_step_waits(conn: Connection, database: Target) -> None:
    conn.execute("create table t (n int); insert into t values (0)")
    add: Callable[[int], Step] = lambda n: sql("update t set n = n + %s", n)  # noqa: E731
    scripts = ((begin(add(1)), COMMIT), (begin(add(10)), COMMIT))
    with Sessions(database.dsn, 2) as sessions:
        possible = [sessions.run(scripts, order, lambda: None) is not None for order in orders([2, 2])]
        assert sessions.waits > 0 and not all(possible) and any(possible)
    assert conn.execute("select n from t").fetchone() == (11 * 6,)


def test_tester_catches_a_serial_cursor(conn: Connection, database: Target) -> None:
    """A reader that asks for ids greater than the last one it read misses events that commit later."""
    conn.execute("create table queue (id bigint generated always as identity, n int)")
    conn.execute("create table seen (id bigint)")
    read = sql("insert into seen select id from queue where id > (select coalesce(max(id), 0) from seen)")
    insert = sql("insert into queue (n) values (1)")
    lost = 0
    with Sessions(database.dsn, 3) as sessions:
        for order in orders([2, 2, 1]):
            conn.execute("truncate queue; truncate seen")
            sessions.run(((begin(insert), COMMIT), (begin(insert), COMMIT), (read,)), order, lambda: None)
            read(conn)
            lost += conn.execute("select count(*) from seen").fetchone() != (2,)
    assert lost > 0
