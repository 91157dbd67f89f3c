"""Frames: rules and patterns over DataFrames. `match` gives the rules that fire, `correlate` the tokens that patterns push.

Promises: firings, outputs, evidence and order of the database's engines. Importing this room imports neither pyspark nor pyarrow."""

from typing import TYPE_CHECKING

from headrace.lazy_names import lazy_names
from headrace.spark.frames.definitions import (
    AnyCorrelator as AnyCorrelator,
    AnyRule as AnyRule,
    correlator_specs as correlator_specs,
    rule_specs as rule_specs,
)
from headrace.spark.frames.evaluation import (
    MicroBatch as MicroBatch,
    check_event_columns as check_event_columns,
    correlate as correlate,
    match as match,
    state_schema as state_schema,
    take_micro_batch as take_micro_batch,
)

if TYPE_CHECKING:
    from headrace.spark.frames.classified_events import (
        BUFFER_ROWS as BUFFER_ROWS,
        CHUNK_TYPE as CHUNK_TYPE,
        LIVE as LIVE,
        RULES as RULES,
        ChunkBuffer as ChunkBuffer,
        Watched as Watched,
        classify_range as classify_range,
        make_chunks as make_chunks,
        own_events as own_events,
        read_chunks as read_chunks,
        within as within,
    )
else:
    # This one needs pyarrow.
    __getattr__ = lazy_names(__name__, "classified_events")
