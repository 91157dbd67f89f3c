"""Sink: the rows of a frame become events or actions, exactly once.

Owns: staged rows and the ledger of batches. Promises: a batch or write that Spark repeats is published once; a row that breaks
a limit fails the write before anything is published. Importing this room imports pyspark."""

from headrace.spark.sink.options import SinkOptions
from headrace.spark.sink.writer import EventStreamWriter, EventWriter

__all__ = ["EventStreamWriter", "EventWriter", "SinkOptions"]
