"""match by whole columns finds what it finds in place, and what Python finds."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from headrace.lang.condition import jsonb_text
from headrace.spark import match
from tests.spark.frames.test_match import SAMPLES, SCHEMA, expected, frame, hits, moment, rule

MATCHING = import_module("headrace.spark.frames.matching")
WAYS = {"in place": 10**9, "columns": 1}
"""How many rules are matched by whole columns: none of these, or any."""


@pytest.fixture(params=WAYS)
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MATCHING, "COLUMNS_MIN", WAYS[request.param])


def test_rules_of_every_shape_find_what_python_finds(spark: Any) -> None:
    """Enough rules for whole columns, and for the lookup of what they need."""
    days = [f"2026-01-{n % 28 + 1:02}" for n in range(20)]
    rules = [
        *(rule(f"a{n}", f"object ->> 'color' in ('red', '{'xyz'[n % 3]}') and (object -> 'n')::int <> {n}") for n in range(20)),
        *(rule(f"b{n}", f"(object -> 'n')::int = {n} and object ->> 'color' like '{'rbg'[n % 3]}%'") for n in range(20)),
        *(rule(f"c{n}", f"object ->> 'at' like '{days[n][: 5 + n % 6]}%'") for n in range(20)),
        *(rule(f"d{n}", f"(object ->> 'half')::numeric between {n - 0.5} and {n + 3}") for n in range(20)),
        *(rule(f"e{n}", f"(object ->> 'at')::timestamptz >= {moment(n + 1)} and key = '{n}'") for n in range(20)),
        *(rule(f"g{n}", f"object ->> 'at' between '{days[n]}' and '2026-01-29'") for n in range(20)),
        *(rule(f"h{n}", f"(object -> 'n')::int in ({n}, {n * 2}, {n + 7})") for n in range(20)),
        *(rule(f"i{n}", f"(object ->> 'half')::numeric <= {n / 3:.4f}") for n in range(20)),
        *(rule(f"j{n}", f"(object ->> 'half')::numeric = {n}") for n in range(20)),
        rule("f", "emitted_at > timestamptz '1969-01-01T00:00:00Z' and headers ->> 'x' is null"),
    ]
    matches = expected(rules, SAMPLES)
    assert {name[0] for name, _ in matches} == set("abcdefghij")
    assert hits(match(frame(spark, SAMPLES), rules)) == matches


def test_hit_carries_rule_and_event(spark: Any, either_way: None) -> None:
    (row,) = match(frame(spark, SAMPLES), [rule("big", "(object -> 'n')::int > 38", version=7, action="tell")]).collect()
    assert (row.rule, row.version, row.action) == ("big", 7, "tell")
    assert (row.topic, row.offset, row.event_id, row.type, row.key) == ("orders", 40, "e40", "placed", "39")
    assert (row.payload, row.timestamp is not None) == (jsonb_text(SAMPLES[39].payload), True)


def test_topic_and_first_position_of_a_rule_count(spark: Any, either_way: None) -> None:
    rules = [rule("here", "true", topic="orders", since_offset=39), rule("elsewhere", "true", topic="returns")]
    assert hits(match(frame(spark, SAMPLES), rules)) == {("here", at) for at in (39, 40, 42, 43, 44)}


def test_payload_that_is_no_json_is_unknown_and_changes_no_other(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a frame may come from anywhere; together these texts would be other events."""
    monkeypatch.setattr(MATCHING, "COLUMNS_MIN", 1)
    texts = ['{"n": 1}', '{"n":', "3}", None, '{"n": 5}, {"n": 6}', "", '{"n": 7}']
    rows = [("k", "placed", text, "orders", 0, at, None, f"e{at}", "{}", "main") for at, text in enumerate(texts)]
    rules = [rule("some", "(object -> 'n')::int > 0"), rule("none", "object ->> 'n' is null")]
    matches = hits(match(spark.createDataFrame(rows, SCHEMA), rules))
    assert matches == {*(("some", at) for at in (0, 6)), *(("none", at) for at in range(1, 6))}


def test_stream_by_whole_columns_finds_what_a_batch_finds(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MATCHING, "COLUMNS_MIN", 1)
    rules = [rule("red", "object ->> 'color' = 'red'"), rule("three", "(object -> 'n')::int = 3")]
    batch = frame(spark, SAMPLES)
    batch.repartition(3).write.parquet(str(tmp_path / "events"))
    stream = spark.readStream.schema(batch.schema).option("maxFilesPerTrigger", 2).parquet(str(tmp_path / "events"))
    query = match(stream, rules).writeStream.format("memory").queryName("matched_by_columns").trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    assert hits(spark.table("matched_by_columns")) == expected(rules, SAMPLES)
