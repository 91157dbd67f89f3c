"""match on Spark against the classic trigger with one EXECUTE per rule and event, at 100 and 1 000 rules.

Two sets of rules: one sentence with many numbers (a comparison and an equality), and a mixture of sentences. Both sides must find
the same on the events that both have seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.classic import CLASSIC
from bench.lab import Lab, settle, surroundings
from bench.result import Figure, Round, Side, ratio, report
from bench.spark import folder, run_through, spark_session, timed
from headrace.db import Connection, connect
from headrace.spark import RuleSpec, match

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RATE_TARGET = 300_000.0
CLASSIC_TARGET = 200.0
MANY_TARGET = 0.5
EVENTS = """
select cast(null as string) as key, 'car.new' as type,
    concat('{{"note": "', repeat('x', 60), '", "brand": "Koenigsegg", "color": "',
        element_at(array('silver', 'red', 'black'), 1 + cast(floor(rand(3) * 3) as int)),
        '", "model": "m', 1 + floor(rand(1) * 1000), '", "price": ', id, ', "horsepower": ', floor(rand(2) * 1000), '}}'
    ) as payload,
    'bench' as topic, 0 as partition, id as offset, timestamp_micros(id * 1000) as timestamp, uuid() as event_id,
    '{{}}' as headers, 'main' as shard, timestamp_micros(id * 1000) as appended_at
from range(1, {rows} + 1, 1, 2)"""


@dataclass(frozen=True)
class Plan:
    rows: int
    rounds: int
    classic_events: int


FULL = Plan(rows=2_000_000, rounds=3, classic_events=500)
QUICK = Plan(rows=100_000, rounds=1, classic_events=50)


def one_sentence(count: int) -> list[RuleSpec]:
    return [
        _rule(n, f"(object -> 'horsepower')::int > {n * 7919 % 1000} and object ->> 'model' = 'm{n}'")
        for n in range(1, count + 1)
    ]


def mixture(count: int) -> list[RuleSpec]:
    """Equalities, lists, ranges and prefixes. Every rule has constants of its own, so that an event fires as few of many as of a thousand."""
    texts = (
        "object ->> 'model' = 'm{n}' and (object -> 'horsepower')::int > {h}",
        "object ->> 'model' = 'm{n}' and object ->> 'color' in ('red', 'black')",
        "object ->> 'color' = 'red' and (object -> 'price')::bigint = {p}",
        "(object -> 'price')::bigint between {p} and {p} + 20 and (object -> 'horsepower')::int < {h}",
        "(object -> 'horsepower')::int = {h} and object ->> 'model' like 'm{n}%'",
    )
    return [_rule(n, texts[n % 5].format(n=n, h=n * 7919 % 1000, p=n * 104_729 % 2_000_000)) for n in range(1, count + 1)]


def _rule(number: int, condition: str) -> RuleSpec:
    return RuleSpec(name=f"r{number}", event_type="car.new", action="notify", condition=condition)


def run(lab: Lab, *, quick: bool) -> None:
    plan = QUICK if quick else FULL
    sides: dict[str, Side] = {}
    with (
        spark_session() as spark,
        folder() as place,
        lab.database("spark_match", partitions=1) as target,
        connect(target) as conn,
    ):
        events = _events(spark, place, plan)
        few = events.where(f"offset <= {plan.classic_events}")
        conn.execute(CLASSIC)
        for number in range(plan.rounds + 1):
            for name, rules in (("sentence", one_sentence), ("mixture", mixture)):
                for count in (100, 1_000):
                    tested = rules(count)
                    matched = match(events, tested)
                    measured = timed(plan.rows, lambda frame=matched: run_through(frame))
                    _keep(sides, f"{name} {count}", measured, number)
                if number:
                    _keep(sides, f"classic {name}", _classic(conn, few, rules(100), plan), number)
    report("spark_match", surroundings(lab), _figures(sides), dict(sides))


def _figures(sides: dict[str, Side]) -> list[Figure]:
    figures = []
    for name in ("sentence", "mixture"):
        hundred, thousand, classic = sides[f"{name} 100"], sides[f"{name} 1000"], sides[f"classic {name}"]
        against = ratio(name, hundred, classic, CLASSIC_TARGET)
        # The bar is either of the two: a rate, or a multiple of the trigger.
        value = max(hundred.rate / RATE_TARGET, against.value / CLASSIC_TARGET)
        detail = f"{against.value:,.0f} × the trigger: {against.detail}"
        figures.append(Figure(f"{name}, 100 rules: of 300 000 rows/s or 200 × EXECUTE", value, 1.0, detail=detail))
        figures.append(ratio(f"{name}, 1 000 : 100 rules", thousand, hundred, MANY_TARGET))
    return figures


def _keep(sides: dict[str, Side], name: str, measured: Round, number: int) -> None:
    if number:  # The first round warms Java up.
        sides.setdefault(name, Side(name, [])).rounds.append(measured)


def _events(spark: SparkSession, place: Path, plan: Plan) -> DataFrame:
    path = str(place / "events")
    spark.sql(EVENTS.format(rows=plan.rows)).write.parquet(path)
    return spark.read.parquet(path)


def _classic(conn: Connection, few: DataFrame, rules: Sequence[RuleSpec], plan: Plan) -> Round:
    """One round of the trigger, which must find what match finds on the same events."""
    conn.execute("truncate public.classic_rule, public.classic_event, public.classic_action")
    with conn.cursor() as cursor:
        cursor.executemany(
            "insert into public.classic_rule (rule, event_type, condition, action) values (%s, %s, %s, %s)",
            [(rule.name, rule.event_type, rule.condition, rule.action) for rule in rules],
        )
    rows = [(row.event_id, row.type, row.payload) for row in few.select("event_id", "type", "payload").collect()]
    arrays = [list(column) for column in zip(*rows, strict=True)]
    settle(conn)
    statement = (
        "insert into public.classic_event (event_id, type, payload)"
        " select e.id, e.type, e.payload from unnest(%s::uuid[], %s::text[], %s::jsonb[]) e (id, type, payload)"
    )
    measured = timed(plan.classic_events, lambda: conn.execute(statement, arrays))
    fired = set(conn.execute("select event_id::text, rule from public.classic_action").fetchall())
    matched = {(row.event_id, row.rule) for row in match(few, rules).select("event_id", "rule").collect()}
    assert fired == matched, f"the two sides differ: {len(fired)} and {len(matched)} firings"
    return measured
