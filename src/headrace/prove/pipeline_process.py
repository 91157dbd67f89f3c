"""The pipeline of the workload: a Spark driver with its JVM, which runs the rules and correlators of one topic."""

from __future__ import annotations

import os
import signal

from headrace.prove.actor import Orders
from headrace.prove.bug_pipeline import plant_in_pipeline
from headrace.prove.workload import TRIPS

EVENTS_MAX = 200
"""Small batches: the more there are, the more a kill meets in the middle."""
SETTINGS = {"spark.driver.memory": "512m"}


def run_pipeline(orders: Orders) -> None:
    """A pipeline until SIGTERM."""
    # Here, not above: the other processes of the workload have no use for Spark, and it takes a second to load.
    from headrace.spark import session
    from headrace.spark.pipeline import Pipeline

    # Spark's own processes inherit the environment; a plan never shows it.
    os.environ["HEADRACE_DSN"] = orders.dsn
    plant_in_pipeline(orders.bugs)
    pipeline = Pipeline(session(brief=True, settings=SETTINGS), [TRIPS], events_max=EVENTS_MAX)
    signal.signal(signal.SIGTERM, lambda *_: pipeline.stop())
    pipeline.run()
