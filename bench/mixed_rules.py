"""Rules of mixed shapes (equalities, lists, ranges, prefixes): 1 000 and 100 000 against 100, on every engine.

`database`: the rules' consumer, from the log to firings, actions and cursor; its 100 000 rules have a benchmark of their own, `growth
--case rules`, because it takes minutes to write them. `Python`: one batch by whole columns in this process, as the tasks of a backtest and
of a pipeline evaluate rules. `Spark`: `match` over a frame."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from bench.growth_data import write_rules
from bench.lab import Lab, settle, surroundings
from bench.result import Figure, Round, Side, ratio, report
from bench.spark import cpu_s, folder, run_through, spark_session, timed
from bench.spark_match import EVENTS, mixture
from bench.spark_scan import _batch
from headrace.db import Connection, StopSignal, Subscription, connect, create_pool
from headrace.evaluate.classification import Classifier
from headrace.log.topics import sequence
from headrace.rules import RuleEngine, WatchedTopic
from headrace.spark import match

FEW, THOUSAND, MANY = 100, 1_000, 100_000
THOUSAND_TARGET, MANY_TARGET = 0.5, 0.1
PUBLISH = """
insert into headrace_internal.outbox_0 (topic_id, type, payload)
select t.topic_id, 'car.new', jsonb_build_object('note', repeat('x', 60), 'brand', 'Koenigsegg',
    'color', (array['silver', 'red', 'black'])[1 + n %% 3], 'model', 'm' || 1 + floor(random() * 1000)::int,
    'price', floor(random() * 2000000)::int, 'horsepower', floor(random() * 1000)::int)
from headrace.topic t, generate_series(1, %(events)s::int) n where t.topic = 'bench'"""


@dataclass(frozen=True)
class Plan:
    events: int
    batch: int
    rows: int
    rounds: int
    many: int


FULL = Plan(events=20_000, batch=65_536, rows=1_000_000, rounds=3, many=MANY)
QUICK = Plan(events=5_000, batch=8_192, rows=100_000, rounds=1, many=10_000)


def run(lab: Lab, *, quick: bool) -> None:
    plan = QUICK if quick else FULL
    conditions = surroundings(lab)
    engines = {
        "database": asyncio.run(_in_database(lab, plan)),
        "Python": _in_python(plan),
        "Spark": _on_spark(plan),
    }
    figures: list[Figure] = []
    for engine, sides in engines.items():
        figures.append(ratio(f"{engine}, {THOUSAND:,} : {FEW} rules", sides[THOUSAND], sides[FEW], THOUSAND_TARGET))
        if plan.many in sides:
            figures.append(ratio(f"{engine}, {plan.many:,} : {FEW} rules", sides[plan.many], sides[FEW], MANY_TARGET))
    raw = {f"{engine}, {count} rules": side for engine, sides in engines.items() for count, side in sides.items()}
    report("mixed_rules", conditions, figures, dict(raw))


async def _in_database(lab: Lab, plan: Plan) -> dict[int, Side]:
    sides = {count: Side(f"{count} rules", []) for count in (FEW, THOUSAND)}
    async with AsyncExitStack() as stack:
        engines = {count: await stack.enter_async_context(_rule_engine(lab, count)) for count in sides}
        for number in range(plan.rounds + 1):
            for count, (conn, engine, watched) in list(engines.items())[:: 1 if number % 2 else -1]:
                round_ = await _fire(lab, conn, engine, watched, plan.events)
                if number:  # The first round warms caches and plans.
                    sides[count].rounds.append(round_)
    return sides


@asynccontextmanager
async def _rule_engine(lab: Lab, rules: int) -> AsyncIterator[tuple[Connection, RuleEngine, WatchedTopic]]:
    with lab.database(f"mixed_{rules}", partitions=1) as target, connect(target) as conn:
        conn.execute("update headrace_internal.namespace set unknown_names = 'allow'")
        write_rules(conn, "bench", rules)
        async with create_pool(target, size=1) as pool:
            engine = RuleEngine(pool, Subscription("headrace_rule"), Subscription("headrace_log"), StopSignal())
            while await engine.compile_once():
                pass
            (watched,) = await engine.watched()
            yield conn, engine, watched


async def _fire(lab: Lab, conn: Connection, engine: RuleEngine, watched: WatchedTopic, events: int) -> Round:
    conn.execute(PUBLISH, {"events": events})
    while sequence(conn):
        pass
    settle(conn)
    start, cpu = time.perf_counter(), lab.cpu_s()
    while await engine.fire_once(watched):
        pass
    return Round(events / (time.perf_counter() - start), 1e6 * (lab.cpu_s() - cpu) / events)


def _in_python(plan: Plan) -> dict[int, Side]:
    batch = _batch(plan.batch)
    classifiers = {count: Classifier(mixture(count), []) for count in (FEW, THOUSAND, plan.many)}
    sides = {count: Side(f"{count} rules", []) for count in classifiers}
    for number in range(plan.rounds + 1):
        for count, classifier in classifiers.items():
            start, cpu = time.perf_counter(), cpu_s()
            assert sum(rows.size for _, rows in classifier.classify(batch).firings())
            seconds = time.perf_counter() - start
            if number:  # The first round fills the caches of clauses.
                sides[count].rounds.append(Round(plan.batch / seconds, 1e6 * (cpu_s() - cpu) / plan.batch))
    return sides


def _on_spark(plan: Plan) -> dict[int, Side]:
    with spark_session() as spark, folder() as place:
        path = str(place / "events")
        spark.sql(EVENTS.format(rows=plan.rows)).write.parquet(path)
        events = spark.read.parquet(path)
        frames = {count: match(events, mixture(count)) for count in (FEW, THOUSAND, plan.many)}
        sides = {count: Side(f"{count} rules", []) for count in frames}
        for number in range(plan.rounds + 1):
            for count, frame in frames.items():
                round_ = timed(plan.rows, lambda frame=frame: run_through(frame))  # type: ignore[misc]
                if number:  # The first round warms Java up.
                    sides[count].rounds.append(round_)
    return sides
