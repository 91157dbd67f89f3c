"""correlate on Spark: keyed batch against a bare repartition + sort of the same rows, a stream without key in chunks against one
sorted task, and the step of a micro-batch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from bench.lab import Lab, surroundings
from bench.result import Figure, Round, Side, ratio, report
from bench.spark import folder, run_through, spark_session, timed
from headrace.evaluate.rows import STATE_SCHEMA
from headrace.spark import CorrelatorSpec, correlate, take_micro_batch
from headrace.spark.frames.correlation_tasks import step_frame
from headrace.spark.frames.evaluation import present_outputs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PATTERN = "repeat{push(x){do{sequential{a,b,a}}unless{c}}}"
KEYS = 100_000
KEYED_TARGET, CHUNKS_TARGET, STREAM_TARGET = 0.8, 4.0, 250_000.0
EVENTS = """
select concat('k', cast(floor(rand(1) * {keys}) as int)) as key,
    element_at(array('a', 'b', 'c'), 1 + cast(floor(rand(2) * 3) as int)) as type, concat('{{"amount": ', id, '}}') as payload,
    'bench' as topic, 0 as partition, id as offset, timestamp_micros(id * 100) as timestamp, uuid() as event_id,
    '{{}}' as headers, 'main' as shard, timestamp_micros(id * 100) as appended_at
from range(1, {rows} + 1, 1, 8)"""


@dataclass(frozen=True)
class Plan:
    rows: int
    rounds: int
    batch: int


FULL = Plan(rows=4_000_000, rounds=3, batch=250_000)
QUICK = Plan(rows=200_000, rounds=1, batch=50_000)


def run(lab: Lab, *, quick: bool) -> None:
    plan = QUICK if quick else FULL
    names = ("keyed", "bare repartition + sort", "chunks", "one sorted task", "micro-batches")
    sides = {name: Side(name, []) for name in names}
    with spark_session() as spark, folder() as place:
        events = _events(spark, place, plan)
        work = {
            "keyed": lambda: run_through(correlate(events, _spec("key"))),
            "bare repartition + sort": lambda: run_through(_sorted(events)),
            "chunks": lambda: run_through(correlate(events, _spec(None))),
            "one sorted task": lambda: run_through(_one_task(events)),
        }
        assert correlate(events, _spec(None)).count() == _one_task(events).count(), "chunks and one task do not push the same"
        for number in range(plan.rounds + 1):
            measured = {name: timed(plan.rows, function) for name, function in work.items()}
            measured["micro-batches"] = _streamed(events, plan)
            if number:  # The first round warms Java and the compiled loops up.
                for name, round_ in measured.items():
                    sides[name].rounds.append(round_)
    report("spark_correlate", surroundings(lab), _figures(sides), dict(sides))


def _figures(sides: dict[str, Side]) -> list[Figure]:
    stream = sides["micro-batches"]
    return [
        ratio(f"{KEYS:,} keys : bare repartition + sort", sides["keyed"], sides["bare repartition + sort"], KEYED_TARGET),
        ratio("without key, in chunks : one sorted task", sides["chunks"], sides["one sorted task"], CHUNKS_TARGET),
        Figure("micro-batches, events/s", stream.rate, STREAM_TARGET, unit="/s", detail=f"CPU {stream.cpu_us:.1f} µs"),
    ]


def _spec(key: str | None) -> CorrelatorSpec:
    return CorrelatorSpec(name="bench", pattern=PATTERN, key=key)


def _events(spark: SparkSession, place: Path, plan: Plan) -> DataFrame:
    path = str(place / "events")
    spark.sql(EVENTS.format(rows=plan.rows, keys=KEYS)).write.parquet(path)
    return spark.read.parquet(path)


def _sorted(events: DataFrame) -> DataFrame:
    """The same rows, with the columns that a correlator needs, and nothing else done."""
    needed = events.select("key", "type", "offset", "appended_at", "event_id")
    return needed.repartition("key").sortWithinPartitions("key", "offset")


def _one_task(events: DataFrame) -> DataFrame:
    specs = [_spec(None)]
    return present_outputs(step_frame(events, specs, [None]), specs)


def _streamed(events: DataFrame, plan: Plan) -> Round:
    """Micro-batches one after another, with the states of all keys in a table as a store would have them."""
    batches = [events.where(f"offset > {start} and offset <= {start + plan.batch}") for start in range(0, plan.rows, plan.batch)]

    def work() -> None:
        store = STATE_SCHEMA.empty_table()
        for frame in batches:
            batch = take_micro_batch(frame, _spec("key"))
            result = batch.step(store.filter(pc.is_in(store["key"], pa.array(batch.keys))))
            others = store.filter(pc.invert(pc.is_in(store["key"], result.states["key"].combine_chunks())))
            store = pa.concat_tables([others, result.states])

    return timed(plan.rows, work)
