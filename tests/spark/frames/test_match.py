"""match finds what the database and Python find: one row per event and rule that is true for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from headrace.core import Invalid, UnknownRule
from headrace.db import Connection
from headrace.evaluate.conditions import RULES_MIN
from headrace.lang.condition import Condition, ConditionError, Node, Sample, jsonb_text, load_corpus, parse, run_cases, to_python
from headrace.log.topics import create_topic
from headrace.rules import Rule, create_rule
from headrace.spark import RuleSpec, match
from tests.lang.condition.strategies import conditions, events, key_conditions, key_events

CORPUS = Path(__file__).parents[2] / "corpus"
CASES_PER_JOB = 175
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


@settings(max_examples=2, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(st.lists(key_conditions, min_size=15, max_size=30), st.lists(key_events, min_size=20, max_size=40))
def test_random_rules_by_their_needs_miss_nothing(spark: Any, trees: list[Node], samples: list[Sample]) -> None:
    """Enough rules for the lookup of what they need, so that one which misses an event shows."""
    copies = -(-RULES_MIN // len(trees))
    rules = [
        rule(f"{copy}/{number}", Condition(tree).text, event_type="")
        for copy in range(copies)
        for number, tree in enumerate(trees)
    ]
    assert hits(match(frame(spark, samples), rules)) == expected(rules, samples)


def test_hit_carries_rule_and_event(spark: Any) -> None:
    (row,) = match(frame(spark, SAMPLES), [rule("big", "(object -> 'n')::int > 38", version=7, action="tell")]).collect()
    assert (row.rule, row.version, row.action) == ("big", 7, "tell")
    assert (row.topic, row.offset, row.event_id, row.type, row.key) == ("orders", 40, "e40", "placed", "39")
    assert row.payload == jsonb_text(SAMPLES[39].payload)


def test_rule_of_another_topic_or_a_later_position_does_not_fire(spark: Any) -> None:
    rules = [
        *(rule(f"k{n}", f"(object -> 'n')::int = {n}", since_offset=4) for n in range(4)),
        rule("here", "true", topic="orders", since_offset=39),
        rule("elsewhere", "true", topic="returns"),
    ]
    matches = hits(match(frame(spark, SAMPLES), rules))
    assert matches == {*((f"k{n}", n + 1) for n in range(3, 4)), *(("here", at) for at in (39, 40, 42, 43, 44))}


def test_stream_finds_what_batch_finds(spark: Any, tmp_path: Path) -> None:
    rules = [rule(f"k{n}", f"(object -> 'n')::int = {n}") for n in range(4)]
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
