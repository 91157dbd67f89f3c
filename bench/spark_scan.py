"""One read, many answers: 100 rules and 10 correlators over the log in a backtest, against the read of the same events alone.

Three rounds over two million events, then one over ten million. Also rules by themselves: 100, 1 000 and 100 000 of mixed shapes over
the same batch in one process, as the tasks of a backtest and of a pipeline evaluate them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bench.lab import Lab, surroundings
from bench.result import Round, Side, ratio, report
from bench.spark import cpu_s, folder, run_through, spark_session, timed
from bench.spark_match import mixture
from headrace.correlators import Correlator
from headrace.db import Connection, Target, connect
from headrace.spark.backtest import BacktestSubject, backtest
from headrace.spark.correlate import correlator_specs

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

TARGET, THOUSAND_TARGET, MANY_TARGET = 0.5, 0.5, 0.1
FILL = """
insert into headrace_internal.log (position, appended_at, emitted_at, topic_id, partition, event_id, type, key, payload, headers)
select n, '2026-01-01T00:00:00Z'::timestamptz + n * interval '10 ms', '2026-01-01T00:00:00Z'::timestamptz + n * interval '10 ms',
    t.topic_id, 0, gen_random_uuid(), (array['car.new', 'car.new', 'car.sold', 'car.returned'])[1 + floor(random() * 4)::int],
    'dealer-' || floor(random() * 100000)::int,
    jsonb_build_object('note', repeat('x', 60), 'brand', 'Koenigsegg', 'color', (array['silver', 'red', 'black'])[1 + n %% 3],
        'model', 'm' || 1 + floor(random() * 1000)::int, 'price', n %% 2000000, 'horsepower', floor(random() * 1000)::int), '{}'
from headrace.topic t, generate_series(%(first)s::int, %(last)s::int) n where t.topic = 'bench'"""
FILL_STEP = 250_000
PATTERNS = (
    ("key", "repeat {push(x) {do {sequential {car.new, car.sold, car.new}} unless {car.returned}}}"),
    ("key", "repeat {push(x) {sequential {car.returned, car.returned, car.returned}}}"),
    ("key", "repeat {push(x) {loop(10) {car.sold}}}"),
    ("key", "repeat {push(x) {accumulate {car.new, car.sold, car.returned}}}"),
    ("key", "repeat {push(x) {sequential {car.sold and <(object -> 'horsepower')::int > 900>, car.returned}}}"),
    ("key", "in (car.returned) do {repeat {push(x) {loop(3) {car.sold}}}} in (car.sold) do {push(y) {loop(5) {car.new}}}"),
    ("key", "repeat {push(x) {sequential {car.new, next car.returned}}}"),
    ("object ->> 'model'", "repeat {push(x) {loop(100) {car.sold}}}"),
    ("object ->> 'model'", "repeat {push(x) {do {loop(20) {car.new}} unless {car.returned and <object ->> 'color' = 'red'>}}}"),
    (None, "repeat {push(x) {sequential {car.returned and <(object -> 'price')::bigint > 1999000>, car.sold}}}"),
)


@dataclass(frozen=True)
class Plan:
    events: int
    rounds: int
    events_once: int


FULL = Plan(events=2_000_000, rounds=3, events_once=10_000_000)
QUICK = Plan(events=200_000, rounds=1, events_once=0)


def run(lab: Lab, *, quick: bool) -> None:
    plan = QUICK if quick else FULL
    conditions = surroundings(lab)
    sides = {name: Side(name, []) for name in ("backtest", "read", "one process", "backtest once", "read once")}
    with lab.database("spark_scan", partitions=1) as target, connect(target) as conn, folder() as place, spark_session() as spark:
        secret = place / "address"
        secret.write_text(target.dsn)
        secret.chmod(0o600)
        _fill(conn, 1, plan.events)
        for number in range(plan.rounds + 1):
            measured = _measure(spark, target, str(secret), plan.events)
            if number:  # The first round warms Java and the workers.
                sides["backtest"].rounds.append(measured[0])
                sides["read"].rounds.append(measured[1])
                sides["one process"].rounds.append(timed(plan.events, lambda: _one_process(str(secret), plan.events)))
        if plan.events_once:
            _fill(conn, plan.events + 1, plan.events_once)
            once = _measure(spark, target, str(secret), plan.events_once)
            sides["backtest once"].rounds.append(once[0])
            sides["read once"].rounds.append(once[1])
    name = "100 rules and 10 correlators : the read alone"
    figures = [ratio(f"{name}, {plan.events:,} events", sides["backtest"], sides["read"], TARGET)]
    if plan.events_once:
        figures.append(ratio(f"{name}, {plan.events_once:,} events, once", sides["backtest once"], sides["read once"], TARGET))
    figures.append(ratio(f"Spark : one process, {plan.events:,} events", sides["backtest"], sides["one process"], 1.0))
    rules = _rules_alone(plan)
    figures += [
        ratio("mixed rules by whole columns, 1 000 : 100", rules[1_000], rules[100], THOUSAND_TARGET),
        ratio("mixed rules by whole columns, 100 000 : 100", rules[100_000], rules[100], MANY_TARGET),
    ]
    used = {name: side for name, side in sides.items() if side.rounds}
    report("spark_scan", conditions, figures, {**used, **{f"{count} rules": side for count, side in rules.items()}})


def _subjects() -> list[BacktestSubject]:
    correlators = [
        Correlator(name=f"c{number}", topic="bench", key=key, pattern=pattern) for number, (key, pattern) in enumerate(PATTERNS)
    ]
    return [
        *(BacktestSubject("bench", rule, live=False) for rule in mixture(100)),
        *(BacktestSubject("bench", spec, live=False) for spec in correlator_specs(correlators)),
    ]


def _measure(spark: SparkSession, target: Target, secret: str, events: int) -> tuple[Round, Round]:
    def look_back() -> None:
        result = backtest(spark, [target], _subjects(), samples=0, keys=0)
        assert result.events == events and sum(item.would for item in result.results) > 0

    whole = spark.read.format("headrace").options(secret=secret, subscribe="bench", minPartitions="2").load()
    return timed(events, look_back), timed(events, lambda: run_through(whole))


def _one_process(secret: str, events: int) -> None:
    """The same work without Spark: the two kinds of task, one after the other."""
    from headrace.spark.scan import Definitions
    from headrace.spark.scan.scanning import _classify, _step
    from headrace.spark.schema import event_schema
    from headrace.spark.source import SourceOptions, plan_splits, read_split

    specs = [subject.spec for subject in _subjects()]
    definitions = Definitions(tuple(specs[:100]), tuple(specs[100:]), 2**60)  # type: ignore[arg-type]
    columns = definitions.columns
    options = SourceOptions.of({"secret": secret, "subscribe": "bench", "columns": ",".join(columns)})
    no_firings = {number: np.array([], np.int64) for number in range(100)}
    chunks = [
        chunk
        for split in plan_splits(options)
        for chunk in _classify(read_split(options, event_schema(columns), split), definitions, no_firings, 0, 1)
    ]
    assert sum(batch.num_rows for batch in _step(chunks, definitions)) > events // 1000


def _fill(conn: Connection, first: int, last: int) -> None:
    for start in range(first, last + 1, FILL_STEP):
        conn.execute(FILL, {"first": start, "last": min(start + FILL_STEP - 1, last)})
    conn.execute("vacuum analyze headrace_internal.log")
    conn.execute("checkpoint")


def _rules_alone(plan: Plan) -> dict[int, Side]:
    """Classification of one batch of events by rules alone, without reading and without Spark."""
    from headrace.spark.scan.classification import Classifier

    batch = _batch(16_384)
    sides: dict[int, Side] = {}
    for count in (100, 1_000, 100_000):
        classifier = Classifier(mixture(count), [])
        sides[count] = Side(f"{count} rules", [])
        for number in range(plan.rounds + 1):
            start, cpu = time.perf_counter(), cpu_s()
            fired = sum(rows.size for _, rows in classifier.classify(batch).firings())
            seconds = time.perf_counter() - start
            assert fired
            if number:
                sides[count].rounds.append(Round(batch.num_rows / seconds, 1e6 * (cpu_s() - cpu) / batch.num_rows))
    return sides


def _batch(rows: int) -> pa.RecordBatch:
    import json
    import random

    import pyarrow as pa

    chance = random.Random(1)
    payloads = [
        json.dumps(
            {
                "note": "x" * 60,
                "brand": "Koenigsegg",
                "color": chance.choice(["silver", "red", "black"]),
                "model": f"m{chance.randint(1, 1000)}",
                "price": chance.randint(1, 2_000_000),
                "horsepower": chance.randint(0, 999),
            }
        )
        for _ in range(rows)
    ]
    columns = {"type": pa.array(["car.new"] * rows), "payload": pa.array(payloads), "offset": pa.array(range(rows), pa.int64())}
    return pa.RecordBatch.from_pydict(columns)
