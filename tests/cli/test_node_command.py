"""`headrace node run`: real processes, real signals. `headrace server`: the embedded PostgreSQL."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from headrace.consume import consumer_lag
from headrace.core import NotMigrated
from headrace.db import Connection, Target
from headrace.log.topics import get_topic
from headrace.node import require_migrated
from tests.builders import topic
from tests.cli.conftest import call

pytestmark = pytest.mark.lane("pg18")

APP = """
    from headrace import Headrace

    app = Headrace()

    @app.consumer("orders")
    def billing(event, conn):
        conn.execute("insert into bill values (%s)", (event.payload,))
"""


def start(database: Target, folder: Path, *words: str) -> subprocess.Popen[str]:
    (folder / "shop.py").write_text(textwrap.dedent(APP))
    command = [sys.executable, "-m", "headrace", "node", "run", *words, "--dsn", database.dsn, "--log-json"]
    environ = {**os.environ, "PYTHONPATH": ":".join(str(Path(path).absolute()) for path in sys.path if path)}
    return subprocess.Popen(command, cwd=folder, env=environ, stderr=subprocess.PIPE, text=True)


def wait_for(what: str, conn: Connection, statement: str, wanted: object) -> None:
    deadline = time.monotonic() + 60
    while (row := conn.execute(statement).fetchone()) != (wanted,):
        assert time.monotonic() < deadline, f"{what}: {row} instead of {wanted}"
        time.sleep(0.05)


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_node_handles_events_and_ends_in_order(database: Target, conn: Connection, tmp_path: Path, sign: signal.Signals) -> None:
    topic(conn)
    conn.execute("create table bill (n int)")
    node = start(database, tmp_path, "shop:app")
    try:
        conn.execute("select headrace.publish('orders', 'placed', to_jsonb(n)) from generate_series(1, 20) n")
        wait_for("bills", conn, "select count(*) from bill", 20)
    finally:
        node.send_signal(sign)
        _, output = node.communicate(timeout=60)
    assert node.returncode == 0, output
    lines = [json.loads(line) for line in output.splitlines()]
    [announcement] = [line["event"] for line in lines if line["event"].startswith("node runs on main")]
    assert "consumers: orders/billing" in announcement
    assert lines[-1]["event"] == "node stopped; 20 events sequenced, 20 handled, rules fired 0 times, 0 actions handled"
    assert {"level", "logger", "timestamp"} <= lines[0].keys()
    assert sum(one.lag_events for one in consumer_lag(conn)) == 0


def test_node_without_application_sequences(database: Target, conn: Connection, tmp_path: Path) -> None:
    topic(conn)
    node = start(database, tmp_path)
    try:
        conn.execute("select headrace.publish('orders', 'placed', '1')")
        wait_for("head", conn, "select position from headrace.log_head(headrace.topic_id('orders'))", 1)
    finally:
        node.terminate()
        node.communicate(timeout=60)
    assert node.returncode == 0
    assert get_topic(conn, "orders").waiting == 0


def test_node_without_sequencer_leaves_the_outbox(database: Target, conn: Connection, tmp_path: Path) -> None:
    topic(conn)
    conn.execute("create table bill (n int)")
    node = start(database, tmp_path, "shop:app", "--no-sequencer")
    try:
        wait_for("consumer", conn, "select count(*) from headrace.consumer", 1)
        conn.execute("select headrace.publish('orders', 'placed', '1')")
        assert get_topic(conn, "orders").waiting == 1
    finally:
        node.terminate()
        node.communicate(timeout=60)
    assert node.returncode == 0
    assert get_topic(conn, "orders").waiting == 1


def test_node_whose_topic_is_missing_says_so(database: Target, tmp_path: Path) -> None:
    node = start(database, tmp_path, "shop:app")
    try:
        _, output = node.communicate(timeout=60)
    finally:
        node.kill()
    assert node.returncode == 3, output
    assert 'UnknownTopic: there is no topic "orders"' in output
    assert "Traceback" not in output
    assert "node runs on" not in output, "a refused node never ran"


def test_embedded_server_starts_serves_and_stops(shared_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_DSN", raising=False)
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setenv("HEADRACE_DATA", str(shared_folder / "data"))
    assert call("server", "status").code == 3
    started = call("server", "start", "--json").json
    try:
        assert started["running"] is True
        assert call("server", "status", "--json").json == started
        assert call("migrate").code == 0
        assert call("topic", "create", "orders", "--json").json["created_on"] == ["embedded"]
    finally:
        assert call("server", "stop", "--json").json["running"] is False
    assert call("server", "status").code == 3
    assert call("server", "stop").code == 0, "stopping what does not run is fine"


def test_node_starts_beside_functions_of_another_version(
    database: Target, conn: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    conn.execute("update headrace_internal.migration set checksum = 'newer' where name = 'log/functions/publish'")
    require_migrated(database)
    assert "has functions of another version" in caplog.text
    conn.execute("delete from headrace_internal.migration where name = 'schema'")
    with pytest.raises(NotMigrated):
        require_migrated(database)
