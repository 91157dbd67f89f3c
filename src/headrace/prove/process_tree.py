"""Family: the processes that a process has started, and those that they have started, by the session it leads.

A session holds also what was given another process group (Spark's Python workers) and what lost its parent (their JVM, when the
driver is killed)."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

LOOK_S = 0.02
GONE_S = 10.0
"""A killed process is gone by then."""


def members(leader: int) -> list[int]:
    """The processes of a session but for its leader, those that are dead and not yet taken note of left out."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # After the name, which may hold anything: state, parent, group, session.
            state, _, _, session = path.read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and int(path.parent.name) != leader and state not in "ZX":
                found.append(int(path.parent.name))
    return found


def end_family(leader: int, *, grace_s: float = 0.0) -> int:
    """Kills what is left of the session of a process that has ended, after a time to end by itself; how many were killed.

    A leader that is alive under this number is another process by now, and its session is not ours."""
    until = time.monotonic() + grace_s
    while members(leader) and time.monotonic() < until:
        time.sleep(LOOK_S)
    killed: set[int] = set()
    until = time.monotonic() + GONE_S
    while not _alive(leader) and (left := members(leader)) and time.monotonic() < until:
        for pid in left:
            killed.add(pid)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(LOOK_S)
    return len(killed)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
