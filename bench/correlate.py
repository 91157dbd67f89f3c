"""Correlators: the window aggregate compared with a plain running sum over the same rows, and the consumer as a whole, at 10 000 keys.

`steps`: the compiled table of a pattern run over (partition by key order by position), as headrace_internal.correlate does, on one core.
`running sum`: sum() over the same window of the same rows. `consumer`: from the log to instances, outputs, actions and cursor.

Steps per second of a core are by CPU time (1e6 / µs of CPU a step), so that other work on the machine does not count; the
consumer is by the clock. Both are told either way. What the figures depend on: the keys are numbers of six digits (a long
common prefix makes the sort slower), and the steps run over as many rows as one round has events."""

from __future__ import annotations

import asyncio
import time

from bench.lab import Lab, settle, surroundings
from bench.result import Figure, Round, Side, ratio, report
from headrace.correlators import ActionOutput, Correlator, CorrelatorEngine, WatchedCorrelator, create_correlator
from headrace.db import Connection, StopSignal, Subscription, Target, connect, create_pool
from headrace.log.topics import sequence

KEYS = 10_000
STEPS_MIN = 500_000.0
EVENTS_MIN = 100_000.0
FIRING = (0.005, 0.02)
"""About 1 % of the events complete the pattern."""

PATTERN = """repeat {push(alarm) {do {sequential {login.failed, login.failed, login.failed, transfer}} unless {login.ok}}}"""
PUBLISH = """
insert into headrace_internal.outbox_0 (topic_id, type, key, payload)
select t.topic_id,
    (array['login.failed', 'login.failed', 'login.failed', 'login.ok', 'login.ok', 'login.ok', 'transfer', 'page.view'])
        [1 + floor(random() * 8)::int], (100000 + floor(random() * %(keys)s)::int)::text,
    jsonb_build_object('amount', n, 'browser', 'Netscape', 'note', repeat('x', 60))
from headrace.topic t, generate_series(1, %(events)s::int) n where t.topic = 'bench'"""
ROWS = """
create table public.step as
select e.key collate "C" as key, e.position, e.symbol from headrace_internal.read_symbols({correlator_id}, 0, {events}) e;
create function public.steps(p_correlator_id integer) returns bigint
language plpgsql set max_parallel_workers_per_gather = 0 set work_mem = '256MB' set jit = off as $$
declare
    v_rows integer[] := (select t.rows from headrace.correlator_table t where t.correlator_id = p_correlator_id);
begin
    return (select count(s.cell) from (
        select headrace_internal.run_cells(v_rows, 0, e.symbol) over (partition by e.key order by e.position) as cell
        from public.step e) s);
end $$;
create function public.running_sum() returns bigint
language plpgsql set max_parallel_workers_per_gather = 0 set work_mem = '256MB' set jit = off as $$
begin
    return (select count(s.total) from (
        select sum(e.symbol) over (partition by e.key order by e.position) as total from public.step e) s);
end $$;
vacuum analyze public.step"""


def run(lab: Lab, *, quick: bool) -> None:
    rounds, events = (2, 100_000) if quick else (5, 200_000)
    facts = surroundings(lab)
    with lab.database("correlate", partitions=1) as target:
        steps, sums, consumer, fired = asyncio.run(_measure(lab, target, rounds, events))
    figures = [
        Figure("steps per second of a core", 1e6 / steps.cpu_us, STEPS_MIN, unit="/s", detail=_detail(steps)),
        ratio("window aggregate : running sum", steps, sums, 0.5),
        Figure("consumer as a whole", consumer.rate, EVENTS_MIN, unit="/s", detail=_detail(consumer)),
        Figure("events that complete the pattern", 100 * fired, 100 * FIRING[0], unit="%", detail="about 1 % is wanted"),
    ]
    raw: dict[str, object] = {"steps": steps, "running sum": sums, "consumer": consumer, "pattern": PATTERN, "events": events}
    report("correlate", facts, figures, raw)


def _detail(side: Side) -> str:
    return f"{side.rate:,.0f}/s by the clock, {side.cpu_us:.2f} µs of CPU each = {1e6 / side.cpu_us:,.0f}/s of a core"


async def _measure(lab: Lab, target: Target, rounds: int, events: int) -> tuple[Side, Side, Side, float]:
    steps, sums, consumer = Side("steps", []), Side("running sum", []), Side("consumer", [])
    own = create_pool(target, size=1)
    await own.open()
    correlators = CorrelatorEngine(own, Subscription("headrace_rule"), Subscription("headrace_log"), StopSignal())
    with connect(target) as conn:
        conn.execute("update headrace_internal.namespace set unknown_names = 'allow'")
        alarm = {"alarm": ActionOutput(action="ALARM")}
        create_correlator(conn, Correlator(name="logins", topic="bench", key="key", pattern=PATTERN, outputs=alarm))
        await correlators.compile_once()
        (watched,) = await correlators.watched()
        assert watched.simple
        for number in range(rounds + 1):
            done = await _consume(lab, conn, correlators, watched, events)
            if number:  # The first round warms caches and plans.
                consumer.rounds.append(done)
        fired = correlators.outputs / correlators.events
        assert FIRING[0] <= fired <= FIRING[1], fired
        for statement in (
            ROWS.replace("{correlator_id}", str(watched.correlator_id)).replace("{events}", str(events)).split(";\nvacuum")
        ):
            conn.execute(statement if statement.lstrip().startswith("create") else "vacuum" + statement)  # type: ignore[arg-type]
        for number in range(rounds + 1):
            pair = _steps(lab, conn, watched), _sums(lab, conn)
            if number:
                steps.rounds.append(pair[0])
                sums.rounds.append(pair[1])
    await own.close()
    return steps, sums, consumer, fired


async def _consume(lab: Lab, conn: Connection, correlators: CorrelatorEngine, watched: WatchedCorrelator, events: int) -> Round:
    conn.execute(PUBLISH, {"keys": KEYS, "events": events})
    while sequence(conn):
        pass
    conn.execute("vacuum analyze headrace_internal.log")
    settle(conn)
    start, cpu = time.perf_counter(), lab.cpu_s()
    passed = 0
    while done := await correlators.step_once(watched):
        passed += done.events
    assert passed == events, passed
    return Round(events / (time.perf_counter() - start), 1e6 * (lab.cpu_s() - cpu) / events)


def _timed(lab: Lab, conn: Connection, query: str, *given: int) -> Round:
    start, cpu = time.perf_counter(), lab.cpu_s()
    row = conn.execute(query, given).fetchone()  # type: ignore[arg-type]
    assert row is not None
    return Round(row[0] / (time.perf_counter() - start), 1e6 * (lab.cpu_s() - cpu) / row[0])


def _steps(lab: Lab, conn: Connection, watched: WatchedCorrelator) -> Round:
    return _timed(lab, conn, "select public.steps(%s)", watched.correlator_id)


def _sums(lab: Lab, conn: Connection) -> Round:
    return _timed(lab, conn, "select public.running_sum()")
