"""Process tree: all processes of the session that a process leads.

A session also holds processes with another process group (Spark's Python workers) and processes that lost their parent (the JVM
of a killed driver), which a walk over the children would miss."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from headrace.core import NotFound

try:
    import psutil
except ImportError as error:
    raise NotFound("headrace prove needs psutil; run: pip install 'headrace[prove]'") from error

POLL_S = 0.02
GONE_S = 10.0
"""A killed process is gone by then."""


def session_processes(leader: int) -> list[psutil.Process]:
    """The live processes of a session without its leader."""
    processes: list[psutil.Process] = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, ProcessLookupError):
            if process.pid != leader and os.getsid(process.pid) == leader and is_alive(process.pid):
                processes.append(process)
    return processes


def is_alive(pid: int) -> bool:
    """False also for a zombie: it has ended, and only its exit code is left."""
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


def kill_session(leader: int, *, grace_s: float = 0.0) -> int:
    """Kills what is left of the session of a process that has ended, after `grace_s`; returns how many were killed.

    A live process with the leader's pid is a later one that got the same number; its session is not ours."""
    until = time.monotonic() + grace_s
    while session_processes(leader) and time.monotonic() < until:
        time.sleep(POLL_S)
    killed: set[int] = set()
    until = time.monotonic() + GONE_S
    while not is_alive(leader) and (processes := session_processes(leader)) and time.monotonic() < until:
        for process in processes:
            killed.add(process.pid)
            with suppress(psutil.NoSuchProcess):
                process.kill()
        time.sleep(POLL_S)
    return len(killed)
