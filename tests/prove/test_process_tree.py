"""Process tree: the processes that a process started are found by its session, and are killed with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from headrace.prove.processes import kill_session, session_processes

CHILD = "import time; time.sleep(60)"
PARENT = f"""
import os, subprocess, sys
grouped = subprocess.Popen([sys.executable, "-c", {CHILD!r}], process_group=0)
ignoring = subprocess.Popen([sys.executable, "-c", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);" + {CHILD!r}])
print(grouped.pid, ignoring.pid, flush=True)
sys.stdin.read()
"""


def start_leader() -> tuple[subprocess.Popen[str], set[int]]:
    leader = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert leader.stdout is not None
    return leader, set(map(int, leader.stdout.readline().split()))


def session_pids(leader: int) -> set[int]:
    return {process.pid for process in session_processes(leader)}


def test_orphans_of_a_killed_process_are_killed_whatever_group_they_have() -> None:
    leader, children = start_leader()
    assert session_pids(leader.pid) == children
    leader.kill()
    leader.wait()
    assert session_pids(leader.pid) == children, "they have survived it"
    assert kill_session(leader.pid) == 2
    assert session_pids(leader.pid) == set()


def test_session_of_a_live_process_is_not_touched() -> None:
    """Another process may have the pid by now."""
    leader, children = start_leader()
    try:
        assert kill_session(leader.pid) == 0
        assert session_pids(leader.pid) == children
    finally:
        leader.kill()
        leader.wait()
        kill_session(leader.pid)


def test_process_that_ends_in_time_is_not_killed() -> None:
    leader, children = start_leader()
    leader.kill()
    leader.wait()
    start = time.monotonic()
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    assert kill_session(leader.pid, grace_s=20) == 0
    assert time.monotonic() - start < 10
