"""A target that another package adds works like ours: planned, applied, delivered, dead letters, shown. A broken one stops nothing."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from headrace.actions import list_pauses
from headrace.core import PackageMissing
from headrace.db import Connection, Target
from headrace.relays import Relay, create_relay, get_relay
from headrace.web.console import ConsoleSettings
from tests.builders import fill, topic
from tests.cli.conftest import call
from tests.example_packages import add_entry_point, example_packages, installed_packages
from tests.relays.conftest import MakeRelay
from tests.relays.receiver import Receiver
from tests.relays.test_webhook import node, settled
from tests.web.console.conftest import serve
from tests.web.console.test_guard import ask

__all__ = ["example_packages", "installed_packages"]

DEFINITIONS = """
relays:
  - name: audit
    topic: orders
    target: file
    options: {file: "{topic}.{partition}.jsonl", line_bytes_max: 20}
    start: earliest
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADRACE_FILE_TARGET", str(tmp_path))
    return tmp_path


def values(file: Path) -> list[object]:
    return [json.loads(line)["body"] for line in file.read_bytes().splitlines()]


@pytest.mark.usefixtures("example_packages")
async def test_target_of_a_package_is_applied_delivered_and_shown(conn: Connection, database: Target, files: Path) -> None:
    topic(conn)
    fill(conn, 3)
    conn.execute("select headrace.publish('orders', 'placed', to_jsonb(repeat('x', 30)))")
    definitions = files / "relays.yaml"
    definitions.write_text(DEFINITIONS.replace("line_bytes_max", "line_bytes"))
    refused = call("plan", str(definitions), "--dsn", database.dsn)
    assert refused.code == 5 and "did you mean 'line_bytes_max'" in refused.err
    definitions.write_text(DEFINITIONS)
    assert "audit" in call("plan", str(definitions), "--dsn", database.dsn).out
    assert call("apply", str(definitions), "--yes", "--dsn", database.dsn).code == 0
    async with node(database):
        await settled(conn, "audit")
        assert values(files / "orders.0.jsonl") == [1, 2, 3]
        letters = conn.execute("select error from headrace.dead_letter").fetchall()
        assert letters == [("TargetRefused: the body has 32 bytes, and line_bytes_max is 20",)]
    options = json.dumps({"file": "{topic}.{partition}.jsonl"})
    conn.execute("update headrace.relay set options = %s where relay = 'audit'", (options,))
    assert call("dead-letter", "redrive", "orders/relay.audit", "--dsn", database.dsn).code == 0
    async with node(database), asyncio.timeout(20):
        while len(values(files / "orders.0.jsonl")) < 4:
            await asyncio.sleep(0.02)
    with serve([database], ConsoleSettings()) as address:
        assert "orders → file" in (await asyncio.to_thread(ask, f"{address}/relays/audit")).text
        assert '<option value="file"' in (await asyncio.to_thread(ask, f"{address}/relays/-/create")).text


async def test_node_without_the_package_says_so_and_runs_the_others(
    conn: Connection, database: Target, receiver: Receiver, make_relay: MakeRelay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic(conn)
    fill(conn, 5)
    (tmp_path / "broken_target.py").write_text("raise RuntimeError('no licence')")
    add_entry_point(tmp_path, "headrace.relay_targets", "broken", "broken_target", package="broken-target")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(
        PackageMissing, match=r"'broken' of the package broken-target cannot be loaded .* RuntimeError: no licence"
    ):
        create_relay(conn, Relay(name="broken", topic="orders", target="broken"))
    # By SQL, as from an environment that has the packages.
    for target in ("broken", "absent"):
        conn.execute("insert into headrace.relay (relay, topic, target) values (%s, 'orders', %s)", (target, target))
    make_relay(name="good")
    async with node(database):
        await receiver.wait(5)
        await settled(conn, "good")
        async with asyncio.timeout(20):
            while conn.execute("select count(*) from headrace.failure where kind = 'relay'").fetchone() != (2,):
                await asyncio.sleep(0.02)
        errors = dict(conn.execute("select name, error from headrace.failure where kind = 'relay'").fetchall())
        assert "there is no target 'absent'" in errors["absent"] and "no licence" in errors["broken"]
        # Another node may have the packages: nothing is marked as wrong.
        assert {get_relay(conn, name).status for name in ("broken", "absent")} == {"pending"}
    assert list_pauses(conn) == []
