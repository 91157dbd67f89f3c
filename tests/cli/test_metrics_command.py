"""`headrace metrics`."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
import yaml

from headrace.cli import main
from headrace.db import Connection, Target
from tests.builders import fill, topic


def run(capsys: pytest.CaptureFixture[str], words: Sequence[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code in (0, None)
    return capsys.readouterr().out


def test_show_prints_the_numbers_in_three_forms(database: Target, conn: Connection, capsys: pytest.CaptureFixture[str]) -> None:
    topic(conn)
    fill(conn, 3)
    words = ["metrics", "show", "--dsn", database.dsn]
    assert "headrace_sequenced_events_total" in run(capsys, words)
    rows = json.loads(run(capsys, [*words, "--json"]))
    assert {
        "shard": "main", "metric": "headrace_sequenced_events_total", "labels": {"namespace": "default", "topic": "orders"}, "value": 3.0,
    } in rows  # fmt: skip
    lines = run(capsys, [*words, "--text"]).splitlines()
    assert 'headrace_sequenced_events_total{namespace="default",shard="main",topic="orders"} 3.0' in lines


def test_dashboard_and_alerts_are_printed_without_a_database(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_DSN", "postgresql://127.0.0.1:1/nowhere")
    assert json.loads(run(capsys, ["metrics", "dashboard"]))["title"] == "headrace"
    assert yaml.safe_load(run(capsys, ["metrics", "alerts"]))["groups"][0]["name"] == "headrace"
