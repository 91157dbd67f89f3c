"""Processes of a run: each is started with its configuration, may be killed or stopped by a fault, and is started again.

Each process leads a session, so that what it started (a Spark driver starts a JVM, and that starts workers) can be found, and
dies with it. A session also holds processes with another process group (Spark's Python workers) and processes that lost their parent
(the JVM of a killed driver), which a walk over the children would miss."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from headrace.core import NotFound
from headrace.prove.processes.config import ProcessConfig

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


STOP_TIMEOUT_S = 45.0
LOG_LINES_MAX = 40
"""Lines of a log that a report quotes."""
CHILD_EXIT_S = 10.0
"""How long the children of a process that has ended may take to end by themselves."""


@dataclass
class ManagedProcess:
    """A named process of a role; a restart replaces the operating system's process."""

    role: str
    config: ProcessConfig
    process: subprocess.Popen[bytes] | None = None
    may_be_killed: bool = False
    log_start: int = 0
    """Where the present process begins in the log file of its name."""


class Processes:
    """All processes of a run, by name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._managed: dict[str, ManagedProcess] = {}
        self.unexpected_exits: list[str] = []

    def add(self, role: str, config: ProcessConfig) -> None:
        self._managed[config.name] = ManagedProcess(role, config)
        self.start(config.name)

    def of_role(self, role: str) -> list[str]:
        return [name for name, managed in self._managed.items() if managed.role == role]

    def config(self, name: str) -> ProcessConfig:
        """What the process is started with next."""
        return self._managed[name].config

    def start(self, name: str, *, config: ProcessConfig | None = None) -> None:
        """Starts a process; `config` replaces its configuration for this start only."""
        managed = self._managed[name]
        number = managed.config.number
        current = msgspec.structs.replace(config or managed.config, number=number)
        managed.config = msgspec.structs.replace(managed.config, number=number + 1)
        command = [sys.executable, "-m", "headrace.prove.processes", managed.role, msgspec.json.encode(current).decode()]
        with (self._folder / f"{name}.log").open("ab") as log:
            managed.log_start = log.tell()
            managed.process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ.copy(), start_new_session=True)
        managed.may_be_killed = bool(current.failpoint)

    def kill(self, name: str) -> int:
        """kill -9 of the process and of all that it started; returns how many processes were killed."""
        process = self._process(name)
        if process.poll() is not None:
            self._record_exit(name)
        self._managed[name].may_be_killed = True
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()
        return 1 + kill_session(process.pid)

    def signal(self, name: str, number: signal.Signals) -> None:
        self._process(name).send_signal(number)

    def is_alive(self, name: str) -> bool:
        return self._process(name).poll() is None

    def exit_code(self, name: str) -> int | None:
        """None while the process is alive."""
        return self._process(name).poll()

    def pid(self, name: str) -> int:
        return self._process(name).pid

    def restart_dead(self) -> None:
        """Starts every process that is dead; records those that nobody killed."""
        for name in self._managed:
            if not self.is_alive(name):
                self._record_exit(name)
                kill_session(self.pid(name))
                self.start(name)

    def _record_exit(self, name: str) -> None:
        """Records an exit that the checker did not cause: its own kills and its failpoints are kill -9."""
        managed, code = self._managed[name], self._process(name).returncode
        if not managed.may_be_killed or code != -signal.SIGKILL:
            log = (self._folder / f"{name}.log").read_bytes()[managed.log_start :]
            reason = exit_reason(log.decode(errors="replace"))
            self.unexpected_exits.append(f"{managed.role} {name} ended with exit code {code}: {reason}")

    def stop_role(self, role: str) -> None:
        """Sends SIGTERM to the processes of a role and waits; one that does not end is killed and recorded."""
        names = self.of_role(role)
        for name in names:
            if self.is_alive(name):
                self.signal(name, signal.SIGTERM)
        for name in names:
            try:
                code = self._process(name).wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.unexpected_exits.append(f"{role} {name} did not end within {STOP_TIMEOUT_S:.0f} s of SIGTERM")
                self.kill(name)
                continue
            kill_session(self.pid(name), grace_s=CHILD_EXIT_S)
            if code not in (0, -signal.SIGTERM):
                self._record_exit(name)

    def kill_all(self) -> None:
        for name, managed in self._managed.items():
            if managed.process is not None and managed.process.poll() is None:
                self.kill(name)

    def _process(self, name: str) -> subprocess.Popen[bytes]:
        process = self._managed[name].process
        assert process is not None
        return process


def exit_reason(log: str) -> str:
    """Why a process may have ended, from its log: the last traceback and what follows it, else the last line."""
    lines = log.strip().splitlines()
    start = max((number for number, line in enumerate(lines) if line.startswith("Traceback")), default=len(lines) - 1)
    tail = lines[start:]
    half = LOG_LINES_MAX // 2
    return "\n".join(tail if len(tail) <= LOG_LINES_MAX else [*tail[:half], "…", *tail[-half:]])
