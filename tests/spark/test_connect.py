"""Where it runs: through a Spark Connect server, with a client that has no Java."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from headrace.db import Connection, Target
from headrace.spark.sessions import ensure_java
from tests.builders import drain, numbers, topic
from tests.spark.reading import publish_numbers, secret_file

START_S = 120
CLIENT = """
import sys
from headrace.spark import CorrelatorSpec, RuleSpec, correlate, match, session

address, secret = sys.argv[1:]
spark = session(master=address)
assert "connect" in type(spark).__module__, type(spark)
frame = spark.read.format("headrace").options(secret=secret, subscribe="orders", minPartitions="2").load()
hits = match(frame, [RuleSpec(name="large", event_type="placed", action="look", condition="(object #>> '{}')::int > 90")])
pairs = "repeat { push(pair) { sequential { placed, placed } } }"
keyed = correlate(frame, CorrelatorSpec(name="keyed", pattern=pairs, key="key"))
whole = correlate(frame, CorrelatorSpec(name="whole", pattern=pairs))
copy = frame.selectExpr("'copied' as type", "payload").write.format("headrace").options(secret=secret, topic="copy")
copy.mode("append").save()
print(frame.count(), hits.count(), keyed.count(), whole.count())
spark.stop()
"""


@pytest.fixture
def connect_server(tmp_path: Path) -> Iterator[str]:
    """The address of a new Spark Connect server on a free port."""
    ensure_java()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin/spark-submit"), "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    settings = {"spark.ui.enabled": "false", "spark.connect.grpc.binding.port": str(port)}
    command += ["--master", "local[2]", *(f"--conf={name}={value}" for name, value in settings.items()), "spark-internal"]
    environ = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    with (tmp_path / "server.log").open("w") as log:
        # spark-submit is a script that becomes Java: the process started is the server itself.
        server = subprocess.Popen(command, env=environ, cwd=tmp_path, stdout=log, stderr=log)
    try:
        _wait_for(port, server)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + START_S
    while server.poll() is None and time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    pytest.fail("the Spark Connect server did not start")


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.lane("pg18")
def test_everything_runs_through_spark_connect(database: Target, conn: Connection, connect_server: str, tmp_path: Path) -> None:
    topic(conn)
    topic(conn, "copy")
    publish_numbers(conn, 100)
    drain(conn)
    command = [sys.executable, "-c", CLIENT, connect_server, secret_file(tmp_path, database)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout.split() == ["100", "10", "50", "50"], done.stderr[-3000:]
    drain(conn)
    assert sorted(map(int, numbers(conn, "copy"))) == list(range(1, 101))
