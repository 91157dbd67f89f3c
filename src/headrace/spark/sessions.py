"""Spark sessions: the active one if there is one, else a new one with settings for one machine."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.core import NotFound
from headrace.spark.java import ensure_java, without_vectors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    # Rules become long expressions; the default limit would send them to the interpreter (a third of the speed).
    "spark.sql.codegen.hugeMethodLimit": "8000",
}
LOCAL = {
    # Nobody else has to reach a session on one machine.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    # The only executor lives in the driver's JVM: after a laptop sleeps two minutes, Spark would drop it for good.
    "spark.network.timeout": "24h",
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
    # A micro-batch takes 100 ms instead of 160.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
# A short job ends before Java's second compiler pays off: Spark starts in 2 s instead of 5; a long job runs slower.
BRIEF = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def register(spark: SparkSession) -> SparkSession:
    """Adds the format `headrace` and the SQL functions headrace_events and headrace_match to a session, leaves its settings alone, and
    returns it."""
    from headrace.spark.data_source import HeadraceSource
    from headrace.spark.sql_functions import register_functions

    spark.dataSource.register(HeadraceSource)
    register_functions(spark)
    return spark


def session(*, master: str = "local[2]", settings: Mapping[str, str] | None = None, brief: bool = False) -> SparkSession:
    """The active session as it is, or a new one at `master`. Both know the format `headrace`.

    `master` is what Spark accepts (local[2], spark://…, yarn, k8s://…) or the address of a Spark Connect server (sc://…).
    `brief`: a local session starts sooner and runs slower."""
    try:
        import pyspark
        from pyspark.sql import SparkSession
    except ImportError:
        raise NotFound("Spark is not installed; pip install 'headrace[spark]'") from None
    active = SparkSession.getActiveSession()
    if active is not None:
        return register(active)
    if master.startswith("sc://"):
        return register(SparkSession.builder.remote(master).config(map={**SETTINGS, **(settings or {})}).getOrCreate())
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("local-cluster"):
        # Its workers start executors from SPARK_HOME, which a Spark installed by pip does not set.
        os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    builder = SparkSession.builder.master(master).appName("headrace")
    if re.fullmatch(r"local(\[.*\])?", master):
        spark = _start_quietly(builder.config(map={**SETTINGS, **_local_settings(brief=brief), **(settings or {})}))
    else:
        spark = builder.config(map={**SETTINGS, **(settings or {})}).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return register(spark)


def _local_settings(*, brief: bool) -> dict[str, str]:
    settings = {**LOCAL, **(BRIEF if brief else {})}
    # A Spark of the user's own has its own settings for logs.
    if not any(os.environ.get(name) for name in ("SPARK_CONF_DIR", "SPARK_HOME")):
        settings["spark.driver.extraJavaOptions"] += f" -Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}"
    return settings


def _start_quietly(builder: SparkSession.Builder) -> SparkSession:
    """Starts Spark without the lines that say nothing about the job."""
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    with without_vectors():
        return builder.getOrCreate()
