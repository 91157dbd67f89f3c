"""Evidence: everything a run left behind, as frozen values. Checks read only these; they never ask a database.

Owns: the histories, which are files of JSON lines outside the database, one per process, only appended to. Promises: one record is
written before an operation begins, and one when its outcome is known, each with one system call: after a kill -9 at most the outcome
is missing."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from pathlib import Path
from typing import Literal, TypeAlias
from uuid import UUID

import msgspec

from headrace.core import LoggedEvent

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


@dataclass(frozen=True, kw_only=True)
class Operation:
    """A transaction of a producer with the outcomes of all its attempts. No outcome: the producer was killed before it knew."""

    producer: str
    op: int
    events: tuple[SentEvent, ...]
    commits: bool = True
    outcomes: tuple[Outcome, ...] = ()
    started_at: float = 0.0
    ended_at: float = 0.0
    attempts: int = 1

    @property
    def acknowledged(self) -> bool:
        return "ok" in self.outcomes


@dataclass(frozen=True)
class ConsumedEvent:
    """What a consumer's handler wrote through its transaction; `seq` is the order of writing."""

    seq: int
    consumer: str
    partition: int
    position: int
    event_id: UUID


Delivery: TypeAlias = Literal["exactly once", "at least once"]


@dataclass(frozen=True)
class RelayedEvent:
    """An event as the target of a relay has it."""

    partition: int
    position: int
    event_id: str
    at: float | None = None
    """When it came, where the target tells."""


@dataclass(frozen=True)
class RelayedEvents:
    """What the target of a relay has, in its order, and how often it may have an event."""

    delivery: Delivery
    events: Sequence[RelayedEvent]


@dataclass(frozen=True)
class DeadLetter:
    """A dead letter of a consumer, or an event that waits behind one (`behind`)."""

    consumer: str
    position: int
    event_id: UUID
    type: str
    key: str | None
    state: str
    attempts: int


@dataclass(frozen=True)
class Effect:
    """What a handler of an action wrote through its transaction."""

    seq: int
    action_id: UUID
    action: str
    attempt: int


@dataclass(frozen=True)
class ActionResult:
    """How an action ended: `done` or `dead`."""

    action_id: UUID
    action: str
    outcome: str
    attempts: int


@dataclass(frozen=True)
class Firing:
    """A firing of a rule."""

    rule: str
    topic: str
    position: int
    event_id: UUID
    action_id: UUID


@dataclass(frozen=True)
class Output:
    """An output of a correlator."""

    correlator: str
    key: str
    token: str
    output_at: datetime
    position: int | None
    becomes: str | None
    output_id: UUID


@dataclass(frozen=True)
class PipelineTotals:
    """The ledger of a pipeline's batches, added up: how many, to which position, with how many firings and outputs."""

    batches: int
    upto: int
    firings: int
    outputs: int


@dataclass(frozen=True)
class Tick:
    """A past tick of the schedule."""

    tick_at: datetime
    outcome: str
    event_id: UUID | None


@dataclass(frozen=True)
class ErasedData:
    """What is left of the keys that were erased."""

    positions: Mapping[str, Sequence[int]]
    """The positions of each topic that had their events."""
    payloads: int
    """Events of these topics that were not erased."""
    remains: Sequence[str]
    """Tables with a row that still has their data."""
    erasures: int = 0
    """How many keys were erased."""


class NoEffect(str):
    """The detail of a fault that was tried and changed nothing."""


@dataclass(frozen=True)
class FaultRecord:
    """A fault that was injected: which, and from when to when."""

    fault: str
    started_at: float
    healed_at: float
    detail: str = ""
    took_effect: bool = True
    """False if the attempt changed nothing."""


@dataclass(frozen=True)
class Sample:
    """Progress of the workload at a moment."""

    at: float
    logged: int
    consumed: int
    effects: int
    lag: int
    queue: int


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a run left behind on one shard; for the first shard also what it left in its processes."""

    shard: str = "main"
    other_shards: Sequence[Evidence] = ()
    operations: Sequence[Operation] = ()
    batches: Sequence[Operation] = ()
    log: Mapping[str, Sequence[LoggedEvent]] = field(default_factory=dict)
    digests: Mapping[tuple[str, int], int] = field(default_factory=dict)
    reads: Sequence[ReadEvent] = ()
    consumed: Sequence[ConsumedEvent] = ()
    relayed: Mapping[str, RelayedEvents] = field(default_factory=dict)
    """What the target of each relay has."""
    dead_letters: Sequence[DeadLetter] = ()
    effects: Sequence[Effect] = ()
    action_results: Sequence[ActionResult] = ()
    firings: Sequence[Firing] = ()
    outputs: Sequence[Output] = ()
    erased: ErasedData | None = None
    """None: nothing was erased."""
    pipeline: PipelineTotals | None = None
    """None: the run had no pipeline."""
    ticks: Sequence[Tick] = ()
    expected_ticks: Sequence[datetime] = ()
    """Every tick that the cron expression demands."""
    handler_records: Sequence[HandlerStarted | HandlerEnded] = ()
    sent_actions: Sequence[SentAction] = ()
    pauses: Sequence[Paused] = ()
    faults: Sequence[FaultRecord] = ()
    samples: Sequence[Sample] = ()
    finished_at: datetime | None = None
    """The database's time after the last work was done."""
    producers_stopped_at: float = inf
    unfinished: Mapping[str, int] = field(default_factory=dict)
    """Work that was still open after all faults were healed and the run had waited."""
    expiring_head: int = 0
    unexpected_exits: Sequence[str] = ()
    """Processes that ended though nobody killed them."""

    @property
    def all_shards(self) -> tuple[Evidence, ...]:
        return (self, *self.other_shards)
