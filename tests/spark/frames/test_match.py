"""match finds what the database and Python find: one row per event and rule that is true for it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from headrace.core import Invalid, UnknownRule
from headrace.db import Connection
from headrace.lang.condition import Condition, ConditionError, Node, Sample, jsonb_text, load_corpus, parse, run_cases, to_python
from headrace.log.topics import create_topic
from headrace.rules import Rule, create_rule
from headrace.spark import RuleSpec, match
from headrace.spark.frames import cached_plan
from headrace.spark.frames.matching import IN_PLACE_MAX, KEYLESS_MIN, SHARED_MIN, plan
from tests.lang.condition.strategies import conditions, events, key_conditions, key_events

CORPUS = Path(__file__).parents[2] / "corpus"
CASES_PER_JOB = 175
"""Every case has fields of its own; with many more the generated code costs more than a second job."""
SCHEMA = (
    "key string, type string, payload string, topic string, partition int, `offset` bigint, timestamp timestamp,"
    " event_id string, headers string, shard string"
)


def frame(spark: Any, samples: Sequence[Sample]) -> Any:
    """The samples as events of the topic `orders`, at positions from 1."""
    rows = [
        (
            sample.key, sample.type, jsonb_text(sample.payload), "orders", 0, offset, sample.emitted_at, f"e{offset}",
            jsonb_text(dict(sample.headers)), "main",
        )
        for offset, sample in enumerate(samples, 1)
    ]  # fmt: skip
    return spark.createDataFrame(rows, SCHEMA)


def hits(found: Any) -> set[tuple[str, int]]:
    rows = [(row["rule"], row["offset"]) for row in found.select("rule", "offset").collect()]
    assert len(rows) == len(set(rows)), "an event fired a rule twice"
    return set(rows)


def expected(rules: Sequence[RuleSpec], samples: Sequence[Sample]) -> set[tuple[str, int]]:
    """What the Python printer says."""
    functions = [(rule, to_python(parse(rule.condition))) for rule in rules]
    return {
        (rule.name, offset)
        for rule, evaluate in functions
        for offset, sample in enumerate(samples, 1)
        if sample.type == rule.event_type and evaluate(sample) is True
    }


def rule(name: str, condition: str, **options: Any) -> RuleSpec:
    return RuleSpec(name=name, condition=condition, **{"event_type": "placed", "action": "notify", **options})


def evaluate_by_match(spark: Any, pairs: Sequence[tuple[Condition, Sample]]) -> list[bool | None]:
    """Each pair is a topic with two rules: one for true and one for false; where neither fires the answer is unknown."""
    answers: list[bool | None] = []
    for start in range(0, len(pairs), CASES_PER_JOB):
        rules: list[RuleSpec] = []
        rows: list[tuple[object, ...]] = []
        chunk = pairs[start : start + CASES_PER_JOB]
        for number, (condition, event) in enumerate(chunk):
            topic = str(number)
            for name, text in (("true", condition.text), ("false", f"({condition.text}) is false")):
                rules.append(RuleSpec(name=name, event_type=event.type, action="answer", condition=text, topic=topic))
            payload, headers = jsonb_text(event.payload), jsonb_text(dict(event.headers))
            rows.append((event.key, event.type, payload, topic, 0, number, event.emitted_at, topic, headers, "main"))
        found: dict[int, bool] = {}
        for hit in match(spark.createDataFrame(rows, SCHEMA), rules).select("rule", "offset").collect():
            found[hit["offset"]] = hit["rule"] == "true"
        answers += [found.get(number) for number in range(len(chunk))]
    return answers


@pytest.fixture
def by_join(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many rules would be matched by whole columns."""
    monkeypatch.setattr(import_module("headrace.spark.frames.matching"), "COLUMNS_MIN", 10**9)


# Whole columns have a test of the corpus of their own, without Spark.
@pytest.mark.usefixtures("by_join")
def test_match_answers_the_corpus(spark: Any) -> None:
    cases = (*load_corpus(CORPUS / "condition.toml"), *load_corpus(CORPUS / "condition_rulings.toml"))
    outcomes = run_cases(cases, lambda pairs: evaluate_by_match(spark, pairs))
    assert [f"{o.case.name}: expected {o.case.expect}, got {o.got}" for o in outcomes if not o.passed] == []


# Few examples and no shrinking: each is a Spark job of many conditions over many events.
@settings(max_examples=2, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(st.lists(conditions, min_size=15, max_size=30), st.lists(events, min_size=10, max_size=30))
def test_random_conditions_find_what_python_finds(spark: Any, trees: list[Node], samples: list[Sample]) -> None:
    rules = [
        rule(f"{kind}/{number}", Condition(tree).text, event_type=kind)
        for number, tree in enumerate(trees)
        for kind in ("", "order.placed")
    ]
    assert hits(match(frame(spark, samples), rules)) == expected(rules, samples)


def placed(**payload: Any) -> Sample:
    return Sample(payload, "placed", key=str(payload.get("n")))


def moment(day: int) -> str:
    return f"'2026-01-{day:02}T00:00:00Z'"


SAMPLES = [
    placed(n=n, size=n % 7, color=("red", "blue", "green")[n % 3], at=f"2026-01-{n % 28 + 1:02}T00:00:00Z", half=f"{n / 2}")
    for n in range(40)
] + [Sample({"color": "red", "n": 3}, "other"), placed(n="3", color=None), placed(), Sample([1], "placed")]


def test_rules_of_one_shape_are_probed_and_find_the_same(spark: Any) -> None:
    """Every kind of constant: integers, decimals, texts, moments, patterns; keys of text, integer and boolean."""
    few = range(SHARED_MIN)
    rules = [
        *(rule(f"a{n}", f"object ->> 'color' = 'red' and (object -> 'n')::int > {n * 5}") for n in few),
        *(rule(f"b{n}", f"(object -> 'size')::int = {n} and (object ->> 'half')::numeric >= {n}.5") for n in few),
        *(rule(f"c{n}", f"object ->> 'color' = 'blue' and (object ->> 'at')::timestamptz < {moment(n + 9)}") for n in few),
        *(rule(f"d{n}", f"key = '{n}' and object ->> 'color' ~ '^[a-{'bdeg'[n % 4]}]'") for n in few),
        *(rule(f"e{n}", f"(object -> 'n')::int = {n} and object ->> 'color' like '%{'edu'[n % 3]}%'") for n in few),
        *(rule(f"f{n}", f"object ->> 'color' = '{('red', 'its', '=')[n % 3]}'") for n in few),
    ]
    assert {entry.shape for entry in plan(rules).entries} == {1, 2, 3, 4, 5, 6}
    matches = expected(rules, SAMPLES)
    assert {name[0] for name, _ in matches} == set("abcdef")
    assert hits(match(frame(spark, SAMPLES), rules)) == matches


@pytest.mark.usefixtures("by_join")
def test_many_rules_without_equality_and_many_shapes_find_the_same(spark: Any) -> None:
    alike = [rule(f"t{n}", f"(object -> 'n')::int between {n} and {n + 2}") for n in range(KEYLESS_MIN)]
    words = ["<", "<=", ">", ">=", "<>", "="]
    apart = [
        rule(f"s{n}", f"(object -> 'n')::int {words[n % 6]} {n % 40} or (object -> 'size')::int {words[n // 6 % 6]} {n // 36}")
        for n in range(IN_PLACE_MAX + 2)
    ]
    shapes = [entry.shape for entry in plan([*alike, *apart]).entries]
    assert set(shapes) == {0, 1}
    assert shapes.count(0) > IN_PLACE_MAX
    assert hits(match(frame(spark, SAMPLES), [*alike, *apart])) == expected([*alike, *apart], SAMPLES)


@pytest.mark.usefixtures("by_join")
def test_keys_and_buckets_find_what_python_finds(spark: Any) -> None:
    """Lists, prefixes, ranges and bounds of numbers, texts and moments; each is found by probes."""
    many = range(KEYLESS_MIN)
    days = [f"2026-01-{n % 28 + 1:02}" for n in many]
    rules = [
        *(rule(f"a{n}", f"object ->> 'color' in ('red', '{'xyz'[n % 3]}', 'red') and (object -> 'n')::int <> {n}") for n in many),
        *(rule(f"b{n}", f"(object -> 'n')::int in ({n}, {n * 2}, {n + 7})") for n in many),
        *(rule(f"c{n}", f"object ->> 'at' like '{days[n][: 5 + n % 6]}%'") for n in many),
        *(rule(f"d{n}", f"(object ->> 'half')::numeric between {n - 0.5} and {n - 0.5 + 2 ** (n % 9)}") for n in many),
        *(rule(f"e{n}", f"(object -> 'n')::int > {n}") for n in many),
        *(rule(f"f{n}", f"(object ->> 'half')::numeric <= {n / 3:.4f}") for n in many),
        *(rule(f"g{n}", f"object ->> 'at' < '{days[n]}'") for n in many),
        *(rule(f"h{n}", f"(object ->> 'at')::timestamptz >= {moment(n % 28 + 1)}") for n in many),
        *(rule(f"i{n}", f"object ->> 'at' between '{days[n]}' and '2026-01-29'") for n in many),
        *(rule(f"j{n}", f"(object ->> 'at')::timestamptz between {moment(n % 20 + 1)} and {moment(n % 20 + 5)}") for n in many),
    ]
    assert 0 not in {entry.shape for entry in plan(rules).entries}
    matches = expected(rules, SAMPLES)
    assert {name[0] for name, _ in matches} == set("abcdefghij")
    assert hits(match(frame(spark, SAMPLES), rules)) == matches


# As above: every condition is probed, so that a key or bucket that misses an event shows.
@settings(max_examples=2, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(st.lists(key_conditions, min_size=15, max_size=30), st.lists(key_events, min_size=20, max_size=40))
def test_random_keys_miss_nothing(spark: Any, trees: list[Node], samples: list[Sample]) -> None:
    rules = [rule(str(number), Condition(tree).text, event_type="") for number, tree in enumerate(trees)]
    with pytest.MonkeyPatch.context() as patched:
        module = import_module("headrace.spark.frames.matching")
        patched.setattr(module, "SHARED_MIN", 1)
        patched.setattr(module, "KEYLESS_MIN", 1)
        cached_plan.cache_clear()
        assert hits(match(frame(spark, samples), rules)) == expected(rules, samples)


def test_hit_carries_rule_and_event(spark: Any) -> None:
    (row,) = match(frame(spark, SAMPLES), [rule("big", "(object -> 'n')::int > 38", version=7, action="tell")]).collect()
    assert (row.rule, row.version, row.action) == ("big", 7, "tell")
    assert (row.topic, row.offset, row.event_id, row.type, row.key) == ("orders", 40, "e40", "placed", "39")
    assert row.payload == jsonb_text(SAMPLES[39].payload)


def test_rule_of_another_topic_or_a_later_position_does_not_fire(spark: Any) -> None:
    rules = [
        *(rule(f"k{n}", f"(object -> 'n')::int = {n}", since_offset=4) for n in range(SHARED_MIN)),
        rule("here", "true", topic="orders", since_offset=39),
        rule("elsewhere", "true", topic="returns"),
    ]
    matches = hits(match(frame(spark, SAMPLES), rules))
    assert matches == {*((f"k{n}", n + 1) for n in range(3, SHARED_MIN)), *(("here", at) for at in (39, 40, 42, 43, 44))}


def test_stream_finds_what_batch_finds(spark: Any, tmp_path: Path) -> None:
    rules = [rule(f"k{n}", f"(object -> 'n')::int = {n}") for n in range(SHARED_MIN)]
    rules.append(rule("red", "object ->> 'color' = 'red'"))
    batch = frame(spark, SAMPLES)
    batch.repartition(3).write.parquet(str(tmp_path / "events"))
    stream = spark.readStream.schema(batch.schema).option("maxFilesPerTrigger", 2).parquet(str(tmp_path / "events"))
    query = match(stream, rules).writeStream.format("memory").queryName("matched").trigger(availableNow=True)
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    assert hits(spark.table("matched")) == expected(rules, SAMPLES)


def test_frame_without_a_column_that_a_condition_reads_is_rejected(spark: Any) -> None:
    with pytest.raises(Invalid, match="no column timestamp"):
        match(frame(spark, SAMPLES[:1]).drop("timestamp"), [rule("r", "emitted_at > timestamptz '2026-01-01T00:00:00Z'")])


def test_invalid_condition_and_no_rules_are_rejected(spark: Any) -> None:
    with pytest.raises(ConditionError):
        match(frame(spark, SAMPLES[:1]), [rule("r", "select 1")])
    with pytest.raises(Invalid, match="at least one rule"):
        match(frame(spark, SAMPLES[:1]), [])


def test_objects_names_files_and_texts_are_one_rule(spark: Any, conn: Connection, tmp_path: Path) -> None:
    events = frame(spark, [Sample({"n": n}, "placed" if n % 3 else "order placed") for n in range(9)])
    large = "(object -> 'n')::int > 3"
    live = Rule(name="large", topic="orders", event_type="placed", action="look", condition=large)
    create_topic(conn, "orders")
    create_rule(conn, live)
    (tmp_path / "rules.yaml").write_text(
        f'rules: [{{name: large, topic: orders, event_type: placed, action: look, condition: "{large}"}}]'
    )
    wanted = {("large", offset) for offset in (5, 6, 8, 9)}
    assert hits(match(events, live)) == hits(match(events, [live])) == wanted
    assert hits(match(events, str(tmp_path / "rules.yaml"))) == wanted
    assert hits(match(events, "large", conn=conn)) == wanted
    text, spaced = f"on placed if {large}", 'on "order placed"'
    assert hits(match(events, [text, spaced])) == {*((text, at) for _, at in wanted), *((spaced, at) for at in (1, 4, 7))}
    with pytest.raises(UnknownRule):
        match(events, "nobody", conn=conn)
    with pytest.raises(Invalid, match=r"not the text of a rule; write: on order\.paid if"):
        match(events, "large")
