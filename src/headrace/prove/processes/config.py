"""What a process of the workload is started with, how it stops, and how it connects."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import psycopg

from headrace.core import HeadraceError
from headrace.db import Target

if TYPE_CHECKING:
    from headrace.db import Connection

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
    """Where its history goes."""
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
