"""One read, many answers: 100 rules and 10 correlators over the log in a backtest, against the read of the same events alone.

Three rounds over ten million events. Also rules by themselves: 100, 1 000 and 100 000 of mixed shapes over
the same batch in one process, as the tasks of a backtest and of a pipeline evaluate them."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.lab import Lab, surroundings
from bench.result import Round, Side, ratio, report
from bench.spark import cpu_s, folder, run_through, spark_session, timed
from bench.spark_match import mixture
from headrace.correlators import Correlator
from headrace.db import Target, connect
from headrace.spark.backtest import BacktestSubject, backtest
from headrace.spark.frames import correlator_specs

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

TARGET, THOUSAND_TARGET, MANY_TARGET = 0.5, 0.5, 0.1
FILL = """
insert into headrace_internal.log (position, appended_at, emitted_at, topic_id, partition, event_id, type, key, payload, headers)
select n, date_trunc('month', now()) + n * interval '10 ms', date_trunc('month', now()) + n * interval '10 ms',
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
    warm_events: int
    """Events of the round that warms Java and the workers."""
    rounds: int


FULL = Plan(events=10_000_000, warm_events=500_000, rounds=3)
QUICK = Plan(events=200_000, warm_events=50_000, rounds=1)


def run(lab: Lab, *, quick: bool) -> None:
    plan = QUICK if quick else FULL
    conditions = surroundings(lab)
    sides = {name: Side(name, []) for name in ("backtest", "read")}
    with lab.database("spark_scan", partitions=1) as target, folder() as place, spark_session() as spark:
        secret = place / "address"
        secret.write_text(target.dsn)
        secret.chmod(0o600)
        _fill(target, 1, plan.warm_events)
        _measure(spark, target, str(secret), plan.warm_events)
        _fill(target, plan.warm_events + 1, plan.events)
        for _ in range(plan.rounds):
            for side, measured in zip(sides.values(), _measure(spark, target, str(secret), plan.events), strict=True):
                side.rounds.append(measured)
    name = f"100 rules and 10 correlators : the read alone, {plan.events:,} events"
    rules = _rules_alone(plan)
    figures = [
        ratio(name, sides["backtest"], sides["read"], TARGET),
        ratio("mixed rules by whole columns, 1 000 : 100", rules[1_000], rules[100], THOUSAND_TARGET),
        ratio("mixed rules by whole columns, 100 000 : 100", rules[100_000], rules[100], MANY_TARGET),
    ]
    report("spark_scan", conditions, figures, {**sides, **{f"{count} rules": side for count, side in rules.items()}})


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


def _fill(target: Target, first: int, last: int) -> None:
    """By two connections at once."""

    def fill(start: int) -> None:
        with connect(target) as conn:
            conn.execute(FILL, {"first": start, "last": min(start + FILL_STEP - 1, last)})

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(fill, range(first, last + 1, FILL_STEP)))
    with connect(target) as conn:
        conn.execute("vacuum analyze headrace_internal.log")
        conn.execute("checkpoint")


def _rules_alone(plan: Plan) -> dict[int, Side]:
    """Classification of one batch of events by rules alone, without reading and without Spark."""
    from headrace.evaluate.classification import Classifier

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
