"""How the cost of an event grows: the same work in a small and in a large installation, side by side.

Topics, idle topics, consumers and a long log: a real node consumes a steady stream of events, and the CPU of server and node is
divided by the deliveries. Rules and open keys: CPU of the engine alone, which would drown in the rest. The sides take turns.

Every case is written to results/growth_<case>.json as soon as it is measured. The large data sets take longer to build than to measure:
`--folder F --build-s 60` builds for a minute and goes on at the next call; the run with `--folder F` then only measures."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial

from bench.child import child
from bench.growth_data import fill_keys, fill_log, write_rules
from bench.lab import Lab, settle, surroundings
from bench.result import Figure, Round, Side, report
from headrace.correlators import ActionOutput, Correlator, CorrelatorEngine, create_correlator
from headrace.db import Connection, StopSignal, Subscription, Target, connect, create_pool
from headrace.log.topics import create_topic, sequence
from headrace.rules import RuleEngine

GROWTH_MAX = 1.5
RULES_MIN = 0.3
RULES_FEW, KEYS_FEW = 100, 10_000
PER_S = 1000
STEP_S = 0.02
MORE_TO_DO = 75
"""Exit code of a build that ran out of time."""

PUBLISH = """
select count(headrace.publish('t' || n %% %(topics)s, 'car.new', jsonb_build_object('horsepower', n %% 1000, 'model', 'm' || n %% 977,
    'brand', 'b' || n %% 50, 'price', n %% 5000, 'color', 'silver'), (n %% 1000)::text))
from generate_series(%(first)s::int, %(last)s::int) n"""
# Each key is closed, which pushes an action, and opened again: both change its state. With `unmoved`, it is opened twice, which
# changes nothing: the state is only read.
KEYS = """
select count(headrace.publish('t0', case when i <= %(half)s and not %(unmoved)s then 'closed' else 'opened' end, '{}',
    (((i - 1) %% %(half)s * 7919::bigint + %(start)s) %% %(keys)s)::text)) from generate_series(1, 2 * %(half)s) i"""


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


def run(lab: Lab, *, quick: bool, cases: list[str] | None = None, keep: bool = False, build_s: float | None = None) -> None:
    plan = QUICK if quick else FULL
    # A smaller machine may measure smaller installations; the figure's name says how large they were.
    plan = Plan(**{name: int(os.environ.get(f"BENCH_{name.upper()}", value)) for name, value in vars(plan).items()})
    sizes = {
        "topics": (f"{plan.topics} topics with traffic : 1", Size(topics=plan.topics)),
        "idle": (f"{plan.idle_topics:,} idle topics : none", Size(idle_topics=plan.idle_topics)),
        "consumers": (f"{plan.consumers} consumers of a topic : 1, per delivery", Size(consumers=plan.consumers)),
        "log": (f"log of {plan.log_rows:,} rows : empty", Size(log_rows=plan.log_rows)),
    }
    facts = surroundings(lab)
    for case in cases or [*sizes, "rules", "keys", "unmoved"]:
        if case in sizes:
            name, size = sizes[case]
            small, large = _installations(lab, plan, case, size, keep=keep, build_s=build_s)
            figure = _growth(name, small, large)
        elif case == "rules":
            name = f"{plan.rules:,} rules of mixed shapes : {RULES_FEW}"
            small, large = asyncio.run(_engines(lab, case, RULES_FEW, plan.rules, plan.rounds, keep=keep, build_s=build_s))
            detail = f"{large.rate:,.0f}/s : {small.rate:,.0f}/s, CPU {large.cpu_us:.0f} : {small.cpu_us:.0f} µs an event"
            figure = Figure(f"rate, {name}", small.cpu_us / large.cpu_us, RULES_MIN, detail=detail)
        else:
            name = f"{plan.keys:,} open keys of a correlator : {KEYS_FEW:,}" + (
                ", events that change no state" if case == "unmoved" else ""
            )
            small, large = asyncio.run(_engines(lab, case, KEYS_FEW, plan.keys, plan.rounds, keep=keep, build_s=build_s))
            figure = _growth(name, small, large)
        report(f"growth_{case}", facts, [figure], {"small": small, "large": large})


def _growth(name: str, small: Side, large: Side) -> Figure:
    detail = f"CPU {large.cpu_us:.0f} : {small.cpu_us:.0f} µs an event, {large.rate:,.0f}/s : {small.rate:,.0f}/s"
    return Figure(f"cost, {name}", large.cpu_us / small.cpu_us, GROWTH_MAX, at_most=True, detail=detail)


def _installations(lab: Lab, plan: Plan, case: str, size: Size, *, keep: bool, build_s: float | None) -> tuple[Side, Side]:
    small, large = Side("small", []), Side("large", [])
    with ExitStack() as stack:
        one = stack.enter_context(_installation(lab, "small", Size(), keep=keep, build_s=build_s))
        other = stack.enter_context(_installation(lab, case, size, keep=keep, build_s=build_s))
        _stop_after_build(build_s)
        for _ in range(plan.rounds):
            small.rounds.append(_deliver(lab, one, Size(), plan.seconds))
            large.rounds.append(_deliver(lab, other, size, plan.seconds))
    return small, large


@contextmanager
def _installation(lab: Lab, name: str, size: Size, *, keep: bool, build_s: float | None) -> Iterator[Target]:
    with lab.database(f"growth_{name}", partitions=1, keep=keep) as target:
        with connect(target) as conn:
            topics = [f"t{number}" for number in range(size.topics)] + [f"idle{number}" for number in range(size.idle_topics)]
            existing = {topic for (topic,) in conn.execute("select topic from headrace.topic").fetchall()}
            for topic in topics:
                if topic not in existing:
                    create_topic(conn, topic, partitions=1)
            _check_built(fill_log(conn, "t0", size.log_rows, seconds=build_s or float("inf")))
        yield target


def _check_built(is_built: bool) -> None:
    if not is_built:
        print("the data is not complete yet")
        raise SystemExit(MORE_TO_DO)


def _stop_after_build(build_s: float | None) -> None:
    if build_s is not None:
        print("the data is complete")
        raise SystemExit(0)


def _deliver(lab: Lab, target: Target, size: Size, seconds: float) -> Round:
    """A steady stream, from publish to the last consumer's commit."""
    events = int(seconds * PER_S / size.consumers) // size.topics * size.topics
    at_once = max(int(PER_S * STEP_S / size.consumers), 1)
    with child("bench.growth_node", target.dsn, str(size.topics), str(size.consumers)) as node, connect(target) as conn:
        _wait(lambda: _value(conn, "select count(*) from headrace.consumer") >= size.topics * size.consumers)
        settle(conn)
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


@dataclass(frozen=True)
class Engine:
    """An engine on its own database, and one round of it: the events that it has handled."""

    side: Side
    prepare: Callable[[int], int]
    """Publishes the events of a round; returns how many."""
    handle: Callable[[], object]
    """Handles some events; its result is false when there are none left."""


async def _engines(
    lab: Lab, case: str, few: int, many: int, rounds: int, *, keep: bool, build_s: float | None
) -> tuple[Side, Side]:
    open_engine = _rule_engine if case == "rules" else partial(_correlator_engine, unmoved=case == "unmoved")
    data = "keys" if case == "unmoved" else case
    async with AsyncExitStack() as stack:
        engines = []
        for number in (few, many):
            target = stack.enter_context(lab.database(f"growth_{data}_{number}", partitions=1, keep=keep))
            conn = stack.enter_context(connect(target))
            engines.append(await stack.enter_async_context(open_engine(conn, target, number, build_s or float("inf"))))
        _stop_after_build(build_s)
        for number in range(rounds + 1):
            for engine in engines:
                round_ = await _handle_round(lab, engine, number)
                if number:  # The first round warms caches and plans.
                    engine.side.rounds.append(round_)
        return engines[0].side, engines[1].side


async def _handle_round(lab: Lab, engine: Engine, number: int) -> Round:
    events = engine.prepare(number)
    started, cpu, own = time.perf_counter(), lab.cpu_s(), time.process_time()
    while await engine.handle():  # type: ignore[misc]
        pass
    used = lab.cpu_s() - cpu + time.process_time() - own
    return Round(events / (time.perf_counter() - started), 1e6 * used / events)


def _create_topic(conn: Connection) -> bool:
    """Creates the topic of an engine's database; False if it is there already."""
    if _value(conn, "select count(*) from headrace.topic where topic = 't0'"):
        return False
    create_topic(conn, "t0", partitions=1)
    conn.execute("update headrace_internal.namespace set unknown_names = 'allow'")
    return True


@asynccontextmanager
async def _rule_engine(conn: Connection, target: Target, rules: int, build_s: float) -> AsyncIterator[Engine]:
    _create_topic(conn)
    deadline = time.monotonic() + build_s
    _check_built(write_rules(conn, "t0", rules, seconds=build_s))
    pool = create_pool(target, size=1)
    await pool.open()
    engine = RuleEngine(pool, Subscription("headrace_rule"), Subscription("headrace_log"), StopSignal())
    while await engine.compile_once():
        _check_built(time.monotonic() < deadline)
    (watched,) = await engine.watched()

    def prepare(number: int, events: int = 2000) -> int:
        conn.execute(PUBLISH, {"first": number * events, "last": number * events + events - 1, "topics": 1})
        while sequence(conn):
            pass
        settle(conn)
        return events

    try:
        yield Engine(Side(f"{rules} rules", []), prepare, lambda: engine.fire_once(watched))
    finally:
        await pool.close()


@asynccontextmanager
async def _correlator_engine(
    conn: Connection, target: Target, keys: int, build_s: float, *, unmoved: bool = False
) -> AsyncIterator[Engine]:
    if _create_topic(conn):
        pattern = "repeat {push(alarm) {sequential {opened, closed}}}"
        alarm = {"alarm": ActionOutput(action="ALARM")}
        create_correlator(conn, Correlator(name="pairs", topic="t0", key="key", pattern=pattern, outputs=alarm))
    pool = create_pool(target, size=1)
    await pool.open()
    engine = CorrelatorEngine(pool, Subscription("headrace_rule"), Subscription("headrace_log"), StopSignal())
    await engine.compile_once()
    (watched,) = await engine.watched()

    def prepare(number: int, events: int = 10_000) -> int:
        """Events of keys all over the table."""
        conn.execute(KEYS, {"keys": keys, "half": events // 2, "start": number * 104_729, "unmoved": unmoved})
        while sequence(conn):
            pass
        settle(conn)
        return events

    try:
        conn.execute("select headrace.publish('t0', 'opened', '{}', '0')")
        while sequence(conn):
            pass
        while await engine.step_once(watched):
            pass
        _check_built(fill_keys(conn, keys, seconds=build_s))
        yield Engine(Side(f"{keys} keys", []), prepare, lambda: engine.step_once(watched))
    finally:
        await pool.close()


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
