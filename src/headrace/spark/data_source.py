"""The format `headrace`: Spark's source and sink for the log, without a jar."""

from __future__ import annotations

from collections.abc import MutableMapping

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from headrace.spark.credentials import Access
from headrace.spark.schema import event_schema
from headrace.spark.sink import EventStreamWriter, EventWriter, SinkOptions
from headrace.spark.source import EventReader, EventStreamReader, SourceOptions, with_payload_type


class HeadraceSource(DataSource):
    """`spark.read.format("headrace")` and its siblings. Holds only options, which Spark shows; never an address."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        Access.of(options)

    @classmethod
    def name(cls) -> str:
        return "headrace"

    def schema(self) -> StructType:
        options = SourceOptions.of(self.options)
        schema = event_schema(options.columns, extracted=[extract.name for extract in options.extracts])
        return with_payload_type(schema, options)

    def reader(self, schema: StructType) -> EventReader:
        return EventReader(SourceOptions.of(self.options), schema)

    def streamReader(self, schema: StructType) -> EventStreamReader:  # noqa: N802
        return EventStreamReader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> EventWriter:
        return EventWriter(SinkOptions.of(self.options, schema, overwrite=overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> EventStreamWriter:  # noqa: N802
        return EventStreamWriter(SinkOptions.of(self.options, schema, overwrite=overwrite))
