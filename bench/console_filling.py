"""A large database for the pages of the console: real definitions and a little real work, then rows in bulk."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from headrace import Action, Headrace
from headrace.core import Bury
from headrace.correlators import ActionOutput, Correlator, create_correlator
from headrace.db import Connection, Target
from headrace.relays import Relay, create_relay
from headrace.rules import Rule, create_rule
from headrace.schedules import create_schedule
from headrace.testing import Kit
from headrace.web.http import create_access_token, create_hook

TOPICS, PARTITIONS, CONSUMERS = 24, 4, 10
CURSORS = (TOPICS + 1) * PARTITIONS * CONSUMERS
KEYS = 100_000
RELAYS, DOORS = 50, 1_000
"""Relays, and as many hooks as access tokens."""
ERROR = "ValueError: card {} of customer '{}' was declined"
PATTERN = "repeat {push(late) {sequential {order.placed, fail {within 1 h {order.paid}}}}}"
CHUNK = 1_000_000

LOG = """
insert into headrace_internal.log (position, appended_at, emitted_at, topic_id, partition, event_id, type, key, payload, headers, producer)
select %(after)s::bigint + n, headrace.clock() - make_interval(secs => (%(events)s::bigint - n) * 0.0005), headrace.clock(), %(topic_id)s, n %% 4,
    (lpad(to_hex(%(topic_id)s::integer), 8, '0') || '-0000-7000-8000-' || lpad(to_hex(%(after)s::bigint + n), 12, '0'))::uuid,
    (array['order.placed', 'order.paid', 'order.sent', 'order.cancelled'])[1 + n %% 4], 'customer-' || n %% 100000,
    jsonb_build_object('total', n %% 1000, 'customer', jsonb_build_object('id', n %% 100000, 'email', 'c' || n %% 100000 || '@shop.example')),
    '{}', 'bench'
from generate_series(1, %(events)s::bigint) n"""

DEAD_ACTIONS = """
insert into pgmq.q_hrd_default (vt, message)
select now(), jsonb_build_object('action', jsonb_build_object('id', gen_random_uuid(), 'action', (array['CHARGE', 'MAIL', 'SHIP'])[1 + n %% 3],
    'key', 'customer-' || n, 'payload', jsonb_build_object('total', n, 'note', repeat('x', 200))), 'reason', 'failed',
    'error', case when n %% 10 < 8 then format('ValueError: card %%s of customer ''%%s'' was declined', n, n)
        else 'TimeoutError: kind ' || chr(97 + n %% 20) || chr(97 + n / 7 %% 20) end,
    'traceback', repeat('  File "shop.py", line 1, in charge' || chr(10), 20), 'attempts', 3, 'buried_at', headrace.clock())
from generate_series(1, %(letters)s) n"""

DEAD_EVENTS = """
insert into headrace_internal.dead_letter (consumer_id, partition, position, event_id, type, key, payload, headers, state, reason, error, attempts)
select c.consumer_id, l.partition, l.position, l.event_id, l.type, l.key, l.payload, l.headers, 'dead', 'failed',
    format('ValueError: card %%s of customer ''%%s'' was declined', l.position, l.key), 3
from headrace_internal.consumer c
join headrace_internal.topic t on t.topic_id = c.topic_id and t.topic = 'bench'
join headrace_internal.log l on l.topic_id = t.topic_id and l.position between 200 and 199 + %(letters)s
where c.consumer = 'consumer0'"""

INSTANCES = """
insert into headrace_internal.correlator_instance (correlator_id, key, units, deadlines, deadline, started_at, seen_at, evidence, evidence_total)
select i.correlator_id, n::text, i.units, i.deadlines, i.deadline, i.started_at, i.seen_at, i.evidence, i.evidence_total
from (select i.correlator_id, i.units, i.deadlines, i.deadline, i.started_at, i.seen_at, i.evidence, i.evidence_total
    from headrace_internal.correlator_instance i limit 1) i
cross join generate_series(1, %(keys)s) n on conflict do nothing"""

RESULTS = """
insert into headrace_internal.action_result (ended_at, action_id, attempts, namespace, action, outcome)
select headrace.clock() - make_interval(secs => n * 0.01), gen_random_uuid(), 1, 'default', 'REVIEW', 'done'
from generate_series(1, %(letters)s) n"""


@dataclass(frozen=True)
class Sample:
    """Objects in the middle of the rest."""

    event_id: UUID
    """Of an event that fired a rule whose action is dead."""
    action_id: UUID
    letter_id: int
    consumer: str
    position: int
    at: str
    error_group: str


def fill_console(target: Target, conn: Connection, *, events: int, letters: int) -> None:
    """Topic `bench` with its events, 24 small topics, ten consumers each, dead letters of both kinds, keys of a correlator, results."""
    _define(conn)
    with Kit(target) as kit:
        for number in range(100):
            kit.publish("bench", "order.placed", {"total": number * 10}, key=f"customer-{number}")
        kit.run_until_idle_sync(_application())
    parameters = {"letters": letters, "keys": KEYS}
    for done in range(0, events, CHUNK):
        _append(conn, "bench", min(CHUNK, events - done))
        print(f"{min(done + CHUNK, events):,} of {events:,} events", flush=True)
    for number in range(TOPICS):
        _append(conn, f"topic{number}", 2_000)
    for statement in (DEAD_ACTIONS, DEAD_EVENTS, INSTANCES, RESULTS):
        conn.execute(statement, parameters)
    # All behind, each elsewhere.
    conn.execute("update headrace_internal.cursor set position = position + (consumer_id * 37 + partition * 11) % 1500")
    conn.execute("vacuum analyze")


def _append(conn: Connection, topic: str, events: int) -> None:
    row = conn.execute(
        "select t.topic_id, coalesce(h.position, 0) from headrace.topic t left join headrace.log_head(t.topic_id) h on true where t.topic = %s",
        (topic,),
    ).fetchone()
    assert row is not None
    conn.execute(LOG, {"topic_id": row[0], "after": row[1], "events": events})


def _define(conn: Connection) -> None:
    for number in range(TOPICS):
        conn.execute("select headrace_internal.attach_log(headrace.create_topic(%s, %s))", (f"topic{number}", PARTITIONS))
    for topic in ("bench", *(f"topic{number}" for number in range(TOPICS))):
        for number in range(CONSUMERS):
            conn.execute("select headrace.create_consumer(%s, %s)", (topic, f"consumer{number}"))
    for rule, action in (("large", "REVIEW"), ("charge", "CHARGE")):
        create_rule(
            conn,
            Rule(name=rule, topic="bench", event_type="order.placed", action=action, condition="(object ->> 'total')::int > 300"),
        )
    output = {"late": ActionOutput(action="REMIND")}
    create_correlator(conn, Correlator(name="unpaid", topic="bench", pattern=PATTERN, key="key", outputs=output))
    create_relay(conn, Relay(name="crm", topic="bench", target="webhook", options={"url": "https://crm.example/hook"}))
    create_hook(conn, "github", "topic0", "github", ["env:GITHUB"])
    with conn.transaction():
        for number in range(RELAYS):
            relay = Relay(
                name=f"relay{number}",
                topic=f"topic{number % TOPICS}",
                target="webhook",
                options={"url": "https://crm.example/hook"},
            )
            create_relay(conn, relay)
        for number in range(DOORS):
            create_hook(conn, f"hook{number}", f"topic{number % TOPICS}", "github", ["env:GITHUB"])
            create_access_token(conn, f"token{number}", ["publish"], topics=[f"topic{number % TOPICS}"])
    create_schedule(conn, "nightly", cron="30 2 * * *", topic="bench", type="report.due", zone="Europe/Berlin")


def _application() -> Headrace:
    app = Headrace()

    @app.handler("REVIEW")
    def review(action: Action, tx: Connection) -> None:
        """Succeeds."""

    @app.handler("CHARGE")
    def charge(action: Action, tx: Connection) -> None:
        raise Bury(ERROR.format(1, action.key))

    return app


def read_sample(conn: Connection) -> Sample:
    row = conn.execute(
        """select f.event_id, f.action_id, (select max(msg_id) / 2 from pgmq.q_hrd_default),
               (select h.position / 2 from headrace.log_head(f.topic_id) h),
               (select headrace_internal.error_group(message ->> 'error') from pgmq.q_hrd_default order by msg_id desc limit 1 offset 5)
           from headrace.firing f where f.action = 'CHARGE' order by f.firing_id desc limit 1"""
    ).fetchone()
    assert row is not None
    event_id, action_id, letter_id, position, _ = row
    [group] = conn.execute(
        "select error_group from headrace.count_dead_letters() where kind = 'event' order by dead desc limit 1"
    ).fetchone() or [""]
    row = conn.execute(
        "select to_char(appended_at, 'YYYY-MM-DD\"T\"HH24:MI:SSOF') from headrace.log where position = %s and topic_id = headrace.topic_id('bench')",
        (position,),
    ).fetchone()
    assert row is not None
    return Sample(event_id, action_id, letter_id, "bench/consumer0", position, row[0], group)
