"""correlate against what a user would write: applyInPandas, mapInPandas over sorted rows, window functions, and polars in one process.

Two patterns over the same Parquet files, a hundred events per key. `bursts`: three a without a c between them, which window functions
and polars can say as well. `steps`: a, then b, then a, unless c comes first; this needs a loop over the rows. Every way must find the
same outputs. All write to a sink that discards rows; polars collects its result, which is smaller."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.lab import Lab, surroundings
from bench.result import Figure, Side, ratio, report
from bench.spark import folder, run_through, spark_session, timed
from bench.spark_correlate import EVENTS
from headrace.spark import CorrelatorSpec, correlate

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from pyspark.sql import DataFrame, SparkSession

APPLY_TARGET, MAP_TARGET = 3.0, 1.2
EVENTS_PER_KEY = 100
PATTERNS = {
    "bursts": "repeat {push(x) {do {loop(3) {a}} unless {c}}}",
    "steps": "repeat {push(x) {do {sequential {a, b, a}} unless {c}}}",
}
OUTPUT = "key string, `offset` long"
Step = Callable[[int, str], int]
"""The state after an event; 3 is an output."""


@dataclass(frozen=True)
class Plan:
    sizes: tuple[int, ...]
    apply_max: int
    """applyInPandas only up to this size: it takes a millisecond per key."""
    rounds: int


FULL = Plan(sizes=(300_000, 1_000_000, 5_000_000), apply_max=300_000, rounds=3)
QUICK = Plan(sizes=(50_000,), apply_max=50_000, rounds=1)


def step_bursts(state: int, type_: str) -> int:
    return state + 1 if type_ == "a" else 0 if type_ == "c" else state


def step_steps(state: int, type_: str) -> int:
    if type_ == "c":
        return 0
    return state + 1 if type_ == "aba"[state] else state


STEPS: dict[str, Step] = {"bursts": step_bursts, "steps": step_steps}


def run(lab: Lab, *, quick: bool) -> None:
    plan = QUICK if quick else FULL
    conditions = surroundings(lab)
    figures: list[Figure] = []
    sides: dict[str, Side] = {}
    with spark_session() as spark, folder() as place:
        for size in plan.sizes:
            path = place / str(size)
            # As the archive writes them: Spark's own default is an outdated type of time.
            spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
            spark.sql(EVENTS.format(rows=size, keys=size // EVENTS_PER_KEY)).write.parquet(str(path))
            for pattern in PATTERNS:
                measured = _measure(_ways(spark, path, pattern, with_apply=size <= plan.apply_max), size, plan.rounds)
                label = f"{pattern}, {size:,} events"
                figures += _figures(label, measured)
                sides |= {f"{label}: {name}": side for name, side in measured.items()}
    report("spark_compared", conditions, figures, {**sides, "patterns": PATTERNS})


def _figures(label: str, sides: dict[str, Side]) -> list[Figure]:
    targets = {"applyInPandas": APPLY_TARGET, "mapInPandas": MAP_TARGET, "window functions": 1.0, "polars": 1.0}
    return [
        ratio(f"{label}: correlate : {name}", sides["correlate"], sides[name], target)
        for name, target in targets.items()
        if name in sides
    ]


def _measure(ways: dict[str, tuple[Callable[[], object], Callable[[], set[object]]]], size: int, rounds: int) -> dict[str, Side]:
    expected = ways["correlate"][1]()
    assert expected, "the pattern has no output"
    for name, (_, outputs) in ways.items():
        assert outputs() == expected, f"{name} finds other outputs"
    sides = {name: Side(name, []) for name in ways}
    for _ in range(rounds):
        for name, (work, _) in ways.items():
            sides[name].rounds.append(timed(size, work))
    return sides


def _ways(
    spark: SparkSession, path: Path, pattern: str, *, with_apply: bool
) -> dict[str, tuple[Callable[[], object], Callable[[], set[object]]]]:
    """Per way: the work that is timed, and its outputs."""
    events = spark.read.parquet(str(path))
    spec = CorrelatorSpec(name="bench", pattern=PATTERNS[pattern], key="key")
    frames: dict[str, Callable[[], DataFrame]] = {
        "correlate": lambda: correlate(events, spec),
        "mapInPandas": lambda: map_in_pandas(events, STEPS[pattern]),
    }
    if with_apply:
        frames["applyInPandas"] = lambda: apply_in_pandas(events, STEPS[pattern])
    if pattern == "bursts":
        frames["window functions"] = lambda: window_functions(events)
    ways: dict[str, tuple[Callable[[], object], Callable[[], set[object]]]] = {}
    for name, frame in frames.items():
        ways[name] = (lambda frame=frame: run_through(frame())), (lambda frame=frame: _outputs(frame()))  # type: ignore[misc]
    if pattern == "bursts":
        ways["polars"] = (lambda: polars_bursts(path)), (lambda: set(polars_bursts(path).rows()))
    return ways


def _outputs(frame: DataFrame) -> set[object]:
    return {(row.key, row.offset) for row in frame.select("key", "offset").collect()}


def apply_in_pandas(events: DataFrame, step: Step) -> DataFrame:
    """One pandas frame per key."""

    def outputs(rows: pd.DataFrame) -> pd.DataFrame:
        rows = rows.sort_values("offset")
        state, hits = 0, []
        for offset, type_ in zip(rows["offset"].tolist(), rows["type"].tolist(), strict=True):
            state = step(state, type_)
            if state == 3:
                hits.append(offset)
                state = 0
        return rows[rows["offset"].isin(hits)][["key", "offset"]]

    return events.select("key", "type", "offset").groupBy("key").applyInPandas(outputs, OUTPUT)


def map_in_pandas(events: DataFrame, step: Step) -> DataFrame:
    """A loop over the rows of a partition, sorted by key and offset."""

    def outputs(batches: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        import pandas as pd

        current, state = None, 0
        for batch in batches:
            hits = []
            for key, type_, offset in zip(*(batch[name].tolist() for name in ("key", "type", "offset")), strict=True):
                if key != current:
                    current, state = key, 0
                state = step(state, type_)
                if state == 3:
                    hits.append((key, offset))
                    state = 0
            yield pd.DataFrame(hits, columns=["key", "offset"])

    rows = events.select("key", "type", "offset").repartition("key").sortWithinPartitions("key", "offset")
    return rows.mapInPandas(outputs, OUTPUT)


def window_functions(events: DataFrame) -> DataFrame:
    """Bursts: every third a since the last c."""
    since_c = events.selectExpr(
        "key", "type", "`offset`", "sum(int(type = 'c')) over (partition by key order by `offset`) as resets"
    )
    numbered = since_c.where("type = 'a'").selectExpr(
        "key", "`offset`", "row_number() over (partition by key, resets order by `offset`) as number"
    )
    return numbered.where("number % 3 = 0").select("key", "offset")


def polars_bursts(path: Path) -> pl.DataFrame:
    """The same in one process, with all its cores."""
    import polars as pl

    events = pl.scan_parquet(path / "*.parquet").select("key", "type", "offset").sort("offset")
    since_c = events.with_columns(resets=(pl.col("type") == "c").cast(pl.Int64).cum_sum().over("key"))
    numbered = since_c.filter(pl.col("type") == "a").with_columns(number=pl.int_range(1, pl.len() + 1).over("key", "resets"))
    return numbered.filter(pl.col("number") % 3 == 0).select("key", "offset").collect()
