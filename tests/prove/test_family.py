"""Families: what a process has started is found by its session, whatever it was given, and ends with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from headrace.prove.process_tree import end_family, members

CHILD = "import time; time.sleep(60)"
PARENT = f"""
import os, subprocess, sys
grouped = subprocess.Popen([sys.executable, "-c", {CHILD!r}], process_group=0)
ignoring = subprocess.Popen([sys.executable, "-c", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);" + {CHILD!r}])
print(grouped.pid, ignoring.pid, flush=True)
sys.stdin.read()
"""


def started() -> tuple[subprocess.Popen[str], set[int]]:
    leader = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert leader.stdout is not None
    return leader, set(map(int, leader.stdout.readline().split()))


def test_orphans_of_a_killed_process_are_killed_whatever_group_they_have() -> None:
    leader, children = started()
    assert set(members(leader.pid)) == children
    leader.kill()
    leader.wait()
    assert set(members(leader.pid)) == children, "they have outlived it"
    assert end_family(leader.pid) == 2
    assert members(leader.pid) == []


def test_family_of_a_living_process_is_left_alone() -> None:
    """The number may be another process's by now."""
    leader, children = started()
    try:
        assert end_family(leader.pid) == 0
        assert set(members(leader.pid)) == children
    finally:
        leader.kill()
        leader.wait()
        end_family(leader.pid)


def test_who_ends_in_time_is_not_killed() -> None:
    leader, children = started()
    leader.kill()
    leader.wait()
    began = time.monotonic()
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    assert end_family(leader.pid, grace_s=20) == 0
    assert time.monotonic() - began < 10
