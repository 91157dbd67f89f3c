"""Stream: correlators over a streaming frame of Spark, exactly once.

Owns: the state of a stream's keys, and its outputs, in PostgreSQL. Promises: the outputs that `correlate` gives over the same events,
each once, whatever is killed; importing this room imports neither pyspark nor pyarrow."""

from headrace.spark.stream.running import correlate_stream

__all__ = ["correlate_stream"]
