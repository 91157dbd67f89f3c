"""The pipeline of the workload: a Spark driver with its JVM, which runs the rules and correlators of one topic."""

from __future__ import annotations

import os
import signal

from headrace.prove.bugs.pipeline import plant_in_pipeline
from headrace.prove.processes.config import ProcessConfig
from headrace.prove.workload import TRIPS

EVENTS_MAX = 200
"""Small batches: the more batches, the more likely a kill hits one."""
SETTINGS = {"spark.driver.memory": "512m"}


def run_pipeline(config: ProcessConfig) -> None:
    """A pipeline until SIGTERM."""
    # Imported here: the other processes of the workload do not need Spark, and it takes a second to load.
    from headrace.spark import session
    from headrace.spark.pipeline import Pipeline

    # Spark's own processes inherit the environment; a query plan never shows it.
    os.environ["HEADRACE_DSN"] = config.dsn
    plant_in_pipeline(config.bugs)
    pipeline = Pipeline(session(brief=True, settings=SETTINGS), [TRIPS], events_max=EVENTS_MAX)
    signal.signal(signal.SIGTERM, lambda *_: pipeline.stop())
    pipeline.run()
