"""Rules against the classic trigger with one EXECUTE per rule and event, at 10 to 10 000 rules of a comparison and an equality.

Ours is timed from the log to the queue (`rules`), and from the outbox to the queue, sequencing included (`from publish`); the
classic trigger from its insert to its action. Half of the events fire one rule. Both must fire the same rules."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from bench.classic import create_classic
from bench.lab import Lab, settle, surroundings
from bench.result import Figure, Round, Side, ratio, report
from headrace.db import Connection, StopSignal, Subscription, Target, connect, create_pool
from headrace.log.topics import sequence
from headrace.rules import RuleEngine, WatchedTopic

RULES = (10, 100, 1_000, 10_000)
TARGETS = {100: 50.0, 1_000: 300.0}
GROWTH_MAX = 3.0

WRITE_RULES = """
insert into headrace.rule (rule, topic, event_type, condition, action)
select 'r' || n, 'bench', 'car.new', format('(object -> ''horsepower'')::int > %%s and object ->> ''model'' = ''m%%s''',
    n * 7919 %% 1000, n), 'notify'
from generate_series(1, %(rules)s) n"""
PUBLISH = """
insert into headrace_internal.outbox_0 (topic_id, type, payload)
select t.topic_id, 'car.new', jsonb_build_object('horsepower', floor(random() * 1000)::int,
    'model', 'm' || 1 + floor(random() * %(rules)s)::int, 'brand', 'Koenigsegg', 'price', n, 'color', 'silver',
    'note', repeat('x', 60))
from headrace.topic t, generate_series(1, %(events)s::int) n where t.topic = 'bench'"""
CLASSIC_INSERT = """
insert into public.classic_event (event_id, type, payload)
select l.event_id, l.type, l.payload from headrace.log l
where l.position between %(first)s::bigint and %(last)s::bigint order by l.position"""
DIFFERENCES = """
select count(*) from (
    select a.event_id, a.rule from public.classic_action a
) a full join (
    select h.event_id, h.rule from headrace.event_history h where h.event_id in (select e.event_id from public.classic_event e)
) h on h.event_id = a.event_id and h.rule = a.rule
where a.rule is null or h.rule is null"""


@dataclass(frozen=True)
class Plan:
    rounds: int
    events: int
    classic_evaluations: int
    """Rule evaluations of one classic round: with as many events as this number of evaluations takes."""


FULL = Plan(rounds=5, events=20_000, classic_evaluations=40_000)
QUICK = Plan(rounds=2, events=5_000, classic_evaluations=10_000)


@dataclass(frozen=True)
class Sides:
    rules: Side
    from_publish: Side
    classic: Side


def run(lab: Lab, *, quick: bool) -> None:
    plan = QUICK if quick else FULL
    facts = surroundings(lab)
    sides: dict[int, Sides] = {}
    for rules in RULES:
        with lab.database(f"rules_{rules}", partitions=1) as target:
            sides[rules] = asyncio.run(_measure(lab, target, rules, plan))
    report("rules", facts, _figures(sides), {str(rules): vars(side) for rules, side in sides.items()})


def _figures(sides: dict[int, Sides]) -> list[Figure]:
    figures = [
        ratio(f"{what} : EXECUTE per rule, {rules:,} rules", ours, side.classic, target)
        for rules, side in sides.items()
        # The log has benchmarks of its own; here its time is included for readers who want the total.
        for what, ours, target in (("rules", side.rules, TARGETS.get(rules, 1.0)), ("from publish", side.from_publish, 1.0))
    ]
    few, many = sides[1_000].rules, sides[10_000].rules
    detail = f"CPU {few.cpu_us:.1f} µs at 1 000, {many.cpu_us:.1f} µs at 10 000"
    figures.append(
        Figure("cost of an event, 10 000 : 1 000 rules", many.cpu_us / few.cpu_us, GROWTH_MAX, at_most=True, detail=detail)
    )
    return figures


async def _measure(lab: Lab, target: Target, rules: int, plan: Plan) -> Sides:
    sides = Sides(Side("rules", []), Side("from publish", []), Side("EXECUTE per rule", []))
    own = create_pool(target, size=1)
    await own.open()
    reactor = RuleEngine(own, Subscription("headrace_rule"), Subscription("headrace_log"), StopSignal())
    with connect(target) as conn:
        conn.execute("update headrace_internal.namespace set unknown_names = 'allow'")
        conn.execute(WRITE_RULES, {"rules": rules})
        while await reactor.compile_once():
            pass
        create_classic(conn)
        (watched,) = await reactor.watched()
        classic_events = max(4, plan.classic_evaluations // rules)
        for number in range(plan.rounds + 1):
            first = number * plan.events + 1
            reacted, whole = await _ours(lab, conn, reactor, watched, rules, plan.events)
            classic = _classic(lab, conn, first, first + min(classic_events, plan.events) - 1)
            if number:  # The first round warms caches and plans.
                sides.rules.rounds.append(reacted)
                sides.from_publish.rounds.append(whole)
                sides.classic.rounds.append(classic)
        assert conn.execute(DIFFERENCES).fetchone() == (0,), "the two sides do not find the same"
    await own.close()
    return sides


async def _ours(
    lab: Lab, conn: Connection, reactor: RuleEngine, watched: WatchedTopic, rules: int, events: int
) -> tuple[Round, Round]:
    settle(conn)
    start, cpu = time.perf_counter(), lab.cpu_s()
    conn.execute(PUBLISH, {"rules": rules, "events": events})
    while sequence(conn):
        pass
    sequenced, sequenced_cpu = time.perf_counter(), lab.cpu_s()
    while await reactor.fire_once(watched):
        pass
    ended, ended_cpu = time.perf_counter(), lab.cpu_s()
    return (
        Round(events / (ended - sequenced), 1e6 * (ended_cpu - sequenced_cpu) / events),
        Round(events / (ended - start), 1e6 * (ended_cpu - cpu) / events),
    )


def _classic(lab: Lab, conn: Connection, first: int, last: int) -> Round:
    settle(conn)
    events = last - first + 1
    start, cpu = time.perf_counter(), lab.cpu_s()
    conn.execute(CLASSIC_INSERT, {"first": first, "last": last})
    return Round(events / (time.perf_counter() - start), 1e6 * (lab.cpu_s() - cpu) / events)
