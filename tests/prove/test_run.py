"""Runs of the checker on the product: every promise holds under every fault, and the command reports it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import psutil
import pytest

from headrace.db import Server, Shards, Target
from headrace.prove import FAULTS, RELAY_KINDS, Options, RunResult, prove, write_report
from headrace.prove.faults import make_plan
from headrace.prove.processes.clients import part_on_shard
from headrace.prove.processes.node import NAMES
from headrace.prove.workload import make_transaction
from tests.cli.conftest import call
from tests.conftest import temporary_folder
from tests.debian import find_program

pytestmark = [pytest.mark.timeout(235), pytest.mark.xdist_group("prove"), pytest.mark.lane("pg18")]


def assert_held(run: RunResult) -> None:
    for result in run.checks:
        assert result.holds or result.check == "rate-returns", f"{result.check}: {result.smallest}"


def shard_down_first(faults: Sequence[str]) -> int:
    """A seed whose plan begins with shard-down, since after another fault the rate of the other shard would not be judged, and goes on
    with retention, which finds something to keep only while the slow consumer is behind."""
    plans = ((seed, make_plan(seed, seconds=30, faults=faults)) for seed in count())
    return next(seed for seed, plan in plans if [planned.fault for planned in plan[:2]] == ["shard-down", "retention"])


@pytest.mark.timeout(400)
def test_every_promise_holds_under_every_fault_once(tmp_path: Path) -> None:
    """All kinds except the kill of Spark, which the slow tests have, and those of relays to servers of their own; a full disk only for root, who may mount one."""
    faults = [name for name, fault in FAULTS.items() if not (fault.spark or fault.relays or (fault.opt_in and os.geteuid()))]
    failpoints = ["before:consumed", "after:consumed"]
    options = Options(minutes=0.5, faults=faults, seed=shard_down_first(faults), rate=30, failpoints=failpoints)
    run = prove(replace(options, lead_s=4, pause_min_s=0.3, fault_scale=0.4, lease_s=2))
    assert_held(run)
    records = run.evidence.faults
    assert {record.fault for record in records} == set(faults)
    assert any(record.fault == "failpoint" and record.took_effect and "consumed hit" in record.detail for record in records)
    assert {result.check for result in run.checks if result.examined == 0} <= {
        "rate-returns",
        "pipeline-writes-once",
        "relayed-once",
        "relayed-at-least-once",
    }
    assert_other_shard_continued(run)
    write_report(run, tmp_path / "proof.html")
    assert "every promise that could be checked held; not checked: " in (tmp_path / "proof.html").read_text()


RELAY_FAULTS = ("kill-target", "cut-target", "kill-node", "cut")


def assert_relayed(kinds: Sequence[str], *, minutes: float, seed: int) -> None:
    """Runs relays under kills and cuts of target, node and database, each at least once."""
    options = Options(minutes=minutes, faults=RELAY_FAULTS, seed=seed, rate=40, relays=kinds)
    run = prove(replace(options, lead_s=2, pause_min_s=0.5, fault_scale=0.5))
    assert_held(run)
    assert {record.fault for record in run.evidence.faults if record.took_effect} == set(RELAY_FAULTS)
    assert {kind: len(relayed.events) > 100 for kind, relayed in run.evidence.relayed.items()} == dict.fromkeys(kinds, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kinds", [("nats", "redis"), ("webhook", "kafka"), ("postgres", "headrace"), ("rabbitmq", "rabbitmq-stream")]
)
def test_targets_of_relays_have_the_log_under_faults(kinds: Sequence[str]) -> None:
    for program in {"redis-server"} & {f"{kind}-server" for kind in kinds}:
        find_program(program)
    assert_relayed(kinds, minutes=0.25, seed=5)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_targets_of_relays_have_the_log_again_and_again() -> None:
    assert_relayed(RELAY_KINDS, minutes=6, seed=6)


def assert_other_shard_continued(run: RunResult) -> None:
    """While one shard was down, events were published on the other; those for the dead one arrived later."""
    down = next(record for record in run.evidence.faults if record.fault == "shard-down")
    (other,) = run.evidence.other_shards
    acknowledged = [operation for operation in other.operations if operation.acknowledged]
    assert any("failed" in operation.outcomes for operation in acknowledged), "no producer used the shard that was down"
    assert any(operation.ended_at > down.healed_at for operation in acknowledged), "nothing came after it was back"
    assert any(
        down.started_at < operation.started_at < down.healed_at for operation in run.evidence.operations if operation.acknowledged
    )
    assert all(len(rows) > 10 for rows in (other.consumed, other.firings, other.effects, other.outputs))


def test_sharded_producer_publishes_each_event_on_one_shard() -> None:
    shards = Shards([Target("main", "dbname=one"), Target("shard2", "dbname=two")])
    transactions = [make_transaction(5, "producer-sharded", op) for op in range(1, 60)]
    for transaction in transactions:
        parts = [part_on_shard(transaction, shards, name) for name in ("main", "shard2")]
        assert sorted(event.n for part in parts for event in part.events) == [event.n for event in transaction.events]
    keys = {event.key for transaction in transactions for event in transaction.events}
    assert {shards.shard_of(key).name for key in keys} == {"main", "shard2"}


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [21, 22])
def test_every_promise_holds_under_every_fault_again_and_again(seed: int) -> None:
    """With a pipeline on Spark too."""
    run = prove(Options(minutes=5, seed=seed, spark=True))
    assert_held(run)
    assert {record.fault for record in run.evidence.faults} == {name for name, fault in FAULTS.items() if not fault.opt_in}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_promise_holds_when_a_node_dies_at_every_failpoint() -> None:
    run = prove(Options(minutes=7, faults=["failpoint"], seed=8, rate=40))
    assert_held(run)
    records = run.evidence.faults
    reached = {re.sub(r"^node-\d ([a-z:-]+) hit .*", r"\1", record.detail) for record in records if record.took_effect}
    assert reached == set(NAMES), [record.detail for record in records if not record.took_effect]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_pipeline_whose_driver_and_jvm_are_killed_writes_every_batch_once() -> None:
    run = prove(Options(minutes=0.7, faults=["kill-spark"], seed=6, rate=30, spark=True))
    assert_held(run)
    totals = run.evidence.pipeline
    assert totals is not None and totals.firings > 10 and totals.outputs > 10
    kills = [record.detail for record in run.evidence.faults]
    assert kills and all(int(detail.split()[1]) >= 2 for detail in kills), f"the JVM was not killed: {kills}"


def test_command_runs_on_a_given_server_and_prints_json(server: Server, tmp_path: Path) -> None:
    page, numbers = tmp_path / "proof.html", tmp_path / "proof.json"
    reports = ["--report", str(page), "--report", str(numbers)]
    answer = call("prove", "--minutes", "0.05", "--faults", "", "--dsn", server.dsn(), *reports, "--json", "--rate", "40")
    assert answer.code == 0, answer.err
    summary = answer.json
    assert (summary["holds"], summary["seed"], summary["faults"]) == (True, 1, {})
    assert summary["operations"] > 100 and len(summary["checks"]) >= 20
    assert "<h1" in page.read_text()
    assert json.loads(numbers.read_text()) == summary


def test_command_rejects_what_it_cannot_do(server: Server, tmp_path: Path) -> None:
    assert call("prove", "--faults", "nonsense").code == 5
    assert call("prove", "--faults", "kill-server", "--dsn", server.dsn()).code == 5
    assert call("prove", "--report", str(tmp_path / "proof.pdf")).code == 5
    assert call("prove", "--report", str(tmp_path / "nowhere" / "proof.html")).code == 5


def processes_of(keep: Path) -> list[str]:
    """The processes of a run: each has the folder of the run on its command line."""
    lines = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    return [line for line in lines if str(keep) in line]


def test_command_that_gets_sigterm_leaves_no_process_behind() -> None:
    keep = temporary_folder(in_memory=True) / "kept"
    command = [sys.executable, "-m", "headrace", "prove", "--minutes", "1", "--faults", "", "--keep", str(keep), "--rate", "10"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        assert any("the workload is running" in line for line in process.stderr)
        assert len(processes_of(keep)) > 5, "the server, two nodes and two producers at least"
        process.terminate()
        assert process.wait(60) == 143
        deadline = time.monotonic() + 10
        while (remaining := processes_of(keep)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert remaining == []
    finally:
        process.kill()
        shutil.rmtree(keep.parent)
