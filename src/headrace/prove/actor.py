"""Actors: what a process of the workload is told, and how it ends.

A process is `python -m headrace.prove.process ROLE SETTINGS`; told to end by SIGTERM it finishes what it has begun."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import psycopg

from headrace.db import Target

if TYPE_CHECKING:
    from headrace.db import Connection

CONNECT_S = 3
AGAIN_S = 0.1
MAIN = "main"


def shard_name(place: int) -> str:
    """What the further databases are called."""
    return f"shard{place + 2}"


def reader_name(shard: str) -> str:
    """What the process is called that reads along on a database."""
    return "reader" if shard == MAIN else f"{shard}-reader"


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """What an actor is told."""

    name: str
    dsn: str
    folder: str
    """Where its history goes."""
    seed: int
    number: int = 1
    """How often it was started."""
    rate: float = 100.0
    """Events per second of a producer."""
    lease_s: float = 4.0
    bugs: tuple[str, ...] = ()
    failpoint: str | None = None
    hit: int = 1
    shards: tuple[str, ...] = ()
    """Further databases: a node works on them too, a producer spreads its keys over all."""

    @property
    def history(self) -> Path:
        return self.history_of(self.name)

    def history_of(self, name: str) -> Path:
        return Path(self.folder) / f"{name}.{self.number:04}.jsonl"

    def targets(self) -> list[Target]:
        """Every database, by the name of its shard."""
        return [Target(MAIN, self.dsn), *(Target(shard_name(place), dsn) for place, dsn in enumerate(self.shards))]


class Ending:
    """Set by SIGTERM."""

    def __init__(self) -> None:
        self.wanted = False
        signal.signal(signal.SIGTERM, self._want)

    def _want(self, _number: int, _frame: object) -> None:
        self.wanted = True


@contextmanager
def closing(conn: Connection | None) -> Iterator[None]:
    """Closes a connection that may be broken already."""
    try:
        yield
    finally:
        if conn is not None:
            conn.close()


def connection(dsn: str) -> Connection:
    """A connection whose transactions are begun by the first statement."""
    return psycopg.connect(dsn, connect_timeout=CONNECT_S, fallback_application_name="headrace prove")
