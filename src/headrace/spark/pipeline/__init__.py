"""Pipeline: the rules and correlators of a topic on Spark, with the answers, ids and rows of the database's own engine.

Owns: which engine a topic runs on, the ledger of batches, and the progress that others read. Promises: a batch is one PostgreSQL
transaction of firings, actions, derived events, correlator states, cursors and the ledger, so whatever is killed, each event is
handled once; a topic moves from one engine to the other and back without loss or repetition."""

from headrace.spark.pipeline.process import Pipeline
from headrace.spark.pipeline.progress import LedgerRow, PipelineState, list_batches, list_pipelines
from headrace.spark.pipeline.topic_engine import Engine, set_engine
from headrace.spark.pipeline.topic_pipeline import BatchDone, TopicPipeline

__all__ = [
    "BatchDone",
    "Engine",
    "LedgerRow",
    "Pipeline",
    "PipelineState",
    "TopicPipeline",
    "list_batches",
    "list_pipelines",
    "set_engine",
]
