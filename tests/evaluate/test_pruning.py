"""A rule is left out of a batch only if it fires on none of its events."""

from __future__ import annotations

import random

import pyarrow as pa

from headrace.evaluate.classification import Classifier
from headrace.lang.condition import Sample, parse, to_python
from headrace.spark import RuleSpec
from tests.spark.backtest.test_comparison import as_batch

FORMS = (
    "object ->> 'model' = 'm{a}' and (object -> 'hp')::int > {b}",
    "object ->> 'model' in ('m{a}', 'm{b}', 'm{a}')",
    "object ->> 'color' = 'red' and (object -> 'price')::bigint = {b}",
    "(object -> 'price')::bigint between {a} and {a} + 20 and (object -> 'hp')::int < {b}",
    "(object -> 'price')::bigint between {a} and {b}",
    "(object -> 'hp')::int = {a} and object ->> 'model' like 'm{b}%'",
    "not (object ->> 'model' = 'm{a}') and (object -> 'hp')::int = {b}",
    "object ->> 'model' = 'm{a}' or (object -> 'hp')::int = {b}",
    "key = 'k{a}'",
    "object ->> 'model' is null",
    "object ->> 'model' like 'm{a}%'",
    "starts_with(object ->> 'model', 'm{b}') and object ->> 'color' = 'red'",
    "object ->> 'model' like 'm_' and (object -> 'hp')::int < {b}",
    "object ->> 'model' ilike 'M{a}%'",
    "object ->> 'model' not like 'm{a}%' and (object -> 'price')::bigint = {b}",
    "key like 'k{a}'",
)


def make_rules(count: int, chance: random.Random) -> list[RuleSpec]:
    return [
        RuleSpec(
            name=str(n),
            event_type=chance.choice("ab"),
            action="x",
            condition=FORMS[n % len(FORMS)].format(a=chance.randint(0, 60), b=chance.randint(0, 60)),
        )
        for n in range(count)
    ]


def make_event(chance: random.Random) -> Sample:
    payload: dict[str, object] = {
        "model": f"m{chance.randint(0, 99)}",
        "hp": chance.randint(0, 99),
        "price": chance.randint(0, 99),
    }
    payload["color"] = chance.choice(["red", "blue"])
    for name in [name for name in payload if chance.random() < 0.1]:
        del payload[name]
    return Sample(payload, chance.choice("abc"), f"k{chance.randint(0, 99)}")  # type: ignore[arg-type]


def firings(rules: list[RuleSpec], batch: pa.RecordBatch) -> set[tuple[int, int]]:
    return {(number, row) for number, rows in Classifier(rules, []).classify(batch).firings() for row in rows.tolist()}


def test_many_rules_fire_where_each_of_them_alone_does() -> None:
    chance = random.Random(3)
    rules = make_rules(400, chance)
    events = [make_event(chance) for _ in range(200)]
    batches = [(start, as_batch(events[start : start + 20], [0] * 20)) for start in range(0, 200, 20)]
    fired = {(number, start + row) for start, batch in batches for number, row in firings(rules, batch)}
    functions = [to_python(parse(rule.condition)) for rule in rules]
    expected = {
        (number, row)
        for number, (rule, function) in enumerate(zip(rules, functions, strict=True))
        for row, event in enumerate(events)
        if event.type == rule.event_type and function(event) is True
    }
    assert len(expected) > 500
    assert fired == expected


def test_rules_that_cannot_fire_in_a_batch_are_not_evaluated() -> None:
    rules = make_rules(400, random.Random(3))
    batch = as_batch([Sample({"model": "m1", "hp": 1, "price": 1, "color": "red"}, "a", "k1")], [0])
    assert len(list(Classifier(rules, []).classify(batch).firings())) < 200
