"""Spark's Python daemon for the tests: what its workers import is imported before they are forked, instead of by each of them.

A worker of a test lives for a few rows, and its imports take a second. Tests with a Spark of their own (clusters, killed drivers,
Spark Connect) run the daemon that users have."""

from __future__ import annotations

import gc

import numba  # noqa: F401 - headrace imports it when it first evaluates a pattern
import pyspark.daemon
import pyspark.sql.worker.create_data_source
import pyspark.sql.worker.plan_data_source_read
import pyspark.worker

import headrace.spark.data_source
import headrace.spark.frames
import headrace.spark.sink
import headrace.spark.source  # noqa: F401

if __name__ == "__main__":
    # A worker collects garbage after every task: it need not look at the modules.
    gc.freeze()
    pyspark.daemon.manager()
