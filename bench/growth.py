"""How the cost of an event grows: the same work in a small and in a large installation, side by side.

Topics, idle topics, consumers and a long log: a real node consumes a steady stream of events, and the CPU of server and node is
divided by the deliveries. Rules and open keys: CPU of the engine alone, which would drown in the rest. The sides take turns."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from bench.child import child
from bench.lab import Lab, surroundings
from bench.result import Figure, Round, Side, report
from bench.spark_match import mixture
from headrace.correlators import ActionOutput, Correlator, CorrelatorEngine, create_correlator
from headrace.db import Connection, Subscription, Target, connect, create_pool
from headrace.log import create_topic, sequence
from headrace.rules import RuleEngine

GROWTH_MAX = 1.5
RULES_MIN = 0.3
PER_S = 1000
STEP_S = 0.02

PUBLISH = """
select count(headrace.publish('t' || n %% %(topics)s, 'car.new', jsonb_build_object('horsepower', n %% 1000, 'model', 'm' || n %% 977,
    'brand', 'b' || n %% 50, 'price', n %% 5000, 'color', 'silver'), (n %% 1000)::text))
from generate_series(%(first)s::int, %(last)s::int) n"""
# As the sequencer writes them, but without the outbox: a hundred million events would take hours.
FILL_LOG = """
insert into headrace_internal.log (topic_id, position, event_id, partition, type, key, payload, headers, emitted_at, appended_at)
select %(topic_id)s, n, gen_random_uuid(), 0, 'car.new', (n %% 1000)::text, '{"horsepower": 1, "model": "m1"}', '{}', now(), now()
from generate_series(%(first)s::bigint, %(last)s::bigint) n"""
KEYS = """
select count(headrace.publish('t0', %(type)s, '{}', n::text)) from generate_series(%(first)s::int, %(last)s::int) n"""


@dataclass(frozen=True)
class Plan:
    rounds: int
    seconds: float
    topics: int
    idle_topics: int
    consumers: int
    log_rows: int
    rules: int
    keys: int


FULL = Plan(
    rounds=3, seconds=6, topics=100, idle_topics=1000, consumers=100, log_rows=100_000_000, rules=100_000, keys=10_000_000
)
QUICK = Plan(rounds=1, seconds=1, topics=10, idle_topics=50, consumers=10, log_rows=100_000, rules=1000, keys=20_000)


@dataclass(frozen=True)
class Size:
    """An installation: topics with traffic, each with consumers, topics without traffic, and rows already in the first log."""

    topics: int = 1
    consumers: int = 1
    idle_topics: int = 0
    log_rows: int = 0


def run(lab: Lab, *, quick: bool) -> None:
    plan = QUICK if quick else FULL
    # A smaller machine may measure smaller installations; the figure's name says how large they were.
    plan = Plan(**{name: int(os.environ.get(f"BENCH_{name.upper()}", value)) for name, value in vars(plan).items()})
    facts = surroundings(lab)
    figures: list[Figure] = []
    raw: dict[str, object] = {}
    sizes = {
        f"{plan.topics} topics with traffic : 1": Size(topics=plan.topics),
        f"{plan.idle_topics:,} idle topics : none": Size(idle_topics=plan.idle_topics),
        f"{plan.consumers} consumers of a topic : 1, per delivery": Size(consumers=plan.consumers),
        f"log of {plan.log_rows:,} rows : empty": Size(log_rows=plan.log_rows),
    }
    for name, size in sizes.items():
        small, large = Side("small", []), Side("large", [])
        with _installation(lab, "small", Size()) as one, _installation(lab, "large", size) as other:
            for _ in range(plan.rounds):
                small.rounds.append(_deliver(lab, one, Size(), plan.seconds))
                large.rounds.append(_deliver(lab, other, size, plan.seconds))
        figures.append(_growth(name, small, large))
        raw[name] = {"small": small, "large": large}
    engines = {
        f"{plan.rules:,} rules of mixed shapes : 100": (100, plan.rules, _match),
        f"{plan.keys:,} open keys of a correlator : 10 000": (10_000, plan.keys, _correlate),
    }
    for name, (few, many, measure) in engines.items():
        small, large = (asyncio.run(_engine(lab, number, plan.rounds, measure)) for number in (few, many))
        if measure is _match:
            detail = f"{large.rate:,.0f}/s : {small.rate:,.0f}/s, CPU {large.cpu_us:.0f} : {small.cpu_us:.0f} µs an event"
            figures.append(Figure(f"rate, {name}", small.cpu_us / large.cpu_us, RULES_MIN, detail=detail))
        else:
            figures.append(_growth(name, small, large))
        raw[name] = {"small": small, "large": large}
    report("growth", facts, figures, raw)


def _growth(name: str, small: Side, large: Side) -> Figure:
    detail = f"CPU {large.cpu_us:.0f} : {small.cpu_us:.0f} µs an event"
    return Figure(f"cost, {name}", large.cpu_us / small.cpu_us, GROWTH_MAX, at_most=True, detail=detail)


@contextmanager
def _installation(lab: Lab, name: str, size: Size) -> Iterator[Target]:
    with lab.database(f"growth_{name}", partitions=1) as target:
        with connect(target) as conn:
            for number in range(size.topics):
                create_topic(conn, f"t{number}", partitions=1)
            for number in range(size.idle_topics):
                create_topic(conn, f"idle{number}", partitions=1)
            _fill_log(conn, size.log_rows)
        yield target


def _fill_log(conn: Connection, rows: int) -> None:
    for first in range(1, rows + 1, 1_000_000):
        last = min(first + 999_999, rows)
        conn.execute(FILL_LOG, {"topic_id": _value(conn, "select headrace.topic_id('t0')"), "first": first, "last": last})
    if rows:
        conn.execute("vacuum analyze headrace_internal.log")


def _deliver(lab: Lab, target: Target, size: Size, seconds: float) -> Round:
    """A steady stream, from publish to the last consumer's commit."""
    events = int(seconds * PER_S / size.consumers) // size.topics * size.topics
    at_once = max(int(PER_S * STEP_S / size.consumers), 1)
    with child("bench.growth_node", target.dsn, str(size.topics), str(size.consumers)) as node, connect(target) as conn:
        _wait(lambda: _value(conn, "select count(*) from headrace.consumer") >= size.topics * size.consumers)
        handled = node.ask()["handled"]
        started, cpu = time.perf_counter(), lab.cpu_s([node.pid])
        for step, first in enumerate(range(0, events, at_once)):
            while time.perf_counter() < started + step * STEP_S:
                time.sleep(STEP_S / 8)
            conn.execute(PUBLISH, {"first": first, "last": min(first + at_once, events) - 1, "topics": size.topics})
        deliveries = events * size.consumers
        _wait(lambda: node.ask()["handled"] - handled >= deliveries)
        used, lasted = lab.cpu_s([node.pid]) - cpu, time.perf_counter() - started
    return Round(deliveries / lasted, 1e6 * used / deliveries)


Measure = Callable[[Lab, Connection, Target, int, int], Awaitable[Side]]


async def _engine(lab: Lab, number: int, rounds: int, measure: Measure) -> Side:
    with lab.database("growth_engine", partitions=1) as target, connect(target) as conn:
        create_topic(conn, "t0", partitions=1)
        conn.execute("update headrace_internal.namespace set unknown_names = 'allow'")
        return await measure(lab, conn, target, number, rounds)


async def _match(lab: Lab, conn: Connection, target: Target, rules: int, rounds: int) -> Side:
    specs = [(spec.name, spec.event_type, spec.condition) for spec in mixture(rules)]
    conn.cursor().executemany(
        "insert into headrace.rule (rule, topic, event_type, condition, action) values (%s, 't0', %s, %s, 'NOTIFY')", specs
    )
    side, events = Side(f"{rules} rules", []), 2000
    pool = create_pool(target, size=1)
    await pool.open()
    engine = RuleEngine(pool, Subscription("headrace_rule"), Subscription("headrace_log"), asyncio.Event())
    while await engine.compile_once():
        pass
    (watched,) = await engine.watched()
    for number in range(rounds + 1):
        conn.execute(PUBLISH, {"first": number * events, "last": number * events + events - 1, "topics": 1})
        while sequence(conn):
            pass
        started, cpu = time.perf_counter(), lab.cpu_s()
        while await engine.fire_once(watched):
            pass
        if number:  # The first round warms caches and plans.
            side.rounds.append(Round(events / (time.perf_counter() - started), 1e6 * (lab.cpu_s() - cpu) / events))
    await pool.close()
    return side


async def _correlate(lab: Lab, conn: Connection, target: Target, keys: int, rounds: int) -> Side:
    pattern = "repeat {push(alarm) {sequential {opened, closed}}}"
    create_correlator(
        conn, Correlator(name="pairs", topic="t0", key="key", pattern=pattern, outputs={"alarm": ActionOutput(action="ALARM")})
    )
    side, events = Side(f"{keys} keys", []), 10_000
    pool = create_pool(target, size=1)
    await pool.open()
    engine = CorrelatorEngine(pool, Subscription("headrace_rule"), Subscription("headrace_log"), asyncio.Event())
    await engine.compile_once()
    (watched,) = await engine.watched()

    async def step(type_: str, first: int, last: int) -> None:
        conn.execute(KEYS, {"type": type_, "first": first, "last": last})
        while sequence(conn):
            pass
        while await engine.step_once(watched):
            pass

    for first in range(0, keys, 200_000):
        await step("opened", first, min(first + 200_000, keys) - 1)
    conn.execute("vacuum analyze")
    for number in range(rounds + 1):
        first = keys // (rounds + 2) * number
        started, cpu = time.perf_counter(), lab.cpu_s()
        await step("opened", first, first + min(events, keys // (rounds + 2)) - 1)
        if number:
            done = min(events, keys // (rounds + 2))
            side.rounds.append(Round(done / (time.perf_counter() - started), 1e6 * (lab.cpu_s() - cpu) / done))
    await pool.close()
    return side


def _wait(condition: Callable[[], bool], timeout_s: float = 600) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not reached within {timeout_s:.0f} s")
        time.sleep(0.02)


def _value(conn: Connection, text: str) -> int:
    row = conn.execute(text).fetchone()  # type: ignore[arg-type]
    assert row is not None
    return int(row[0])
