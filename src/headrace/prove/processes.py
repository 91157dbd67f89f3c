"""Cast: the processes of a run. Each is started with its orders, may be killed or stopped, and is started again.

Owns: their process ids; it ends none but its own. Each leads a session, so that what it has started (a Spark driver has a JVM,
and that has workers) is known by it, and does not outlive a kill. One that ends though nobody killed it is written down."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

from headrace.prove.actor import Orders
from headrace.prove.process_tree import end_family

END_S = 45.0
TOLD_MAX = 40
"""Lines of a log that a report quotes."""
LEAVE_S = 10.0
"""How long the children of a process that has ended may take to follow it by themselves."""


@dataclass
class Member:
    """One role that is played, by one process after the other."""

    role: str
    orders: Orders
    process: subprocess.Popen[bytes] | None = None
    expected_dead: bool = False
    log_from: int = 0
    """Where the words of the present process begin in the log of the role."""


class Cast:
    """All processes of a run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.members: dict[str, Member] = {}
        self.unexpected: list[str] = []

    def add(self, role: str, orders: Orders) -> None:
        self.members[orders.name] = Member(role, orders)
        self.start(orders.name)

    def of(self, role: str) -> list[str]:
        return [name for name, member in self.members.items() if member.role == role]

    def start(self, name: str, *, orders: Orders | None = None) -> None:
        """Starts a role again; `orders` only for this time."""
        member = self.members[name]
        told = msgspec.structs.replace(orders or member.orders, number=member.orders.number)
        member.orders = msgspec.structs.replace(member.orders, number=member.orders.number + 1)
        command = [sys.executable, "-m", "headrace.prove.process", member.role, msgspec.json.encode(told).decode()]
        with (self._folder / f"{name}.log").open("ab") as log:
            member.log_from = log.tell()
            member.process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ.copy(), start_new_session=True)
        member.expected_dead = bool(told.failpoint)

    def kill(self, name: str) -> int:
        """kill -9 of the process and of all that it has started; how many they were."""
        process = self._process(name)
        if process.poll() is not None:
            self._note(name, self.members[name])
        self.members[name].expected_dead = True
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()
        return 1 + end_family(process.pid)

    def signal(self, name: str, number: signal.Signals) -> None:
        self._process(name).send_signal(number)

    def alive(self, name: str) -> bool:
        return self._process(name).poll() is None

    def exit_code(self, name: str) -> int | None:
        """None: it is alive."""
        return self._process(name).poll()

    def pid(self, name: str) -> int:
        return self._process(name).pid

    def mend(self) -> None:
        """Starts whoever is dead; notes those whom nobody killed."""
        for name, member in self.members.items():
            if not self.alive(name):
                self._note(name, member)
                end_family(self.pid(name))
                self.start(name)

    def _note(self, name: str, member: Member) -> None:
        """Writes down an end that was not the checker's doing: its own kills, and failpoints, are kill -9."""
        code = self._process(name).returncode
        if not member.expected_dead or code != -signal.SIGKILL:
            log = (self._folder / f"{name}.log").read_bytes()[member.log_from :]
            told = last_words(log.decode(errors="replace"))
            self.unexpected.append(f"{member.role} {name} ended with exit code {code}: {told}")

    def end(self, role: str) -> None:
        """Tells a role's processes to finish, and waits; one that does not is killed and noted."""
        names = self.of(role)
        for name in names:
            if self.alive(name):
                self.signal(name, signal.SIGTERM)
        for name in names:
            try:
                code = self._process(name).wait(END_S)
            except subprocess.TimeoutExpired:
                self.unexpected.append(f"{role} {name} did not end within {END_S:.0f} s of SIGTERM")
                self.kill(name)
                continue
            end_family(self.pid(name), grace_s=LEAVE_S)
            if code not in (0, -signal.SIGTERM):
                self._note(name, self.members[name])

    def end_all(self) -> None:
        for name, member in self.members.items():
            if member.process is not None and member.process.poll() is None:
                self.kill(name)

    def _process(self, name: str) -> subprocess.Popen[bytes]:
        process = self.members[name].process
        assert process is not None
        return process


def last_words(log: str) -> str:
    """What a process left in its log that may tell why it ended: its last traceback, else its last line."""
    lines = log.strip().splitlines()
    begin = max((number for number, line in enumerate(lines) if line.startswith("Traceback")), default=len(lines) - 1)
    told = lines[begin:]
    return "\n".join(told if len(told) <= TOLD_MAX else [*told[: TOLD_MAX // 2], "…", *told[-TOLD_MAX // 2 :]])
