"""Webhooks under kill -9: nothing is lost, the order of a key is kept, and only what was under way comes twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from headrace.consume import consumer_lag
from headrace.db import Connection, Target, free_port
from headrace.relays import Relay, create_relay
from tests.builders import drain, start_python, topic, wait_until
from tests.relays.conftest import SECRET


def accepted(file: Path) -> list[dict[str, Any]]:
    """What the receiver has accepted; its last line may be cut off by the kill."""
    entries = []
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        try:
            entries.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return entries


@pytest.mark.parametrize("kills", [1, pytest.param(6, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
def test_kills_of_node_and_receiver_lose_nothing_and_keep_the_order_of_keys(
    conn: Connection, database: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: int
) -> None:
    monkeypatch.setenv("HEADRACE_RELAY_NETWORKS", "127.0.0.1/32")
    monkeypatch.setenv("HEADRACE_SECRET_DEFAULT__RELAY_SECRET", SECRET)
    count, batch = 1000 * (kills + 1), 20
    topic(conn, partitions=2)
    conn.execute(
        """select headrace.publish('orders', 'placed', to_jsonb(i), p_key => 'k' || i %% 40, p_headers => jsonb_build_object('x-key', 'k' || i %% 40))
           from generate_series(1, %s) i""",
        (count,),
    )
    drain(conn)
    file, port = tmp_path / "accepted", free_port()
    options = {"url": f"http://127.0.0.1:{port}/ok", "secret": "env:RELAY_SECRET", "timeout_s": 2}
    create_relay(
        conn,
        Relay(name="hook", topic="orders", target="webhook", options=options, start="earliest", batch=batch, concurrency=2, backoff_s=0.1,
              backoff_max_s=0.2),
    )  # fmt: skip

    def start_receiver() -> subprocess.Popen[str]:
        return start_python("tests.relays.receiver", str(port), str(file))

    def start_node() -> subprocess.Popen[str]:
        return start_python("headrace", "node", "run", "--dsn", database.dsn)

    receiver, node = start_receiver(), start_node()
    try:
        for _ in range(kills):
            before = len(accepted(file))
            wait_until(lambda before=before: len(accepted(file)) > before + 200, "deliveries")  # type: ignore[misc]
            os.kill(node.pid, signal.SIGKILL)
            node.wait()
            node = start_node()
            before = len(accepted(file))
            wait_until(lambda before=before: len(accepted(file)) > before + 200, "deliveries by the new node")  # type: ignore[misc]
            os.kill(receiver.pid, signal.SIGKILL)
            receiver.wait()
            receiver = start_receiver()
        wait_until(lambda: not any(lag.lag_events for lag in consumer_lag(conn, consumer="relay.hook")), "the end")
    finally:
        for process in (node, receiver):
            process.terminate()
            process.wait()
    entries = accepted(file)
    assert {entry["value"] for entry in entries} == set(range(1, count + 1)), "nothing is lost"
    assert len(entries) - count <= 2 * kills * 2 * batch, "only what was under way comes twice"
    first: dict[str, list[int]] = defaultdict(list)
    for entry in entries:
        if entry["value"] not in first[entry["key"]]:
            first[entry["key"]].append(entry["value"])
    assert all(values == sorted(values) for values in first.values()), "the order of a key is kept"
    assert conn.execute("select count(*) from headrace.dead_letter").fetchone() == (0,)
