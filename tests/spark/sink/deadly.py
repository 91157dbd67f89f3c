"""A sink whose process dies right after its commit."""

from __future__ import annotations

from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from headrace.spark.data_source import HeadraceSource
from headrace.spark.sink import EventStreamWriter, SinkOptions
from tests.spark.sink.driver import die


class DeadlyWriter(EventStreamWriter):
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        super().commit(messages, batchId)
        die(batchId)


class DeadlySource(HeadraceSource):
    def streamWriter(self, schema: StructType, overwrite: bool) -> DeadlyWriter:  # noqa: N802
        return DeadlyWriter(SinkOptions.from_options(self.options, schema, overwrite=overwrite))
