"""Spark for benchmarks: a session as a long job has it, frames timed without a sink, and the CPU of all it starts."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench._lab import TICKS_PER_S
from bench._result import Round
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
    """The rate of something that goes through so many rows."""
    began, cpu = time.perf_counter(), cpu_s()
    work()
    seconds = time.perf_counter() - began
    return Round(rows / seconds, 1e6 * (cpu_s() - cpu) / rows)


def cpu_s() -> float:
    """CPU seconds of this process and all below it: Java and its Python workers."""
    used, parents = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            parents[int(entry.name)] = int(fields[1])
            used[int(entry.name)] = sum(map(int, fields[11:15])) / TICKS_PER_S
    below = {os.getpid()}
    while True:
        more = {pid for pid, parent in parents.items() if parent in below} - below
        if not more:
            return sum(used.get(pid, 0.0) for pid in below)
        below |= more
