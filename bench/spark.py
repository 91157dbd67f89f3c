"""Spark for benchmarks: a session like that of a long job, timing of frames without a sink, and the CPU time of its processes."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from bench.result import Round
from headrace.spark import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MASTER = "local[2]"


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    running = session(master=MASTER, settings={"spark.driver.memory": "3g"})
    try:
        yield running
    finally:
        running.stop()


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        yield Path(name)


def run_through(frame: DataFrame) -> None:
    """Computes every row of a frame and keeps none."""
    frame.write.format("noop").mode("overwrite").save()


def timed(rows: int, work: Callable[[], object]) -> Round:
    """The rate of some work over this many rows."""
    start, cpu = time.perf_counter(), cpu_s()
    work()
    seconds = time.perf_counter() - start
    return Round(rows / seconds, 1e6 * (cpu_s() - cpu) / rows)


def cpu_s() -> float:
    """CPU seconds of this process and all its descendants: Java and its Python workers."""
    current = psutil.Process()
    total = 0.0
    for process in [current, *current.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total
