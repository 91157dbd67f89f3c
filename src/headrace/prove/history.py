"""History: what the workload's processes did, written down outside the database.

Owns: files of JSON lines, one per process, appended to and never changed. Promises: a line is written with one system call
before the thing it speaks of begins, and another when its end is known, so that a kill -9 leaves at most an end unsaid."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal
from uuid import UUID

import msgspec

Outcome = Literal["ok", "failed", "unknown", "rolled_back"]
"""`failed`: the transaction did not commit, for certain. `unknown`: its commit was asked for, and no answer came."""


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """An event as its producer meant it. `n` rises along each key of a producer."""

    id: UUID
    topic: str
    type: str
    key: str
    n: int
    amount: int = 0
    color: str = ""

    @property
    def payload(self) -> dict[str, int | str]:
        return {"n": self.n, "amount": self.amount, "color": self.color}


class Invoked(msgspec.Struct, frozen=True, tag="invoke", kw_only=True):
    """A transaction begins. The same `op` again is the same transaction, tried again with the same event ids."""

    op: int
    at: float
    events: tuple[Sent, ...]
    commits: bool = True
    """False: its producer means to roll it back."""


class Ended(msgspec.Struct, frozen=True, tag="end", kw_only=True):
    """What became of a transaction."""

    op: int
    at: float
    outcome: Outcome
    error: str | None = None


class Seen(msgspec.Struct, frozen=True, tag="seen", kw_only=True):
    """A reader that follows a topic's log saw an event at a position."""

    at: float
    topic: str
    position: int
    id: UUID
    digest: int


class Began(msgspec.Struct, frozen=True, tag="began", kw_only=True):
    """A handler was given an action."""

    at: float
    node: str
    action_id: UUID
    attempt: int


class Left(msgspec.Struct, frozen=True, tag="left", kw_only=True):
    """A handler returned, or raised; its transaction is still open."""

    at: float
    node: str
    action_id: UUID
    attempt: int


Record = Invoked | Ended | Seen | Began | Left

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Record).decode


class History:
    """The file of one process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, *records: Record) -> None:
        """One system call, so no line is torn by a kill."""
        os.write(self._file, b"".join(_encode(record) + b"\n" for record in records))


def now() -> float:
    """Seconds since 1970, the same for every process of one machine."""
    return time.time()


def read_history(folder: Path, who: str) -> Iterator[Record]:
    """The records of every process whose name begins like that, file by file."""
    for path in sorted(folder.glob(f"{who}*.jsonl")):
        with path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield _decode(line)
