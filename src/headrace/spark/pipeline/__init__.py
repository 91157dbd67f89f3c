"""Pipeline: runs the rules and correlators of a topic on Spark, with the same firings, outputs and ids as the database's engine.

Owns: which engine a topic runs on, the ledger of batches, and the progress of pipelines. Promises: a batch is one PostgreSQL
transaction with its firings, actions, derived events, instance states, cursors and ledger row, so whatever is killed, each event
is handled once; a topic moves from one engine to the other and back without loss or repetition."""

from headrace.spark.pipeline.runner import Pipeline as Pipeline
from headrace.spark.pipeline.topic_pipeline import BatchDone as BatchDone, TopicPipeline as TopicPipeline
from headrace.spark.pipeline.topics import (
    LedgerRow as LedgerRow,
    PipelineState as PipelineState,
    list_batches as list_batches,
    list_pipelines as list_pipelines,
    set_engine as set_engine,
)
