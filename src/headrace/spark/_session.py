"""The Spark session: the user's own where there is one, else a local one with settings that fit one machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.core import NotFound
from headrace.spark._java import ensure_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    # Rules become long expressions; the default limit would send them to the interpreter (a third of the speed).
    "spark.sql.codegen.hugeMethodLimit": "8000",
    # A short job is over before the second compiler pays off: start-up falls from 5 s to 2 s.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def session(*, master: str = "local[2]", settings: Mapping[str, str] | None = None) -> SparkSession:
    """The active session, untouched; a new one at `master` when there is none."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise NotFound("Spark is not installed; pip install 'headrace[spark]'") from None
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("headrace")
    for name, value in {**LOCAL, **(settings or {})}.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made
