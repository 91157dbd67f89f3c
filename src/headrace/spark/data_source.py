"""The format `headrace`: Spark's source and sink for the log, without a jar."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructField, StructType

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


class HeadraceSource(DataSource):
    """`spark.read.format("headrace")` and its siblings. Holds only options, which Spark shows; never an address."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        Access.of(without_table_properties(options))

    @classmethod
    def name(cls) -> str:
        return "headrace"

    def schema(self) -> StructType:
        options = SourceOptions.of(self.options)
        schema = event_schema(options.columns, extracted=[extract.name for extract in options.extracts])
        schema = with_payload_type(schema, options)
        return _with_options(schema, self.options) if "provider" in self.options else schema

    def reader(self, schema: StructType) -> EventReader:
        return EventReader(SourceOptions.of(with_table_options(self.options, schema)), schema)

    def streamReader(self, schema: StructType) -> EventStreamReader:  # noqa: N802
        return EventStreamReader(with_table_options(self.options, schema), schema)

    def writer(self, schema: StructType, overwrite: bool) -> EventWriter:
        return EventWriter(SinkOptions.of(self.options, schema, overwrite=overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> EventStreamWriter:  # noqa: N802
        return EventStreamWriter(SinkOptions.of(self.options, schema, overwrite=overwrite))


def _with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """A schema that remembers the options. Spark 4.3 keeps the options of a table, but does not pass them to a Python source that
    reads it; what it passes is the schema, with the metadata of its fields. Options hold names only, never a secret."""
    first, *others = schema.fields
    metadata = {OPTIONS_METADATA: without_table_properties(options)}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *others])
