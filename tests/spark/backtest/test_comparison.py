"""A scan classifies and steps as every other engine: the ECL corpus through the two kinds of task, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa
import pytest

from headrace.evaluate.classification import make_groups
from headrace.lang.condition import Sample, moment_of, sample_rows
from headrace.lang.ecl import Case, outputs_by_event
from headrace.spark import CorrelatorSpec, RuleSpec
from headrace.spark.backtest.comparison import COMPARED_SCHEMA, Definitions, _classify, _count, _step
from headrace.spark.frames.classified_events import LIVE, make_chunk, make_chunks
from tests.spark.frames.test_corpus import CASES, register_cases

PARTITIONS = 3


def as_batch(samples: Sequence[Sample], times: Sequence[int]) -> pa.RecordBatch:
    _, type_, key, headers, payload, emitted_at = zip(*sample_rows(samples), strict=True)
    moment = pa.timestamp("us", tz="UTC")
    columns = {
        "type": pa.array(type_, pa.string()),
        "key": pa.array(key, pa.string()),
        "headers": pa.array(headers, pa.string()),
        "payload": pa.array(payload, pa.string()),
        "timestamp": pa.array(emitted_at, moment),
        "offset": pa.array(np.arange(len(samples))),
        "appended_at": pa.array([moment_of(time) for time in times], moment),
    }
    return pa.RecordBatch.from_pydict(columns)


def scan_here(
    batches: Sequence[pa.RecordBatch], definitions: Definitions, firings: dict[int, list[int]] | None = None,
    live: pa.Table | None = None,
) -> list[dict[str, object]]:  # fmt: skip
    """What the tasks of a scan would give, in the order of the log per key."""
    lives = {number: np.array((firings or {}).get(number, ()), np.int64) for number in range(len(definitions.rules))}
    chunks = list(_classify(batches, definitions, lives, 0, PARTITIONS))
    chunks += list(make_chunks(LIVE, live, PARTITIONS)) if live is not None else []
    outputs: list[dict[str, object]] = []
    for partition in range(PARTITIONS):
        # Spark fetches chunks in any order.
        own = [chunk for chunk in reversed(chunks) if chunk.column("partition")[0].as_py() == partition]
        outputs += pa.Table.from_batches(list(_step(own, definitions)), COMPARED_SCHEMA).to_pylist()
    return outputs


def observed(case: Case) -> tuple[tuple[object, ...], ...]:
    spec = CorrelatorSpec(name="case", pattern=case.pattern)
    times = [event.time for event in case.events]
    batch = as_batch([cast(Sample, event.subject) for event in case.events], times)
    half = len(times) // 2
    # PostgreSQL reads a range in any order.
    mixed = batch.take(pa.array(np.random.default_rng(len(times)).permutation(len(times))))
    rows = scan_here([mixed.slice(0, half), mixed.slice(half)], Definitions((), (spec,), times[-1]))
    order = sorted(rows, key=lambda row: (row["time"], -1 if row["position"] is None else row["position"]))
    places = [
        (row["position"], int(cast("np.datetime64", np.datetime64(row["time"].replace(tzinfo=None), "us")).astype(int)))
        for row in order
    ]  # type: ignore[attr-defined]
    return outputs_by_event(case.events, [(at, time, str(row["token"])) for (at, time), row in zip(places, order, strict=True)])[
        :-1
    ]  # type: ignore[arg-type]


def test_scan_gives_the_answers_of_the_corpus() -> None:
    cases = [*CASES[::3], *register_cases(range(40))]
    assert [case.name for case in cases if observed(case) != case.outputs] == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_scan_and_interpreter_agree_on_ten_thousand_patterns_that_keep_values() -> None:
    assert [case.name for case in register_cases(range(1_000, 11_600)) if observed(case) != case.outputs] == []


def test_correlators_of_one_key_share_a_group_while_their_symbols_fit_into_one_number() -> None:
    wide = "push(x) {accumulate {" + ", ".join(f"<(object -> 'f{n}')::int > 0>" for n in range(8)) + "}}"
    specs = [CorrelatorSpec(name=f"c{n}", pattern=wide, key="key") for n in range(9)]
    specs.append(CorrelatorSpec(name="other", pattern="push(x) {a}", key="type"))
    groups = make_groups(specs)
    assert sorted(number for group in groups for number in group.numbers) == list(range(10))
    assert [len(group.numbers) for group in groups] == [7, 2, 1]
    assert all(np.prod([float(radix) for radix in group.radices]) < 2**62 for group in groups)


def test_firings_and_outputs_are_compared_with_the_live_ones() -> None:
    samples = [Sample({"n": n}, "a", f"k{n % 2}") for n in range(8)]
    definitions = Definitions(
        (RuleSpec(name="large", event_type="a", action="x", condition="(object -> 'n')::int >= 5"),),
        (CorrelatorSpec(name="pairs", pattern="repeat {push(pair) {sequential {a, a}}}", key="key"),),
        8_000_000,
    )
    seconds = [n * 1_000_000 for n in range(8)]
    moments = [moment_of(time) for time in seconds]
    live = pa.table(
        {
            "name": ["pairs", "pairs"],
            "token": ["pair", "pair"],
            "key": ["k0", "k1"],
            "position": pa.array([2, 4], pa.int64()),
            "time": pa.array([moments[2], moments[4]], pa.timestamp("us", tz="UTC")),
            "event_id": pa.nulls(2, pa.string()),
            "evidence": pa.array([[0, 2], [4]], pa.list_(pa.int64())),
            "evidence_total": pa.array([2, 1], pa.int64()),
        }
    )
    rows = scan_here([as_batch(samples, seconds)], definitions, {0: [1, 6]}, live)
    found = {(row["name"], row["key"], row["position"]): (row["would"], row["live"]) for row in rows}
    assert found == {
        ("large", "k1", 1): (0, 1),
        ("large", "k1", 5): (1, 0),
        ("large", "k0", 6): (1, 1),
        ("large", "k1", 7): (1, 0),
        ("pairs", "k0", 2): (1, 1),
        ("pairs", "k1", 3): (1, 0),
        ("pairs", "k1", 4): (0, 1),
        ("pairs", "k0", 6): (1, 0),
        ("pairs", "k1", 7): (1, 0),
    }
    assert {tuple(row["evidence"]) for row in rows if row["name"] == "pairs"} >= {(0, 2), (1, 3), (4, 6), (5, 7)}  # type: ignore[arg-type]


def test_chunk_keeps_its_rows() -> None:
    rows = pa.table({"key": ["a", "b"], "offset": pa.array([7, 9], pa.int64())})
    chunk = make_chunk(1, 0, rows)
    assert (chunk.column("first")[0].as_py(), chunk.num_rows) == (7, 1)


def test_counts_are_those_of_the_outputs_by_day_token_and_side() -> None:
    day = 86_400_000_000
    rows = [("rule", "r", None, 0, 1, 0), ("rule", "r", None, day - 1, 1, 0), ("rule", "r", None, day, 1, 0),
        ("correlator", "c", "x", day, 1, 1), ("correlator", "c", "x", day + 5, 0, 1), ("correlator", "c", "y", day, 1, 1)]  # fmt: skip
    names = ("kind", "name", "token", "time", "would", "live")
    outputs = [
        {**dict(zip(names, row, strict=True)), "key": "k", "position": 1, "evidence": [1], "evidence_total": 1, "outputs": 1}
        for row in rows
    ]
    batches = pa.Table.from_pylist(outputs, COMPARED_SCHEMA).to_batches(max_chunksize=4)
    counted = pa.Table.from_batches(list(_count(batches)), COMPARED_SCHEMA)
    times = counted["time"].cast(pa.int64()).to_pylist()
    found = [
        (row["kind"], row["token"], time // day, row["would"], row["live"], row["outputs"])
        for row, time in zip(counted.to_pylist(), times, strict=True)
    ]
    assert sorted(found, key=str) == [
        ("correlator", "x", 1, 0, 1, 1),
        ("correlator", "x", 1, 1, 1, 1),
        ("correlator", "y", 1, 1, 1, 1),
        ("rule", None, 0, 1, 0, 2),
        ("rule", None, 1, 1, 0, 1),
    ]
    assert list(_count([])) == []
