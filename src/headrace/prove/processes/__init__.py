"""Processes: the workload runs in processes of its own, `python -m headrace.prove.processes.MODULE ROLE CONFIG`.

Owns: their start, signals, kills and ends. Promises: it ends no process but its own; a process that ends though nobody killed it
is recorded. The modules of the roles are loaded only in their own processes: a producer needs neither rules nor Spark."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import psycopg

from headrace.core import HeadraceError, NotFound
from headrace.db import Target

if TYPE_CHECKING:
    from headrace.db import Connection


__all__ = ["MAIN", "ProcessConfig", "Processes", "reader_name", "run_role", "shard_name"]

try:
    import psutil
except ImportError as error:
    raise NotFound("headrace prove needs psutil; run: pip install 'headrace[prove]'") from error

CONNECT_S = 3
FAILURES = (psycopg.Error, HeadraceError, OSError)
"""What a process of the workload survives: it tries again."""
RETRY_S = 0.1
MAIN = "main"


def shard_name(index: int) -> str:
    """The name of a further shard; the first database is MAIN."""
    return f"shard{index + 2}"


def reader_name(shard: str) -> str:
    """The name of the process that reads the logs of a shard."""
    return "reader" if shard == MAIN else f"{shard}-reader"


class ProcessConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of one process; travels as JSON on its command line."""

    name: str
    dsn: str
    folder: str
    """The folder of its history."""
    seed: int
    number: int = 1
    """1 for the first start of this name, 2 for the next, and so on."""
    rate: float = 100.0
    """Events per second of a producer."""
    lease_s: float = 4.0
    bugs: tuple[str, ...] = ()
    failpoint: str | None = None
    hit: int = 1
    shards: tuple[str, ...] = ()
    """Further databases: a node works on them too, a producer distributes its keys over all."""

    @property
    def history(self) -> Path:
        return self.history_of(self.name)

    def history_of(self, name: str) -> Path:
        return Path(self.folder) / f"{name}.{self.number:04}.jsonl"

    def targets(self) -> list[Target]:
        """Every database, by the name of its shard."""
        return [Target(MAIN, self.dsn), *(Target(shard_name(index), dsn) for index, dsn in enumerate(self.shards))]


class StopSignal:
    """Records SIGTERM; the process then finishes what it has begun."""

    def __init__(self) -> None:
        self.is_set = False
        signal.signal(signal.SIGTERM, self._set)

    def _set(self, _number: int, _frame: object) -> None:
        self.is_set = True


def open_connection(dsn: str) -> Connection:
    """A connection whose first statement begins a transaction."""
    return psycopg.connect(dsn, connect_timeout=CONNECT_S, fallback_application_name="headrace prove")


def retry_until_done(act: Callable[[], object]) -> None:
    """Repeats an act until it is known to be done."""
    while True:
        try:
            act()
            return
        except FAILURES:
            time.sleep(RETRY_S)


def run_role(roles: Mapping[str, Callable[[ProcessConfig], None]]) -> None:
    """Runs the role that the command line names, with the configuration that follows it."""
    _exit_with_parent()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    roles[sys.argv[1]](msgspec.json.decode(sys.argv[2], type=ProcessConfig))


def _exit_with_parent() -> None:
    """Ends this process when the checker is gone, so that a killed checker leaves no process behind."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, name="parent", daemon=True).start()


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
    """Kills what is left in the session of an ended process, after `grace_s`; returns how many were killed.

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
    """The present process begins here in the log file of its name."""


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
        module = "node" if managed.role in ("node", "pipeline") else "clients"
        program = f"headrace.prove.processes.{module}"
        command = [sys.executable, "-m", program, managed.role, msgspec.json.encode(current).decode()]
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
