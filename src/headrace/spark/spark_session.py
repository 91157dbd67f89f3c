"""The Spark session: the user's own where there is one, else a local one with settings that fit one machine."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.core import NotFound
from headrace.spark.java import ensure_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ANYWHERE = {
    "spark.sql.session.timeZone": "UTC",
    # Rules become long expressions; the default limit would send them to the interpreter (a third of the speed).
    "spark.sql.codegen.hugeMethodLimit": "8000",
}
LOCAL = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    # The one executor lives in the driver's JVM: after two minutes of sleep (a laptop's) it would be given up for good.
    "spark.network.timeout": "24h",
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
    # A micro-batch takes 100 ms instead of 160.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
# A short job is over before Java's second compiler pays off: it starts in 2 s instead of 5, and a long one runs slower.
BRIEF = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def register(spark: SparkSession) -> SparkSession:
    """Makes the format `headrace` known to a session, whose settings stay as they are, and returns the session."""
    from headrace.spark.source.data_source import HeadraceSource

    spark.dataSource.register(HeadraceSource)
    return spark


def session(*, master: str = "local[2]", settings: Mapping[str, str] | None = None, brief: bool = False) -> SparkSession:
    """The active session with its own settings; a new one at `master` when there is none. Both know the format `headrace`.

    `brief`: a local one starts sooner and runs slower. A master is what Spark knows as one (local[2], spark://…, yarn, k8s://…),
    or the address of a Spark Connect server (sc://…)."""
    try:
        import pyspark
        from pyspark.sql import SparkSession
    except ImportError:
        raise NotFound("Spark is not installed; pip install 'headrace[spark]'") from None
    active = SparkSession.getActiveSession()
    if active is not None:
        return register(active)
    if master.startswith("sc://"):
        return register(_configured(SparkSession.builder.remote(master), {**ANYWHERE, **(settings or {})}).getOrCreate())
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local-cluster"):
        # Its workers start executors from there; a Spark installed by pip does not say where it is.
        os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    local = {**LOCAL, **(BRIEF if brief else {})} if re.fullmatch(r"local(\[.*\])?", master) else {}
    builder = SparkSession.builder.master(master).appName("headrace")
    made = _configured(builder, {**ANYWHERE, **local, **(settings or {})}).getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return register(made)


def _configured(builder: SparkSession.Builder, settings: Mapping[str, str]) -> SparkSession.Builder:
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder
