"""Evidence: everything a run left behind, as frozen values. Checks read only these; they never ask a database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from typing import Literal, TypeAlias
from uuid import UUID

from headrace.core import LoggedEvent
from headrace.prove.history import HandlerEnded, HandlerStarted, Outcome, Paused, ReadEvent, SentAction, SentEvent


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
