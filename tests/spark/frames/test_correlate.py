"""correlate over frames gives what the table's own function gives, event by event, key by key."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace.core import Invalid
from headrace.evaluate.classification import make_groups
from headrace.evaluate.rows import STATE_SCHEMA
from headrace.lang.condition import Extraction, Field, Sample, jsonb_text
from headrace.lang.ecl import Event, PatternError, compile, parse as parse_pattern
from headrace.lang.ecl.engine import evaluate_condition
from headrace.spark import CorrelatorSpec, correlate, take_micro_batch
from tests.evaluate import test_step
from tests.evaluate.test_step import OutputRows, Reference, _order

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SCHEMA = (
    "key string, type string, payload string, topic string, partition int, `offset` bigint, timestamp timestamp,"
    " event_id string, headers string, shard string, appended_at timestamp"
)
SIMPLE = "repeat{push(x){do{accumulate{a, <(object -> 'amount')::int > 5>}}unless{c}}}"
TIMED = "repeat{push(late){do{sequential{a, after 2 s}}unless{b}}}"
WIDE = "parallel{repeat{push(x){sequential{a,b}}}, repeat{push(y){within 3 s {sequential{<object ->> 'account' = 'k1'>, c}}}}}"
TWOS = "repeat{push(x){sequential{a,a}}}"


def made_events(count: int, seed: int = 5) -> list[Event]:
    chance = random.Random(seed)
    events, now = [], 0
    for number in range(count):
        now += chance.choice([0, 200_000, 700_000, 1_500_000])
        account = chance.choice(["k1", "k2", "k3", None]) if number % 11 else 7
        type_ = chance.choice("aaabbcd")
        payload = {"account": account, "amount": chance.randrange(12)}
        events.append(Event(type_, now, Sample(payload, type_, emitted_at=EPOCH + timedelta(microseconds=now))))
    return events


EVENTS = made_events(160)


def frame(spark: Any, events: Sequence[Event], first: int = 0) -> Any:
    rows = []
    for offset, event in enumerate(events, first):
        at = EPOCH + timedelta(microseconds=event.time)
        rows.append((None, event.type, jsonb_text(event.subject.payload), "t", 0, offset, at, f"e{offset}", "{}", "main", at))
    return spark.createDataFrame(rows, SCHEMA)


def spec(pattern: str, key: str | None = "object ->> 'account'") -> CorrelatorSpec:
    return CorrelatorSpec(name="c", pattern=pattern, key=key, evidence_max=3)


def expected(monkeypatch: pytest.MonkeyPatch, pattern: str, *, keyed: bool, until: int | None = None) -> OutputRows:
    monkeypatch.setattr(test_step, "evaluate", evaluate_condition)
    keys = ["" if not keyed else event.subject.payload["account"] for event in EVENTS]
    keyed_events = [(None if key is None else str(key), event) for key, event in zip(keys, EVENTS, strict=True)]
    reference = Reference(compile(parse_pattern(pattern)))
    for offset, (key, event) in enumerate(keyed_events):
        if key is not None:
            reference.take(key, offset, event)
    for key in reference.states:
        if until is not None:
            reference.advance(key, until)
    return sorted(reference.outputs, key=_order)


def output_rows(found: Any) -> OutputRows:
    rows = found.selectExpr(
        "key", "token", "`offset`", "unix_micros(time)", "place", "evidence", "evidence_total", "event_id"
    ).collect()  # fmt: skip
    return sorted((tuple(row) for row in rows), key=_order)


@pytest.mark.parametrize("pattern", [SIMPLE, TIMED, WIDE], ids=["simple", "timed", "wide"])
def test_keys_run_as_the_table_does(spark: Any, monkeypatch: pytest.MonkeyPatch, pattern: str) -> None:
    until = EVENTS[-1].time + 60_000_000
    wanted = expected(monkeypatch, pattern, keyed=True, until=until)
    assert len(wanted) > 5
    assert output_rows(correlate(frame(spark, EVENTS), spec(pattern), until=EPOCH + timedelta(microseconds=until))) == wanted


@pytest.mark.parametrize("pattern", [SIMPLE, TIMED, WIDE], ids=["simple", "timed", "wide"])
def test_micro_batches_give_what_a_batch_gives(spark: Any, monkeypatch: pytest.MonkeyPatch, pattern: str) -> None:
    known: dict[str, dict[str, Any]] = {}
    outputs: OutputRows = []
    for start in range(0, len(EVENTS), 60):
        batch = take_micro_batch(frame(spark, EVENTS[start : start + 60], start), spec(pattern))
        before = STATE_SCHEMA.empty_table().from_pylist([known[key] for key in batch.keys if key in known], STATE_SCHEMA)
        stepped = batch.step(before)
        known |= {row["key"]: row for row in stepped.states.to_pylist()}
        outputs += [tuple(row.values()) for row in stepped.outputs.drop_columns(["captured"]).to_pylist()]
    assert sorted(outputs, key=_order) == expected(monkeypatch, pattern, keyed=True)


def test_micro_batch_has_the_same_events_whether_tasks_or_the_driver_classify(spark: Any) -> None:
    """A key that reads payloads is read by tasks; the other one needs few columns."""
    specs = [spec(TWOS, key=key) for key in ("type", "coalesce(object ->> 'nothing', type)")]
    by_driver, by_tasks = (take_micro_batch(frame(spark, EVENTS), each).events.sort_by("offset") for each in specs)
    assert by_driver.num_rows > 10
    assert by_driver.to_pylist() == by_tasks.to_pylist()


@pytest.mark.parametrize("pattern", [SIMPLE, TWOS], ids=["simple", "twos"])
def test_stream_without_key_is_exact_whatever_its_partitions(spark: Any, monkeypatch: pytest.MonkeyPatch, pattern: str) -> None:
    wanted = expected(monkeypatch, pattern, keyed=False)
    assert len(wanted) > 10
    shuffled = frame(spark, EVENTS).repartition(3, "event_id")
    assert output_rows(correlate(shuffled, spec(pattern, key=None))) == wanted


def test_timed_pattern_without_key_runs_in_one_task(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert output_rows(correlate(frame(spark, EVENTS), spec(TIMED, key=None))) == expected(monkeypatch, TIMED, keyed=False)


def test_key_is_one_value_of_the_condition_language() -> None:
    assert make_groups([spec("a", key="key")])[0].key == Field("key", (), Extraction.TEXT)
    for bad in ("key) = (key) or (type", "key) = (type", "(object -> 'n')::numeric", "object -> 'a'", "object"):
        with pytest.raises(Invalid):
            make_groups([spec("a", key=bad)])
    with pytest.raises(PatternError):
        make_groups([spec("push(x){")])
