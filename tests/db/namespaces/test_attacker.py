"""A random tenant of namespace a, at every level, while b works: b's data and results are exactly what b made."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import psycopg
import psycopg.conninfo
import pytest

from headrace.db import Connection, Level, Target
from headrace.log.outbox import publish
from headrace.prove.attacker import AttackReport, attack, known_identifiers
from headrace.rules import Rule, create_rule
from headrace.web.http import create_access_token, create_hook
from tests.builders import drain, start_python, wait_until
from tests.db.namespaces.conftest import SignIn
from tests.db.namespaces.test_isolation import snapshot

AttackerLevel = Literal["none", "publish", "consume", "work", "admin"]
LEVELS: list[AttackerLevel] = ["none", "publish", "consume", "work", "admin"]
CALLS, CALLS_SLOW = 200, 10_000
SECRET = "only b may read this"
DEFINITIONS = [
    "select topic_id, namespace, topic, partitions, retention from headrace_internal.topic where namespace = 'b' order by 1",
    "select * from headrace_internal.namespace where namespace = 'b'",
    "select role::text, namespace, level from headrace_internal.namespace_grant where namespace = 'b' order by 1",
    "select rule, topic, event_type, condition, action from headrace_internal.rule where namespace = 'b' order by 1",
    "select correlator, topic, pattern from headrace_internal.correlator where namespace = 'b' order by 1",
    "select schedule_id, schedule, cron, type from headrace_internal.schedule where namespace = 'b' order by 1",
    """select consumer_id, consumer from headrace_internal.consumer
       where topic_id in (select topic_id from headrace_internal.topic where namespace = 'b') order by 1""",
    "select * from headrace_internal.access_token where namespace = 'b' order by 1",
    "select * from headrace_internal.hook where namespace = 'b' order by 1",
    "select * from headrace_internal.idempotency_key order by 1",
    "select action_id, error, traceback from headrace_internal.attempt where namespace = 'b' order by 1",
]


@dataclass
class Work:
    """Publishes as a tenant of b, again and again; remembers what it published and every error."""

    session: Connection
    ids: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self.stop.is_set():
            statement = "select headrace.publish('orders', 'placed', to_jsonb(%s::int), p_key => %s, p_namespace => 'b')"
            try:
                row = self.session.execute(statement, (len(self.ids), f"k{len(self.ids) % 5}")).fetchone()
                assert row is not None
                self.ids.append(str(row[0]))
            except psycopg.Error as error:
                self.errors.append(str(error))
            self.stop.wait(0.005)


@contextmanager
def working(session: Connection) -> Iterator[Work]:
    work = Work(session)
    thread = threading.Thread(target=work.run)
    thread.start()
    try:
        yield work
    finally:
        work.stop.set()
        thread.join()


@contextmanager
def node(target: Target) -> Iterator[None]:
    """A node of the owner; at the end it must still run."""
    process = start_python("headrace", "node", "run", "--dsn", target.dsn)
    try:
        yield
        assert process.poll() is None, "the node ended"
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture
def shop(owner_conn: Connection) -> Connection:
    """Namespace b with a rule that fires on each event."""
    create_rule(owner_conn, Rule(name="notify", topic="orders", event_type="placed", action="NOTIFY"), namespace="b")
    create_access_token(owner_conn, "mailer", ["publish"], namespace="b")
    create_hook(owner_conn, "mailer", "orders", "github", ["env:B"], namespace="b")
    keep_secret(owner_conn)
    return owner_conn


def keep_secret(conn: Connection) -> None:
    """An event of b and the error of one of its actions hold the secret. The action's cause is the event, as for the action of a rule."""
    publish(conn, "orders", "noted", {"note": SECRET}, key="k", namespace="b")
    drain(conn)
    conn.execute(
        """select headrace.send_actions('b', array_agg(jsonb_build_object('id', headrace_internal.hash_id(l.event_id::text || ':1'),
               'action', 'NOTED', 'cause', jsonb_build_object('event_id', l.event_id))))
           from headrace_internal.log l where l.type = 'noted'"""
    )
    conn.execute(
        """select headrace.fail_action(c.msg_id, c.read_ct, 5, 3600, 3600, %s, p_namespace => 'b')
           from headrace.claim_actions('{NOTED}', 1, 30, p_namespace => 'b') c""",
        (SECRET,),
    )


def fired(conn: Connection) -> list[tuple[str, int]]:
    """Each event of b's log that was published by the work, in order, and how often the rule fired on it."""
    return conn.execute(
        """select l.event_id::text, count(f.*)
           from headrace_internal.topic t
           join headrace_internal.log l using (topic_id)
           left join headrace_internal.firing f on f.topic_id = l.topic_id and f.position = l.position
           where t.namespace = 'b' and jsonb_typeof(l.payload) = 'number'
           group by l.event_id, l.position order by l.position"""
    ).fetchall()


def run_attack(
    shop: Connection, database: Target, sign_in: SignIn, level: AttackerLevel, calls: int
) -> tuple[AttackReport, Work]:
    grants: dict[str, Level] = {} if level == "none" else {"a": level}
    attacker, worker = sign_in(**grants), sign_in(b="publish")
    definitions = [shop.execute(text).fetchall() for text in DEFINITIONS]
    other, own = known_identifiers(shop, "b", secret=SECRET), known_identifiers(shop, "a")
    dsn = psycopg.conninfo.make_conninfo(database.dsn, user=attacker.info.user)
    others = shop.execute("select count(*) from headrace_internal.outbox").fetchone()
    assert others is not None
    with node(database), working(worker) as work:
        report = attack(dsn, other, calls, seed=LEVELS.index(level), own=own)
        work.stop.set()
        wait_until(lambda: len([1 for _, count in fired(shop) if count]) >= len(work.ids), "b's rules fired", timeout_s=30)
    assert work.errors == []
    assert not report.leaked, report
    assert fired(shop) == [(event_id, 1) for event_id in work.ids], "lost, forged, reordered or repeated"
    assert [shop.execute(text).fetchall() for text in DEFINITIONS] == definitions
    return report, work


@pytest.mark.lane("pg18")
@pytest.mark.parametrize("level", LEVELS)
def test_no_attack_changes_another_namespace(shop: Connection, database: Target, sign_in: SignIn, level: AttackerLevel) -> None:
    report, work = run_attack(shop, database, sign_in, level, CALLS)
    assert sum(count for name, count in report.outcomes.items() if not name.startswith("commit")) == CALLS
    assert work.ids and (level == "none" or report.succeeded), report
    assert not report.outcomes["XX000"], report


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
def test_no_long_attack_changes_another_namespace(
    shop: Connection, database: Target, sign_in: SignIn, level: AttackerLevel
) -> None:
    started = time.monotonic()
    _, work = run_attack(shop, database, sign_in, level, CALLS_SLOW)
    assert len(work.ids) > 10 * (time.monotonic() - started), "b was stopped; the ratio is measured by bench/walls.py"


@pytest.mark.lane("pg18")
def test_attack_of_an_admin_leaves_every_row_of_an_idle_namespace(shop: Connection, database: Target, sign_in: SignIn) -> None:
    """The schedules of the admin's own namespace fire meanwhile."""
    attacker = sign_in(a="admin")
    dsn = psycopg.conninfo.make_conninfo(database.dsn, user=attacker.info.user)
    other, own = known_identifiers(shop, "b", secret=SECRET), known_identifiers(shop, "a")
    before = snapshot(shop, "b")
    shop.execute(
        """insert into headrace_internal.schedule_due (schedule_id, tick_at)
           select s.schedule_id, now() from headrace_internal.schedule s where s.namespace = 'a'"""
    )
    attack(dsn, other, 400, seed=0, own=own)
    assert snapshot(shop, "b") == before


OPEN = """
    create or replace function headrace_internal.holds_level(p_caller name, p_level text, p_namespace text) returns boolean
    language sql stable as $$ select true $$"""
NULL_PASSES = """
    create or replace function headrace_internal.above_namespaces(p_role name) returns boolean language plpgsql stable as $$
    begin return p_role = current_user or pg_has_role(p_role, current_user, 'usage'); end $$;
    create or replace function headrace_internal.authorize_id(p_caller name, p_level text, p_kind text, p_id bigint) returns void
    language plpgsql stable as $$
    begin
        if p_kind <> 'topic' or p_caller <> current_user and not headrace_internal.holds_level(p_caller, p_level,
                (select t.namespace from headrace_internal.topic t where t.topic_id = p_id)) then
            raise exception 'no' using errcode = '42501';
        end if;
    end $$"""
ID_ALONE = """
    do $$ begin execute replace(pg_get_functiondef('headrace.queued_actions'::regproc), 'a.namespace = $7 and', ''); end $$"""


@pytest.mark.lane("pg18")
@pytest.mark.parametrize("hole", [OPEN, NULL_PASSES, ID_ALONE], ids=["open", "null caller", "id without namespace"])
def test_attacker_finds_a_seeded_hole(shop: Connection, database: Target, sign_in: SignIn, hole: str) -> None:
    attacker = sign_in(a="consume")
    dsn = psycopg.conninfo.make_conninfo(database.dsn, user=attacker.info.user)
    other, own = known_identifiers(shop, "b", secret=SECRET), known_identifiers(shop, "a")
    before = snapshot(shop, "b")
    report = attack(dsn, other, 200, seed=1, own=own)
    assert snapshot(shop, "b") == before and not report.leaked
    shop.execute(hole)
    # Chance decides which calls come first.
    for seed in range(1, 16):
        report = attack(dsn, other, 400, seed=seed, own=own)
        if report.leaked or snapshot(shop, "b") != before:
            return
    pytest.fail("the hole was not found")
