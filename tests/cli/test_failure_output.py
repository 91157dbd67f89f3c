"""What failed is shown: in the log of a node, by `consumer lag`, and by `dead-letter`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from headrace.db import Connection, Target
from tests.builders import topic, wait_until
from tests.cli.conftest import Cli

pytestmark = pytest.mark.lane("pg18")

APP = """
    from headrace import Bury, Failure, Headrace

    app = Headrace()

    @app.consumer("orders", failure=Failure.dead_letter(attempts=1))
    async def billing(event, tx):
        raise KeyError("price\\nof what")

    @app.consumer("orders", failure=Failure.retry(backoff_s=300), concurrency=1)
    def shipping(event, tx):
        raise RuntimeError(f"no address {event.payload}\\nat all")

    @app.handler("MAIL", attempts=1)
    def mail(action, tx):
        raise OSError("line is busy")
"""


def run_node(database: Target, folder: Path, is_done: Any, *words: str) -> str:
    (folder / "shop.py").write_text(textwrap.dedent(APP))
    command = [sys.executable, "-m", "headrace", "node", "run", "shop:app", "--dsn", database.dsn, *words]
    environ = {**os.environ, "PYTHONPATH": ":".join(str(Path(path).absolute()) for path in sys.path if path)}
    node = subprocess.Popen(command, cwd=folder, env=environ, stderr=subprocess.PIPE, text=True)
    try:
        wait_until(is_done, "all failures")
    finally:
        node.terminate()
        _, output = node.communicate(timeout=60)
    return output


@pytest.fixture
def failed(conn: Connection) -> Any:
    topic(conn)
    conn.execute("select headrace.publish('orders', 'placed', '7')")
    conn.execute("select headrace.send_action('MAIL')")
    statement = """select (select count(*) from headrace.event_dead_letter) + (select count(*) from headrace.attempt)
        + (select count(*) from headrace.cursor where error is not null)"""
    return lambda: conn.execute(statement).fetchone() == (3,)


def test_log_has_fields_and_each_traceback_once(
    cli: Cli, database: Target, conn: Connection, tmp_path: Path, failed: Any
) -> None:
    output = run_node(database, tmp_path, failed, "--log-json")
    lines = [json.loads(line) for line in output.splitlines()]
    assert len({line["node"] for line in lines}) == 1 and lines[0]["node"]
    by_consumer = {line.get("consumer"): line for line in lines if line.get("topic")}
    billing, shipping = by_consumer["billing"], by_consumer["shipping"]
    assert (billing["topic"], billing["position"], billing["attempt"]) == ("orders", 1, 1)
    assert billing["error"] == "KeyError: 'price\\nof what'"
    assert shipping["error"] == "RuntimeError: no address 7"
    assert shipping["traceback"].count("in shipping") == 1 and shipping["traceback"].endswith("at all")
    assert "headrace/consume" not in shipping["traceback"]
    [mail] = [line for line in lines if line.get("action")]
    assert (mail["action"], mail["attempt"], mail["error"]) == ("MAIL", 1, "OSError: line is busy")
    assert "in mail" in mail["traceback"] and output.count("in mail\\n") == 1

    shown = cli("consumer", "lag").out
    assert "RuntimeError: no address 7" in shown and "at all" not in shown
    [lag] = [lag for lag in cli("consumer", "lag", "--json").json if lag["error"]]
    assert lag["traceback"].endswith("at all\n") and "in shipping" in lag["traceback"]
    letters = cli("dead-letter", "list").out
    assert "KeyError: 'price\\nof what'" in letters and "OSError: line is busy" in letters
    assert {group["error"] for group in cli("dead-letter", "groups", "--json").json} == {"KeyError: …", "OSError: line is busy"}
    letter = cli("dead-letter", "show", "orders/billing/1", "--json").json
    assert letter["error"] == "KeyError: 'price\\nof what'" and "in billing" in letter["traceback"]


def test_log_for_people_has_the_traceback_and_no_fields(database: Target, conn: Connection, tmp_path: Path, failed: Any) -> None:
    output = run_node(database, tmp_path, failed)
    assert output.count("in shipping") == output.count("in mail") == 1
    assert "consumer orders/shipping failed at position 1: RuntimeError: no address 7; it will be retried" in output
    assert "position=" not in output and "node=" not in output
