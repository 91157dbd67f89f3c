"""Below the chaos: two or three real sessions through every order of publish, sequence, claim, ack and seek."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from uuid import UUID

import psycopg.sql
import pytest

from headrace.actions.queue import NOWHERE
from headrace.db import Connection, Target, query
from tests.builders import drain, fill, topic
from tests.prove.isolation import Sessions, Step, orders

pytestmark = [pytest.mark.lane("pg18"), pytest.mark.timeout(230), pytest.mark.xdist_group("prove")]


def sql(text: str, *given: object) -> Step:
    def step(conn: Connection) -> object:
        cursor = conn.execute(text, given)
        return cursor.fetchall() if cursor.description else None

    return step


def published(key: str, n: int) -> Step:
    return sql("select headrace.publish('orders', 'placed', to_jsonb(%s::int), p_key => %s)", n, key)


BEGIN, COMMIT, ROLLBACK = sql("begin"), sql("commit"), sql("rollback")
SEQUENCE = sql("select * from headrace.sequence()")


class Log:
    """Follows the log between steps: what stood at a position stays there, and nothing comes in before it."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        self._before: list[tuple[int, UUID]] = []
        self._seen: list[tuple[int, UUID]] = []

    def begin(self) -> int:
        """A new play: from here on the log is followed. Returns its last position."""
        self._before += self._seen
        self._seen = []
        return len(self._before)

    def look(self) -> None:
        now = self._after(len(self._before))
        assert now[: len(self._seen)] == self._seen, "a position changed, or an event came in before one that was read"
        assert [position for position, _ in now] == list(range(len(self._before) + 1, len(self._before) + len(now) + 1))
        self._seen = now

    def look_back(self) -> None:
        """What the plays before this one left is as it was."""
        assert self._after(0) == self._before + self._seen

    def _after(self, position: int) -> list[tuple[int, UUID]]:
        text = "select position, event_id from headrace_internal.log where position > %s order by position"
        return self._conn.execute(text, (position,)).fetchall()


@pytest.fixture
def log(conn: Connection) -> Iterator[Log]:
    topic(conn)
    followed = Log(conn)
    yield followed
    followed.look_back()


def test_every_order_of_publishing_and_sequencing_keeps_the_log_whole(conn: Connection, database: Target, log: Log) -> None:
    """One publishes twice and commits, one rolls back or commits, one sequences between them."""
    for last in (COMMIT, ROLLBACK):
        scripts = (
            (BEGIN, published("a", 1), published("a", 2), COMMIT),
            (BEGIN, published("a", 3), last),
            (SEQUENCE, SEQUENCE),
        )
        with Sessions(database.dsn, len(scripts)) as sessions:
            for order in orders([len(script) for script in scripts]):
                before = log.begin()
                assert sessions.play(scripts, order, log.look) is not None, "nobody waits for anybody here"
                drain(conn)
                log.look()
                rows = conn.execute(
                    "select payload from headrace_internal.log where position > %s order by position", (before,)
                ).fetchall()
                numbers = [row[0] for row in rows]
                assert sorted(numbers) == ([1, 2, 3] if last is COMMIT else [1, 2]), order
                assert numbers.index(1) < numbers.index(2), "a producer's own order"
            assert sessions.waited == 0


def test_every_order_of_two_sequencers_gives_each_event_one_position(conn: Connection, database: Target, log: Log) -> None:
    scripts = ((BEGIN, SEQUENCE, COMMIT), (BEGIN, SEQUENCE, ROLLBACK, SEQUENCE), (published("a", 1), published("b", 2)))
    with Sessions(database.dsn, len(scripts)) as sessions:
        for order in orders([len(script) for script in scripts]):
            before = log.begin()
            assert sessions.play(scripts, order, log.look) is not None
            drain(conn)
            log.look()
            assert positions(conn) == before + 2, order


def handling(name: str) -> tuple[Step, ...]:
    """What a consumer does with a batch: claim, effects, cursor, commit."""
    claimed: list[tuple[int, int, int]] = []

    def claim(conn: Connection) -> object:
        claimed[:] = conn.execute("select partition, position, upto from headrace.claim(1, 2)").fetchall()
        return list(claimed)

    def effect(conn: Connection) -> object:
        for partition, position, upto in claimed:
            conn.execute(
                "insert into effect (node, position) select %s, l.position from headrace_internal.log l "
                "where l.partition = %s and l.position > %s and l.position <= %s",
                (name, partition, position, upto),
            )
        return None

    def advance(conn: Connection) -> object:
        for partition, _, upto in claimed:
            conn.execute("select headrace.advance(1, %s, %s)", (partition, upto))
        return None

    return (BEGIN, claim, effect, advance, COMMIT)


def finish(conn: Connection) -> None:
    """Handles what is left."""
    last = handling("end")
    while True:
        for step in last[:2]:
            found = step(conn)
        for step in last[2:]:
            step(conn)
        if not found:
            return


@pytest.fixture
def consumed(conn: Connection) -> Connection:
    topic(conn)
    conn.execute("create table effect (id bigint generated always as identity, node text, position bigint)")
    conn.execute("select headrace.create_consumer('orders', 'c')")
    return conn


def test_every_order_of_two_consumers_handles_each_event_once_and_in_order(consumed: Connection, database: Target) -> None:
    scripts = (handling("one"), handling("two"))
    with Sessions(database.dsn, 2) as sessions:
        for order in orders([len(script) for script in scripts]):
            consumed.execute("truncate effect")
            head = positions(consumed)
            fill(consumed, 4)
            sessions.play(scripts, order, lambda: None)
            finish(consumed)
            done = [row[0] for row in consumed.execute("select position from effect order by id").fetchall()]
            assert done == list(range(head + 1, head + 5)), order
        assert sessions.waited == 0, "a held cursor is skipped, not waited for"


def positions(conn: Connection) -> int:
    row = conn.execute("select coalesce(max(position), 0) from headrace_internal.log").fetchone()
    assert row is not None
    return int(row[0])


def test_every_order_of_a_seek_beside_a_handler_is_one_after_the_other(consumed: Connection, database: Target) -> None:
    """The seek waits for the handler, or comes first: then all that follows its target is handled after it."""
    seek = sql("select * from headrace.seek('orders', 'c', 'earliest')")
    scripts = (handling("one"), (BEGIN, seek, COMMIT))
    with Sessions(database.dsn, 2) as sessions:
        for order in orders([len(script) for script in scripts]):
            fill(consumed, 2)
            finish(consumed)
            head = positions(consumed)
            fill(consumed, 1)
            consumed.execute("truncate effect")
            sessions.play(scripts, order, lambda: None)
            finish(consumed)
            done = [row[0] for row in consumed.execute("select position from effect order by id").fetchall()]
            assert set(done) == set(range(1, head + 2)), order
            falls = sum(other <= one for one, other in pairwise(done))
            assert falls <= 1, f"it went back more than once: {done}"


def claim_actions(conn: Connection, name: str, *, after: int = NOWHERE) -> list[tuple[int, int]]:
    """The product's own statement: message and attempt of what it gave."""
    given = {"actions": ["work"], "action": "work", "max": 2, "lease_s": 60, "after": after, "ordered": False}
    queue = psycopg.sql.Identifier("pgmq", "q_hr_default")
    claimed = conn.execute(psycopg.sql.SQL(query(name)).format(queue=queue), given).fetchall()
    return [(msg_id, attempt) for msg_id, attempt, _ in claimed]


def worker(name: str, *, lapsed: bool) -> tuple[Step, ...]:
    """What a worker does with an action: claim (a fresh one, or by its clock the other's lease has ended), effect, ack."""
    held: list[tuple[int, int]] = []

    def claim(conn: Connection) -> object:
        conn.execute("select set_config('headrace.clock_shift', %s, false)", ("1 hour" if lapsed else "",))
        held[:] = claim_actions(conn, "actions/claim_retried" if lapsed else "actions/claim")
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
            except Exception as error:  # noqa: BLE001 - what is refused is looked at below
                return str(error)
        return None

    return (claim, BEGIN, effect, ack, COMMIT)


def test_every_order_of_a_lapsed_lease_lets_one_ack_through(consumed: Connection, database: Target) -> None:
    """The second worker takes what the first holds, as if its lease had ended: whoever acks, the effect is there once."""
    scripts = (worker("first", lapsed=False), worker("second", lapsed=True))
    with Sessions(database.dsn, 2) as sessions:
        for order in orders([len(script) for script in scripts]):
            consumed.execute("truncate effect; truncate pgmq.q_hr_default; truncate headrace_internal.action_result")
            consumed.execute("select headrace.send_action('work')")
            sessions.play(scripts, order, lambda: None)
            ended = consumed.execute("select count(*) from headrace_internal.action_result").fetchone()
            effects = consumed.execute("select count(*) from effect").fetchone()
            assert (ended, effects) == ((1,), (1,)), order


@pytest.mark.parametrize(("name", "after"), [("actions/claim", 0), ("actions/claim", NOWHERE), ("actions/claim_retried", 0)])
def test_every_order_of_two_claims_gives_an_action_to_one(consumed: Connection, database: Target, name: str, after: int) -> None:
    """Both in open transactions, so neither sees what the other has taken."""
    scripts = ((BEGIN, lambda conn: claim_actions(conn, name, after=after), COMMIT),) * 2
    with Sessions(database.dsn, 2) as sessions:
        for order in orders([3, 3]):
            consumed.execute("truncate pgmq.q_hr_default")
            consumed.execute("select headrace.send_action('work') from generate_series(1, 3)")
            if name == "actions/claim_retried":
                consumed.execute("update pgmq.q_hr_default set read_ct = 1")
            given = sessions.play(scripts, order, lambda: None)
            assert given is not None
            (_, one, _), (_, other, _) = given
            assert isinstance(one, list) and isinstance(other, list)
            both = [msg_id for msg_id, _ in (*one, *other)]
            assert one and other and len(both) == len(set(both)), order
        assert sessions.waited == 0, "what another holds is skipped, not waited for"


def test_every_order_of_two_ordered_claims_gives_a_key_to_one(consumed: Connection, database: Target) -> None:
    """The second waits for the first, and then finds the rest of the key behind what the first has taken."""

    def claim(conn: Connection) -> object:
        conn.execute(query("actions/lock_order"), {"namespace": None, "action": "work"})
        return claim_actions(conn, "actions/claim_ordered")

    scripts = ((BEGIN, claim, COMMIT),) * 2
    possible = []
    with Sessions(database.dsn, 2) as sessions:
        for order in orders([3, 3]):
            consumed.execute("truncate pgmq.q_hr_default restart identity")
            consumed.execute("select headrace.send_action('work', p_key => 'k') from generate_series(1, 3)")
            given = sessions.play(scripts, order, lambda: None)
            held = consumed.execute("select msg_id, read_ct from pgmq.q_hr_default order by msg_id").fetchall()
            assert held == [(1, 1), (2, 1), (3, 0)], order
            if given is not None:
                assert sorted(map(str, (given[0][1], given[1][1]))) == ["[(1, 1), (2, 1)]", "[]"]
                possible.append(order)
        assert sessions.waited > 0 and possible


def test_tester_plays_every_order_once() -> None:
    assert sorted(orders([2, 1])) == [(0, 0, 1), (0, 1, 0), (1, 0, 0)]
    assert len(list(orders([4, 3, 2]))) == 1260


def test_tester_leaves_a_step_that_waits_and_goes_on(conn: Connection, database: Target) -> None:
    conn.execute("create table t (n int); insert into t values (0)")
    add: Callable[[int], Step] = lambda n: sql("update t set n = n + %s", n)  # noqa: E731
    scripts = ((BEGIN, add(1), COMMIT), (BEGIN, add(10), COMMIT))
    with Sessions(database.dsn, 2) as sessions:
        played = [sessions.play(scripts, order, lambda: None) is not None for order in orders([3, 3])]
        assert sessions.waited > 0 and not all(played) and any(played)
    assert conn.execute("select n from t").fetchone() == (11 * 20,)


def test_tester_catches_a_serial_cursor(conn: Connection, database: Target) -> None:
    """The classic: a reader that asks for ids greater than the last it saw loses what commits later."""
    conn.execute("create table queue (id bigint generated always as identity, n int)")
    conn.execute("create table seen (id bigint)")
    read = sql("insert into seen select id from queue where id > (select coalesce(max(id), 0) from seen)")
    insert = sql("insert into queue (n) values (1)")
    lost = 0
    with Sessions(database.dsn, 3) as sessions:
        for order in orders([3, 3, 1]):
            conn.execute("truncate queue; truncate seen")
            sessions.play(((BEGIN, insert, COMMIT), (BEGIN, insert, COMMIT), (read,)), order, lambda: None)
            read(conn)
            lost += conn.execute("select count(*) from seen").fetchone() != (2,)
    assert lost > 0
