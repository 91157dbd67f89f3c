"""What Spark knows of headrace: the format `headrace`, its source and sink without a jar, and functions of Spark SQL.

The functions are `headrace_events`, a topic as a table, and `headrace_match`, a condition over the columns of an event. Promises:
`headrace_match` gives the answers of the condition language, by its Python printer; what a function lacks is said by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSource
from pyspark.sql.functions import arrow_udf, arrow_udtf  # type: ignore[attr-defined]
from pyspark.sql.types import StructField, StructType

from headrace.core import Invalid
from headrace.lang.condition import Condition, Json, Sample, decode_json, parse, to_python
from headrace.spark.credentials import Access
from headrace.spark.schema import event_schema
from headrace.spark.sink import EventStreamWriter, EventWriter, SinkOptions
from headrace.spark.source import (
    OPTIONS_METADATA,
    EventReader,
    EventStreamReader,
    SourceOptions,
    with_payload_type,
    with_table_options,
    without_table_properties,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession


class HeadraceSource(DataSource):
    """`spark.read.format("headrace")` and its siblings. Holds only options, which Spark shows; never an address."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        Access.from_options(without_table_properties(options))

    @classmethod
    def name(cls) -> str:
        return "headrace"

    def schema(self) -> StructType:
        options = SourceOptions.from_options(self.options)
        schema = event_schema(options.columns, extracted=[extract.name for extract in options.extracts])
        schema = with_payload_type(schema, options)
        return _with_options(schema, self.options) if "provider" in self.options else schema

    def reader(self, schema: StructType) -> EventReader:
        return EventReader(SourceOptions.from_options(with_table_options(self.options, schema)), schema)

    def streamReader(self, schema: StructType) -> EventStreamReader:  # noqa: N802
        return EventStreamReader(with_table_options(self.options, schema), schema)

    def writer(self, schema: StructType, overwrite: bool) -> EventWriter:
        return EventWriter(SinkOptions.from_options(self.options, schema, overwrite=overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> EventStreamWriter:  # noqa: N802
        return EventStreamWriter(SinkOptions.from_options(self.options, schema, overwrite=overwrite))


def _with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """A schema that remembers the options. Spark 4.3 keeps the options of a table, but does not pass them to a Python source that
    reads it; what it passes is the schema, with the metadata of its fields. Options hold names only, never a secret."""
    first, *others = schema.fields
    metadata = {OPTIONS_METADATA: without_table_properties(options)}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *others])


EVENTS_FUNCTION = "headrace_events"
MATCH_FUNCTION = "headrace_match"
_NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_ARGUMENTS = {"object": "payload", "type": "type", "key": "key", "headers": "headers", "emitted_at": "emitted_at"}
"""The argument of `headrace_match` for each name of the condition language."""


def register_functions(spark: SparkSession) -> None:
    """Adds the functions to a session that does not have them; not through Spark Connect."""
    if hasattr(spark, "_jsc") and not spark.catalog.functionExists(EVENTS_FUNCTION):
        spark.udtf.register(EVENTS_FUNCTION, arrow_udtf(EventsFunction, returnType=event_schema()))  # type: ignore[arg-type]
        spark.udf.register(MATCH_FUNCTION, arrow_udf(match_condition, "boolean"))


class EventsFunction:
    """`headrace_events(topic, option => value, …)`: the events of a topic, read by one task, with the options of the source."""

    def eval(self, topic: pa.Array, **options: pa.Array) -> Iterator[pa.Table]:
        values = {name: str(value[0].as_py()) for name, value in options.items()}
        if refused := sorted({"columns", "extract", "schema"} & {name.lower() for name in values}):
            raise Invalid(
                f"{EVENTS_FUNCTION} always has the same columns, so it does not take {', '.join(refused)}; create a table instead: "
                "create table … using headrace options (…)"
            )
        schema = event_schema()
        reader = EventReader(SourceOptions.from_options({**values, "subscribe": str(topic[0].as_py())}), schema)
        for split in reader.partitions():
            for batch in reader.read(split):
                yield pa.Table.from_batches([batch])


def match_condition(
    condition: pa.Array,
    payload: pa.Array,
    type: pa.Array = None,
    key: pa.Array = None,
    headers: pa.Array = None,
    emitted_at: pa.Array = None,
) -> pa.Array:
    """`headrace_match(condition, payload, type, key, headers, emitted_at)`: true, false, or null for unknown. Arguments after the
    payload may be left out if the condition does not read them."""
    columns = {"payload": payload, "type": type, "key": key, "headers": headers, "emitted_at": emitted_at}
    passed = frozenset(name for name, column in columns.items() if column is not None)
    absent = [None] * len(condition)
    rows = zip(
        condition.to_pylist(), *(absent if column is None else column.to_pylist() for column in columns.values()), strict=True
    )
    answers: list[bool | None] = []
    for text, payload_, type_, key_, headers_, emitted_at_ in rows:
        if text is None or payload_ is None:
            answers.append(None)
            continue
        parsed, evaluate = _compiled(text)
        _check_arguments(parsed, passed)
        sample = Sample(decode_json(payload_), type_ or "", key_, _decode_headers(headers_), emitted_at_ or _NO_TIME)
        answers.append(evaluate(sample))
    return pa.array(answers, pa.bool_())


def _decode_headers(text: str | None) -> Mapping[str, Json]:
    headers = {} if text is None else decode_json(text)
    if not isinstance(headers, dict):
        raise Invalid(f"the headers of an event are a JSON object, not {text!r}")
    return headers


@lru_cache(maxsize=1024)
def _compiled(text: str) -> tuple[Condition, Callable[[Sample], bool | None]]:
    condition = parse(text)
    return condition, to_python(condition)


@lru_cache(maxsize=1024)
def _check_arguments(condition: Condition, passed: frozenset[str]) -> None:
    needed = {_ARGUMENTS[field.root] for field in condition.fields}
    if missing := sorted(needed - passed):
        named = ", ".join(f"{name} => …" for name in missing)
        raise Invalid(f"the condition reads {', '.join(missing)}, which {MATCH_FUNCTION} was not given; add {named}")
