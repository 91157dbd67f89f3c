"""Spark SQL reads topics by headrace_events and evaluates conditions by headrace_match, with the answers of the condition language."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.core import Invalid, UnknownTopic
from headrace.db import Connection, Target
from headrace.lang.condition import Condition, Engine, Sample, TruthTable, sample_rows
from headrace.spark import map_spark_errors, register
from tests.builders import drain, topic
from tests.lang.condition.test_engines import differences
from tests.spark.reading import load, publish_numbers, secret_file

pytestmark = pytest.mark.lane("pg18")


@pytest.fixture
def secret(conn: Connection, database: Target, tmp_path: Path) -> str:
    topic(conn)
    publish_numbers(conn, 20)
    drain(conn)
    return secret_file(tmp_path, database)


def test_events_are_those_of_the_source(spark: SparkSession, secret: str) -> None:
    events = spark.sql(f"select * from headrace_events('orders', secret => '{secret}')")
    source = load(spark, secret)
    assert events.schema.simpleString() == source.schema.simpleString()
    assert sorted(events.collect()) == sorted(source.collect())


def test_options_are_named_arguments(spark: SparkSession, secret: str) -> None:
    rows = spark.sql(
        f"""select key, `offset` from headrace_events('orders', secret => '{secret}', where => "key in ('k3', 'k4')", toPosition => 14)
            where payload > 3 order by 2"""
    ).collect()
    assert [tuple(row) for row in rows] == [("k4", 4), ("k3", 13)]
    for arguments, class_, message in (
        (f"'nope', secret => '{secret}'", UnknownTopic, "no topic nope in the namespace"),
        (
            f"'orders', secret => '{secret}', columns => 'key'",
            Invalid,
            "always has the same columns, so it does not take columns",
        ),
        (f"'orders', secret => '{secret}', color => 'red'", Invalid, "the source has no option color"),
        ("'orders', dsn => 'postgresql://u:secret@host/x'", Invalid, "option 'dsn' would put an address into the plan"),
    ):
        with pytest.raises(class_, match=message), map_spark_errors():
            spark.sql(f"select * from headrace_events({arguments})").collect()


def match_engine(spark: SparkSession) -> Engine:
    """headrace_match as an engine: every condition over every event in one statement."""

    def evaluate(conditions: Sequence[Condition], events: Sequence[Sample]) -> TruthTable:
        schema = "number int, type string, key string, headers string, payload string, emitted_at timestamp"
        spark.createDataFrame(sample_rows(events), schema).createOrReplaceTempView("sample")
        texts = [(number, condition.text) for number, condition in enumerate(conditions)]
        spark.createDataFrame(texts, "place int, text string").createOrReplaceTempView("condition")
        rows = spark.sql(
            """select number, place, headrace_match(text, payload, type, key, headers, emitted_at) as answer
               from sample cross join condition order by number, place"""
        ).collect()
        table: TruthTable = [[] for _ in events]
        for row in rows:
            table[row.number].append(row.answer)
        return table

    return evaluate


def test_match_answers_the_whole_corpus(spark: SparkSession) -> None:
    register(spark)
    assert differences(match_engine(spark)) == []


def test_match_takes_what_the_condition_reads(spark: SparkSession, secret: str) -> None:
    load(spark, secret).createOrReplaceTempView("orders")
    large = "select count(*) from orders where headrace_match('(object #>> ''{}'')::int > 18', payload)"
    assert spark.sql(large).collect() == [(2,)]
    by_name = "select count(*) from orders where headrace_match(payload => payload, key => key, condition => 'key = ''k1''')"
    assert spark.sql(by_name).collect() == [(2,)]
    assert spark.sql("select headrace_match('true', cast(null as string)), headrace_match(null, '1')").collect() == [(None, None)]
    for call, message in (
        ("headrace_match('key = ''k1''', payload)", "the condition reads key, which headrace_match was not given; add key =>"),
        ("headrace_match('object >> 3', payload)", "condition, line 1, column"),
    ):
        with pytest.raises(Invalid, match=message), map_spark_errors():
            spark.sql(f"select count(*) from orders where {call}").collect()


def test_payload_has_the_columns_of_a_ddl_string(spark: SparkSession, conn: Connection, secret: str) -> None:
    payload = '{"id": 7, "amount": 12.345678901234567890, "items": [{"sku": "a"}, {"sku": 5}], "more": true, "small": 300}'
    conn.execute("select headrace.publish('orders', 'paid', %s::jsonb)", (payload,))
    drain(conn)
    ddl = "id long not null, amount decimal(20, 18), items array<struct<sku: string>>, labels map<string, int>, small tinyint"
    name = "typed_orders"
    spark.sql(f"create temporary view {name} using headrace options (secret '{secret}', subscribe 'orders', schema '{ddl}')")
    rows = spark.sql(
        f"""select payload.id, cast(payload.amount as string), payload.items.sku, payload.labels, payload.small
            from {name} where type = 'paid'"""
    ).collect()
    assert [tuple(row) for row in rows] == [(7, "12.345678901234567890", ["a", "5"], None, None)]
    assert spark.sql(f"select count(*) from {name} where payload is null").collect() == [(20,)]
