"""match over a frame by whole columns: many rules in the tasks that have the rows, without a join."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.evaluate import Classifier, RuleSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_AT_ONCE = 32_768
"""Rows that are classified together: what a rule costs per batch is shared by more events."""


def match_by_columns(
    df: DataFrame, rules: tuple[RuleSpec, ...], event_columns: Sequence[str], needed: Sequence[str]
) -> DataFrame:
    """One row per event and rule that fires on it: rule, version, action, and these columns of the event. `needed` are those that the
    conditions read."""
    from pyspark.sql import types

    head = [("rule", types.StringType()), ("version", types.IntegerType()), ("action", types.StringType())]
    fields = [types.StructField(name, type_) for name, type_ in head] + [df.schema[name] for name in event_columns]

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in _regroup(batches):
            yield from _hits(batch, rules, event_columns)

    selected = df.select(*dict.fromkeys([*event_columns, *needed]))
    return selected.mapInArrow(run, types.StructType(fields))


def _regroup(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in larger batches."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= ROWS_AT_ONCE:
            yield _join(waiting)
            waiting = []
    if waiting:
        yield _join(waiting)


def _join(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    (joined,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined


def _hits(batch: pa.RecordBatch, rules: tuple[RuleSpec, ...], event_columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    numbers: list[np.ndarray] = []
    rows: list[np.ndarray] = []
    for number, own in _classifier(rules).classify(batch).firings():
        topic = rules[number].topic
        if topic is not None:
            own = own[pc.equal(batch.column("topic").take(pa.array(own)), topic).to_numpy(zero_copy_only=False)]
        numbers.append(np.full(own.size, number))
        rows.append(own)
    if not rows:
        return
    rule = pa.array(np.concatenate(numbers))
    events = batch.select(list(event_columns)).take(pa.array(np.concatenate(rows)))
    columns = [
        pa.array([spec.name for spec in rules], pa.string()).take(rule),
        pa.array([spec.version for spec in rules], pa.int32()).take(rule),
        pa.array([spec.action for spec in rules], pa.string()).take(rule),
        *events.columns,
    ]
    yield pa.RecordBatch.from_arrays(columns, names=["rule", "version", "action", *event_columns])


@lru_cache(maxsize=8)
def _classifier(rules: tuple[RuleSpec, ...]) -> Classifier:
    # A worker has many tasks, and to parse a thousand conditions takes longer than many of them.
    return Classifier(rules, [], is_log=False)
