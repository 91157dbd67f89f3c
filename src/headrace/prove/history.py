"""History: what the workload's processes did, recorded outside the database.

Owns: files of JSON lines, one per process, only appended to. Promises: one record is written before an operation begins, and one
when its outcome is known, each with one system call: after a kill -9 at most the outcome is missing."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Literal
from uuid import UUID

import msgspec

Outcome = Literal["ok", "failed", "unknown", "rolled_back"]
"""`failed`: the transaction certainly did not commit. `unknown`: the producer sent the commit and got no answer."""


class SentEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event as its producer sent it. `n` rises along each key of a producer."""

    id: UUID
    topic: str
    type: str
    key: str
    n: int
    amount: int = 0
    color: str = ""
    headers: dict[str, str] = {}
    emitted_at: datetime | None = None
    """None: the database sets it."""

    @property
    def payload(self) -> dict[str, int | str]:
        return {"n": self.n, "amount": self.amount, "color": self.color}


class Invoked(msgspec.Struct, frozen=True, tag="invoke", kw_only=True):
    """A transaction begins. The same `op` again is a retry of the same transaction, with the same event ids."""

    op: int
    at: float
    events: tuple[SentEvent, ...]
    commits: bool = True
    """False: the producer will roll it back."""


class Completed(msgspec.Struct, frozen=True, tag="end", kw_only=True):
    """The outcome of a transaction."""

    op: int
    at: float
    outcome: Outcome
    error: str | None = None


class ReadEvent(msgspec.Struct, frozen=True, tag="read", kw_only=True):
    """A reader that follows a topic's log read an event at a position."""

    at: float
    topic: str
    position: int
    id: UUID
    digest: int


class HandlerStarted(msgspec.Struct, frozen=True, tag="handler_started", kw_only=True):
    """A handler started on an action."""

    at: float
    node: str
    action_id: UUID
    attempt: int


class HandlerEnded(msgspec.Struct, frozen=True, tag="handler_ended", kw_only=True):
    """A handler returned, or raised; its transaction is still open."""

    at: float
    node: str
    action_id: UUID
    attempt: int


class SentAction(msgspec.Struct, frozen=True, tag="sent_action", kw_only=True):
    """An action was sent; with a unique key under several ids, of which only the first may have been taken."""

    at: float
    action: str
    ids: tuple[UUID, ...]
    not_before: float = 0.0
    """The database's time at which it may be handled."""


class Paused(msgspec.Struct, frozen=True, tag="paused", kw_only=True):
    """The handlers of an action were paused: nothing new may have started in this time."""

    at: float
    until: float
    action: str


Record = SentAction | Paused | Invoked | Completed | ReadEvent | HandlerStarted | HandlerEnded

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Record).decode


class History:
    """The file of one process."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, *records: Record) -> None:
        """Writes with one system call, so that a kill tears no line."""
        os.write(self._file, b"".join(_encode(record) + b"\n" for record in records))


def now() -> float:
    """Seconds since 1970, the same for every process of one machine."""
    return time.time()


def read_history(folder: Path, prefix: str) -> Iterator[Record]:
    """The records of every process whose name begins with the prefix, file by file."""
    for path in sorted(folder.glob(f"{prefix}*.jsonl")):
        with path.open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield _decode(line)
