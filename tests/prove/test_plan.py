"""Plan, workload, histories, proxy: repeatable by the seed, and no line lost by a kill."""

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
from hypothesis import given
from hypothesis import strategies as st

from headrace.core import Invalid
from headrace.prove import FAULTS
from headrace.prove.actor import Orders
from headrace.prove.evidence import Missed
from headrace.prove.final import read_operations
from headrace.prove.history import Ended, History, Invoked, Seen, read_history
from headrace.prove.nemesis import Nemesis, chosen_faults
from headrace.prove.plan import LEAD_S, TAIL_S, Planned, make_plan
from headrace.prove.producer import next_op
from headrace.prove.proxy import Proxy
from headrace.prove.workload import transaction
from tests.prove.evidence import ORDERS


@given(st.integers(0, 2**40), st.floats(1, 5000), st.lists(st.sampled_from(sorted(FAULTS)), min_size=1, max_size=20, unique=True))
def test_same_seed_gives_the_same_plan_with_every_fault_within_its_time(seed: int, seconds: float, faults: list[str]) -> None:
    plan = make_plan(seed, seconds=seconds, faults=faults)
    assert plan == make_plan(seed, seconds=seconds, faults=faults)
    assert [one.at_s for one in plan] == sorted(one.at_s for one in plan)
    assert all(one.at_s >= LEAD_S for one in plan)
    assert all(one.at_s < seconds - TAIL_S for one in plan[len(faults) :]), "the first round comes, however short the time"
    assert len(plan) >= len(faults)
    for start in range(0, len(plan) - len(faults) + 1, len(faults)):
        assert {one.fault for one in plan[start : start + len(faults)]} == set(faults), "every fault once per round"


def test_other_seeds_give_other_plans_and_values() -> None:
    plans = {make_plan(seed, seconds=600, faults=tuple(FAULTS)) for seed in range(20)}
    assert len(plans) == 20
    assert transaction(1, "p", 7) == transaction(1, "p", 7)
    assert transaction(1, "p", 7) != transaction(2, "p", 7) != transaction(2, "q", 7)


def test_an_hour_has_more_than_a_hundred_faults() -> None:
    assert len(make_plan(1, seconds=3600, faults=tuple(FAULTS))) >= 102


def test_values_rise_along_a_producer() -> None:
    numbers = [sent.n for op in range(1, 200) for sent in transaction(3, "p", op).events]
    assert numbers == sorted(numbers) and len(set(numbers)) == len(numbers)


def test_fault_that_is_tried_in_vain_is_told_and_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def in_vain(*_: object) -> Iterator[str]:
        yield Missed("nobody came")

    @contextmanager
    def unreachable(*_: object) -> Iterator[str]:
        raise psycopg.OperationalError("no server")
        yield ""

    told: list[str] = []
    scene = SimpleNamespace(cast=SimpleNamespace(mend=lambda: None))
    for name, act in (("cut", in_vain), ("delay", unreachable)):
        monkeypatch.setitem(FAULTS, name, replace(FAULTS[name], act=act))
    nemesis = Nemesis(scene, [Planned(0, "cut", 1), Planned(0, "delay", 1)], told.append)  # type: ignore[arg-type]
    nemesis.run(0.0, math.inf)
    kept = msgspec.json.decode(msgspec.json.encode(nemesis.fallen))
    assert [(one["fault"], one["struck"]) for one in kept] == [("cut", False), ("delay", False)]
    assert "nobody came" in told[0] and "no server" in told[1]


def test_faults_that_kill_the_server_are_refused_where_it_is_not_ours() -> None:
    assert "kill-server" in chosen_faults(None, own_server=True)
    assert "kill-server" not in chosen_faults(None, own_server=False)
    with pytest.raises(Invalid, match="kill-server"):
        chosen_faults(["kill-server"], own_server=False)
    with pytest.raises(Invalid, match="kill-spark needs a pipeline"):
        chosen_faults(["kill-spark"], own_server=True)
    assert "kill-spark" not in chosen_faults(None, own_server=True)
    assert "kill-spark" in chosen_faults(None, own_server=False, spark=True)
    with pytest.raises(Invalid, match="no fault nonsense"):
        chosen_faults(["nonsense"], own_server=True)


def test_operations_keep_every_outcome_and_a_restarted_producer_goes_on(tmp_path: Path) -> None:
    first = History(tmp_path / "producer-1.0001.jsonl")
    first.write(Invoked(op=1, at=1.0, events=tuple(ORDERS)), Ended(op=1, at=2.0, outcome="ok"))
    first.write(Invoked(op=2, at=3.0, events=(), commits=False), Ended(op=2, at=4.0, outcome="rolled_back"))
    first.write(Invoked(op=3, at=5.0, events=()))
    assert next_op(tmp_path, "producer-1") == 3, "what was begun is tried again"
    second = History(tmp_path / "producer-1.0002.jsonl")
    second.write(Invoked(op=3, at=6.0, events=()), Ended(op=3, at=7.0, outcome="unknown"))
    second.write(Invoked(op=3, at=8.0, events=()), Ended(op=3, at=9.0, outcome="ok"))
    done = {one.op: one for one in read_operations(tmp_path, "producer")}
    assert (done[1].acknowledged, done[2].commits, done[3].outcomes, done[3].tries) == (True, False, ("unknown", "ok"), 3)
    assert next_op(tmp_path, "producer-1") == 4


def test_history_survives_a_kill_line_by_line(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from uuid import UUID\n"
        "from headrace.prove.history import History, Seen\n"
        "history = History(Path(sys.argv[1]))\n"
        "n = 0\n"
        "while True:\n"
        "    n += 1\n"
        "    history.write(Seen(at=0.0, topic='t', position=n, id=UUID(int=n), digest=n))\n"
        "    print(n, flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "reader.0001.jsonl")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    while int(process.stdout.readline()) < 200:
        pass
    process.send_signal(signal.SIGKILL)
    said = [200, *(int(line) for line in process.stdout.read().split())]
    process.wait()
    read = [one.position for one in read_history(tmp_path, "reader") if isinstance(one, Seen)]
    assert read == list(range(1, len(read) + 1)) and len(read) >= max(said)


class Echo(threading.Thread):
    """A server that answers with what it was sent."""

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


def ended(conn: socket.socket) -> bool:
    """Whether the other side has gone, by whatever sign."""
    try:
        return conn.recv(10) == b""
    except ConnectionError:
        return True


def test_proxy_passes_delays_cuts_and_refuses() -> None:
    echo = Echo()
    echo.start()
    proxy = Proxy("127.0.0.1", echo.port)
    proxy.start()
    try:
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as conn:
            conn.sendall(b"hello")
            assert conn.recv(10) == b"hello"
            proxy.delay_s = 0.1
            began = time.monotonic()
            conn.sendall(b"slowly")
            assert conn.recv(10) == b"slowly"
            assert time.monotonic() - began >= 0.2
            proxy.delay_s = 0.0
            proxy.open = False
            proxy.cut()
            assert ended(conn)
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=5) as refused:
            assert ended(refused)
    finally:
        proxy.stop()
        echo.socket.close()


def test_processes_end_when_the_checker_is_killed(tmp_path: Path) -> None:
    orders = Orders(name="producer-1", dsn="postgresql://nobody@127.0.0.1:1/none", folder=str(tmp_path), seed=1)
    child = [sys.executable, "-m", "headrace.prove.process", "producer", msgspec.json.encode(orders).decode()]
    program = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:]).pid, flush=True); sys.stdin.read()"
    checker = subprocess.Popen([sys.executable, "-c", program, *child], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert checker.stdout is not None
    pid = int(checker.stdout.readline())
    until = time.monotonic() + 30
    while not (tmp_path / "producer-1.0001.jsonl").exists() and time.monotonic() < until:
        time.sleep(0.1)
    checker.kill()
    checker.wait()
    while Path(f"/proc/{pid}").exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z":
        assert time.monotonic() < until, "it works on for nobody"
        time.sleep(0.1)
