"""The option `schema`: the payload as a typed value."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from headrace.core import Invalid, UnknownSchema
from headrace.db import Connection, Target
from headrace.definitions.schemas import set_schema
from headrace.log.outbox import publish
from headrace.log.topics import create_topic
from headrace.spark.schema import event_schema
from headrace.spark.source import with_payload_type
from headrace.spark.source.options import SourceOptions
from headrace.spark.source.payload_types import parse_ddl, typed_array
from tests.spark.reading import load, secret_file

pytestmark = pytest.mark.lane("pg18")

ORDER = {
    "type": "object",
    "properties": {
        "total": {"type": "integer"},
        "at": {"type": "string", "format": "date-time"},
        "items": {"type": "array", "items": {"type": "object", "properties": {"sku": {"type": "string"}}}},
        "labels": {"type": "object", "additionalProperties": {"type": "number"}},
        "free": {},
    },
}


def test_value_that_does_not_fit_is_null_and_the_rest_stays() -> None:
    type_ = pa.struct(
        {
            "n": pa.int64(),
            "x": pa.float64(),
            "b": pa.bool_(),
            "s": pa.string(),
            "t": pa.timestamp("us", "UTC"),
            "l": pa.list_(pa.int64()),
        }
    )
    payloads = [
        '{"n": 5, "x": 1, "b": true, "s": "a", "t": "2026-01-31T08:30:00+01:00", "l": [1, "2"], "more": 1}',
        '{"n": "5", "x": true, "b": 1, "s": {"k": [1]}, "t": "2026-01-31", "l": {}}',
        '{"n": 5.5}',
        "[]",
        '{"n": 99999999999999999999}',
    ]
    moment = datetime(2026, 1, 31, 7, 30, tzinfo=UTC)
    empty = dict.fromkeys(["n", "x", "b", "s", "t", "l"])
    assert typed_array(payloads, type_).to_pylist() == [
        {"n": 5, "x": 1.0, "b": True, "s": "a", "t": moment, "l": [1, None]},
        {**empty, "s": '{"k":[1]}'},
        empty,
        None,
        empty,
    ]


@pytest.fixture
def secret(database: Target, tmp_path: Path) -> str:
    return secret_file(tmp_path, database)


@pytest.fixture
def orders(conn: Connection) -> Connection:
    create_topic(conn, "orders")
    set_schema(conn, "order.placed", ORDER)
    return conn


def test_type_comes_from_the_schema_of_one_event_type(orders: Connection, secret: str) -> None:
    def schema(**options: str) -> str:
        read = SourceOptions.from_options({"secret": secret, "subscribe": "orders", "schema": "registry", **options})
        return with_payload_type(event_schema(("payload", "offset")), read).simpleString()

    assert schema(types="order.placed") == (
        "struct<payload:struct<total:bigint,at:timestamp,items:array<struct<sku:string>>,labels:map<string,double>,free:string>,"
        "offset:bigint>"
    )
    with pytest.raises(UnknownSchema):
        schema(types="order.lost")
    for types in ({}, {"types": "order.placed,order.lost"}):
        with pytest.raises(Invalid, match="option types"):
            schema(**types)


def test_spark_reads_the_payload_as_a_struct(orders: Connection, secret: str, spark: SparkSession) -> None:
    payload = {"total": 5, "items": [{"sku": "a"}], "labels": {"x": 1}, "free": [1], "at": "2026-01-31T08:30:00Z"}
    publish(orders, "orders", "order.placed", payload)
    publish(orders, "orders", "order.placed", {"total": "x"})
    publish(orders, "orders", "order.other", {"total": 7})
    orders.execute("select headrace.sequence()")
    frame = load(spark, secret, types="order.placed", schema="registry")
    rows = frame.selectExpr(
        "payload.total", "payload.items[0].sku", "payload.labels['x'] as x", "payload.free", "offset"
    ).collect()
    assert [tuple(row) for row in rows] == [(5, "a", 1.0, "[1]", 1), (None, None, None, None, 2)]


def test_ddl_means_what_spark_means_by_it(spark: SparkSession) -> None:
    for text in (
        "a int",
        "a: long, `b c` string, `d``e` double",
        "x array<array<float>>, y MAP<STRING, struct<z: date, t timestamp>>",
        "d decimal(12, 2), e decimal, f dec(5), g numeric(38,38), h smallint, i BYTE, j boolean, k real",
    ):
        expected = StructType.fromDDL(text)
        assert StructType.fromJson(parse_ddl(text)) == expected, text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "option schema, at its end: not a list"),
        ("a", "not a list of columns and types; write registry, or columns such as"),
        ("a int b long", "line 1, column 7"),
        ("a variant", "a payload has no type 'variant'; use string, boolean"),
        ("a map<int, string>", "the keys of a map are names of JSON fields"),
        ("a decimal(40, 2)", "at most 38 digits"),
        ("a int, A long", "names a column twice: a, A"),
    ],
)
def test_wrong_ddl_is_said_with_its_place(text: str, message: str) -> None:
    with pytest.raises(Invalid, match=re.escape(message)):
        SourceOptions.from_options({"subscribe": "orders", "schema": text})


def test_decimal_keeps_its_digits_and_rounds_what_is_too_fine() -> None:
    payloads = ['{"d": 0.1}', '{"d": 12345678.905}', '{"d": 123456789.1}', '{"d": 1e30}', '{"d": "1"}', '{"d": 5}']
    values = typed_array(payloads, pa.struct({"d": pa.decimal128(10, 2)})).to_pylist()
    assert [value["d"] for value in values] == [Decimal("0.10"), Decimal("12345678.90"), None, None, None, Decimal("5.00")]
