"""Evidence: all that a run left behind, as frozen values. What checks look at; they never ask a database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from uuid import UUID

from headrace.core import LoggedEvent
from headrace.prove.history import Began, Left, Outcome, Seen, Sent


@dataclass(frozen=True, kw_only=True)
class Operation:
    """A transaction of a producer with everything that came of it. No outcome: its producer was killed meanwhile."""

    producer: str
    op: int
    events: tuple[Sent, ...]
    commits: bool = True
    outcomes: tuple[Outcome, ...] = ()
    began_at: float = 0.0
    ended_at: float = 0.0
    tries: int = 1

    @property
    def acknowledged(self) -> bool:
        return "ok" in self.outcomes


@dataclass(frozen=True)
class Consumed:
    """What a consumer's handler wrote through its transaction; `seq` is the order of writing."""

    seq: int
    consumer: str
    partition: int
    position: int
    event_id: UUID


@dataclass(frozen=True)
class Letter:
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
class Result:
    """How an action ended: `done` or `dead`."""

    action_id: UUID
    action: str
    outcome: str
    attempts: int


@dataclass(frozen=True)
class Fired:
    """A firing of a rule."""

    rule: str
    topic: str
    position: int
    event_id: UUID
    action_id: UUID


@dataclass(frozen=True)
class Pushed:
    """An output of a correlator."""

    correlator: str
    key: str
    token: str
    output_at: datetime
    position: int | None
    becomes: str | None
    output_id: UUID


@dataclass(frozen=True)
class Ledger:
    """What the batches of a pipeline add up to: how many, up to which position, and what came of them."""

    batches: int
    upto: int
    firings: int
    outputs: int


@dataclass(frozen=True)
class Ticked:
    """A tick of the schedule that is over."""

    tick_at: datetime
    outcome: str
    event_id: UUID | None


class Missed(str):
    """What is told of a fault that was tried and did not strike."""


@dataclass(frozen=True)
class Fallen:
    """A fault that happened: which, when, until when."""

    fault: str
    began_at: float
    healed_at: float
    detail: str = ""
    struck: bool = True
    """False where it was tried and nothing came of it."""


@dataclass(frozen=True)
class Sample:
    """How far everything was at a moment."""

    at: float
    logged: int
    consumed: int
    effects: int
    lag: int
    queue: int


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a run left behind on one database; on the first of them also what it left in its processes."""

    shard: str = "main"
    others: Sequence[Evidence] = ()
    """The other shards."""
    operations: Sequence[Operation] = ()
    batches: Sequence[Operation] = ()
    log: Mapping[str, Sequence[LoggedEvent]] = field(default_factory=dict)
    digests: Mapping[tuple[str, int], int] = field(default_factory=dict)
    seen: Sequence[Seen] = ()
    consumed: Sequence[Consumed] = ()
    letters: Sequence[Letter] = ()
    effects: Sequence[Effect] = ()
    results: Sequence[Result] = ()
    fired: Sequence[Fired] = ()
    pushed: Sequence[Pushed] = ()
    ledger: Ledger | None = None
    """None: the run had no pipeline."""
    ticks: Sequence[Ticked] = ()
    planned_ticks: Sequence[datetime] = ()
    """Every tick that had to come, by the cron expression."""
    handlings: Sequence[Began | Left] = ()
    fallen: Sequence[Fallen] = ()
    samples: Sequence[Sample] = ()
    drained_at: datetime | None = None
    flows_until: float = inf
    """When the producers ended."""
    left_over: Mapping[str, int] = field(default_factory=dict)
    """What was not worked off when everything was healed and waited for."""
    expired_head: int = 0
    unexpected: Sequence[str] = ()
    """Processes that ended though nobody killed them."""
