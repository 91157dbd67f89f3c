"""Plan, workload, histories, proxy: the seed repeats them, and a kill loses no line."""

from __future__ import annotations

import math
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import msgspec
import psycopg
import pytest
from hypothesis import given, settings, strategies as st

from headrace.core import Invalid
from headrace.prove import FAULTS
from headrace.prove.environment import LEAD_S
from headrace.prove.evidence import Completed, History, Invoked, NoEffect, ReadEvent, read_history
from headrace.prove.faults import TAIL_S, Nemesis, PlannedFault, make_plan, select_faults
from headrace.prove.processes import ProcessConfig, is_alive
from headrace.prove.processes.clients import next_op
from headrace.prove.proxy import Proxy
from headrace.prove.run import read_operations
from headrace.prove.workload import make_transaction
from tests.prove.evidence import ORDERS


@settings(deadline=None)
@given(st.integers(0, 2**40), st.floats(1, 5000), st.lists(st.sampled_from(sorted(FAULTS)), min_size=1, max_size=20, unique=True))
def test_same_seed_gives_the_same_plan_with_every_fault_within_its_time(seed: int, seconds: float, faults: list[str]) -> None:
    plan = make_plan(seed, seconds=seconds, faults=faults)
    assert plan == make_plan(seed, seconds=seconds, faults=faults)
    assert [planned.at_s for planned in plan] == sorted(planned.at_s for planned in plan)
    assert all(planned.at_s >= LEAD_S for planned in plan)
    assert all(planned.at_s < seconds - TAIL_S for planned in plan[len(faults) :]), "only the first round may take longer"
    assert len(plan) >= len(faults)
    for start in range(0, len(plan) - len(faults) + 1, len(faults)):
        assert {planned.fault for planned in plan[start : start + len(faults)]} == set(faults), "every fault once per round"


def test_other_seeds_give_other_plans_and_values() -> None:
    plans = {make_plan(seed, seconds=600, faults=tuple(FAULTS)) for seed in range(20)}
    assert len(plans) == 20
    assert make_transaction(1, "p", 7) == make_transaction(1, "p", 7)
    assert make_transaction(1, "p", 7) != make_transaction(2, "p", 7) != make_transaction(2, "q", 7)


def test_an_hour_has_more_than_a_hundred_faults() -> None:
    assert len(make_plan(1, seconds=3600, faults=tuple(FAULTS))) >= 102


def test_values_rise_along_a_producer() -> None:
    numbers = [sent.n for op in range(1, 200) for sent in make_transaction(3, "p", op).events]
    assert numbers == sorted(numbers) and len(set(numbers)) == len(numbers)


def test_fault_without_effect_is_reported_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def without_effect(*_: object) -> Iterator[str]:
        yield NoEffect("not reached")

    @contextmanager
    def unreachable(*_: object) -> Iterator[str]:
        raise psycopg.OperationalError("no server")
        yield ""

    lines: list[str] = []
    environment = SimpleNamespace(processes=SimpleNamespace(restart_dead=lambda: None))
    for name, inject in (("cut", without_effect), ("delay", unreachable)):
        monkeypatch.setitem(FAULTS, name, replace(FAULTS[name], inject=inject))
    nemesis = Nemesis(environment, [PlannedFault(0, "cut", 1), PlannedFault(0, "delay", 1)], lines.append)  # type: ignore[arg-type]
    nemesis.run(0.0, math.inf)
    records = msgspec.json.decode(msgspec.json.encode(nemesis.faults))
    assert [(record["fault"], record["took_effect"]) for record in records] == [("cut", False), ("delay", False)]
    assert "not reached" in lines[0] and "no server" in lines[1]


def test_faults_that_kill_the_server_are_rejected_on_a_given_server() -> None:
    assert "kill-server" in select_faults(None, own_server=True)
    assert "kill-server" not in select_faults(None, own_server=False)
    with pytest.raises(Invalid, match="kill-server"):
        select_faults(["kill-server"], own_server=False)
    with pytest.raises(Invalid, match="kill-spark needs a pipeline"):
        select_faults(["kill-spark"], own_server=True)
    assert "kill-spark" not in select_faults(None, own_server=True)
    assert "kill-spark" in select_faults(None, own_server=False, spark=True)
    with pytest.raises(Invalid, match="no fault nonsense"):
        select_faults(["nonsense"], own_server=True)


def test_operations_keep_every_outcome_and_a_restarted_producer_continues(tmp_path: Path) -> None:
    first = History(tmp_path / "producer-1.0001.jsonl")
    first.write(Invoked(op=1, at=1.0, events=tuple(ORDERS)), Completed(op=1, at=2.0, outcome="ok"))
    first.write(Invoked(op=2, at=3.0, events=(), commits=False), Completed(op=2, at=4.0, outcome="rolled_back"))
    first.write(Invoked(op=3, at=5.0, events=()))
    assert next_op(tmp_path, "producer-1") == 3, "it repeats the transaction it had begun"
    second = History(tmp_path / "producer-1.0002.jsonl")
    second.write(Invoked(op=3, at=6.0, events=()), Completed(op=3, at=7.0, outcome="unknown"))
    second.write(Invoked(op=3, at=8.0, events=()), Completed(op=3, at=9.0, outcome="ok"))
    operations = {operation.op: operation for operation in read_operations(tmp_path, "producer")}
    assert (operations[1].acknowledged, operations[2].commits) == (True, False)
    assert (operations[3].outcomes, operations[3].attempts) == (("unknown", "ok"), 3)
    assert next_op(tmp_path, "producer-1") == 4


def test_kill_loses_no_line_of_a_history(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from uuid import UUID\n"
        "from headrace.prove.evidence import History, ReadEvent\n"
        "history = History(Path(sys.argv[1]))\n"
        "n = 0\n"
        "while True:\n"
        "    n += 1\n"
        "    history.write(ReadEvent(at=0.0, topic='t', position=n, id=UUID(int=n), digest=n))\n"
        "    print(n, flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "reader.0001.jsonl")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    while int(process.stdout.readline()) < 200:
        pass
    process.send_signal(signal.SIGKILL)
    printed = [200, *(int(line) for line in process.stdout.read().split())]
    process.wait()
    positions = [record.position for record in read_history(tmp_path, "reader") if isinstance(record, ReadEvent)]
    assert positions == list(range(1, len(positions) + 1)) and len(positions) >= max(printed)


class Echo(threading.Thread):
    """A server that sends back what it receives."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]

    def run(self) -> None:
        while True:
            try:
                conn, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(conn,), daemon=True).start()

    def _answer(self, conn: socket.socket) -> None:
        try:
            while data := conn.recv(4096):
                conn.sendall(data)
        except OSError:
            return


def is_closed(conn: socket.socket) -> bool:
    """True if the other side has closed or reset the connection."""
    try:
        return conn.recv(10) == b""
    except ConnectionError:
        return True


def test_proxy_forwards_delays_swallows_cuts_and_rejects() -> None:
    echo = Echo()
    echo.start()
    proxy = Proxy("127.0.0.1", echo.port)
    proxy.start()
    try:
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as conn:
            conn.sendall(b"hello")
            assert conn.recv(10) == b"hello"
            proxy.delay_s = 0.1
            start = time.monotonic()
            conn.sendall(b"slowly")
            assert conn.recv(10) == b"slowly"
            assert time.monotonic() - start >= 0.2
            proxy.delay_s = 0.0
            proxy.swallow()
            conn.sendall(b"late")
            conn.settimeout(0.2)
            with pytest.raises(TimeoutError):
                conn.recv(10)
            proxy.forward()
            conn.settimeout(5)
            assert conn.recv(10) == b"late"
            proxy.open = False
            proxy.cut()
            assert is_closed(conn)
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as rejected:
            assert is_closed(rejected)
    finally:
        proxy.stop()
        echo.socket.close()


def test_processes_end_when_the_checker_is_killed(tmp_path: Path) -> None:
    config = ProcessConfig(name="producer-1", dsn="postgresql://nobody@127.0.0.1:1/none", folder=str(tmp_path), seed=1)
    child = [sys.executable, "-m", "headrace.prove.processes.clients", "producer", msgspec.json.encode(config).decode()]
    program = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:]).pid, flush=True); sys.stdin.read()"
    checker = subprocess.Popen([sys.executable, "-c", program, *child], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert checker.stdout is not None
    pid = int(checker.stdout.readline())
    until = time.monotonic() + 30
    while not (tmp_path / "producer-1.0001.jsonl").exists() and time.monotonic() < until:
        time.sleep(0.1)
    checker.kill()
    checker.wait()
    while is_alive(pid):
        assert time.monotonic() < until, "it has survived the checker"
        time.sleep(0.1)
