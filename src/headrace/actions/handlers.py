"""Handlers of actions: their description, which of them share workers, how many actions they claim at once, and how fast.

All handlers of an action run in one transaction."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from headrace.actions.action import Action, Claim
from headrace.consume import HandlerConnection, HandlerGroup, call_handlers
from headrace.core import Invalid
from headrace.db import AsyncConnection, Connection

ActionHandler: TypeAlias = (
    Callable[[Action, AsyncConnection], Awaitable[None]]
    | Callable[[Action, Connection], None]
    | Callable[[Any, Any], Awaitable[None]]
    | Callable[[Any, Any], None]
)
"""A function of an action and a session in the open transaction: a psycopg connection, or what its annotation or
`Headrace(session=…)` asks for."""

BATCH_MAX = 500
"""Most actions in one transaction; fewer if handlers are slow."""
WORKERS = 4
FAST_S = 0.1
SLOW_S = 0.5


@dataclass(frozen=True, kw_only=True)
class Policy:
    """How an action is handled. It applies to all handlers of the action, since they share a transaction."""

    attempts: int = 5
    """How often it is delivered before it becomes a dead letter."""
    backoff_s: float = 1
    """Pause after the first failure; it doubles with each further one, minus a random part of up to a half."""
    backoff_max_s: float = 300
    concurrency: int | None = None
    """How many batches one node handles concurrently; None: it shares the node's workers with other actions."""
    rate_per_s: float | None = None
    """How many start per second on one node."""
    ordered: bool = False
    """Handle the actions of a key one after the other, in the order they were sent."""

    def __post_init__(self) -> None:
        if self.attempts < 1 or not 0 < self.backoff_s <= self.backoff_max_s:
            raise Invalid(
                f"attempts {self.attempts}, backoff_s {self.backoff_s}, backoff_max_s {self.backoff_max_s}: "
                "need attempts ≥ 1 and 0 < backoff_s ≤ backoff_max_s"
            )
        if (self.concurrency is not None and self.concurrency < 1) or (self.rate_per_s is not None and self.rate_per_s <= 0):
            raise Invalid(f"concurrency {self.concurrency}, rate_per_s {self.rate_per_s}: both must be above zero")


@dataclass(frozen=True, kw_only=True)
class ActionHandlers(HandlerGroup):
    """The handlers of one action, with the policy they share."""

    action: str
    policy: Policy = field(default_factory=Policy)


async def call_action_handlers(
    handlers: Mapping[str, ActionHandlers], claims: Sequence[Claim], conn: HandlerConnection
) -> list[float]:
    """Runs the handlers of every claimed action in order, in the transaction open on the connection; returns their seconds."""
    return await call_handlers([(handlers[claim.action.action], claim.action) for claim in claims], conn)


@dataclass(frozen=True)
class WorkerPool:
    """Actions that share workers. An action with its own concurrency, rate or order has its own pool; the others share one."""

    handlers: Mapping[str, ActionHandlers]
    workers: int
    batch_max: int = BATCH_MAX
    rate_per_s: float | None = None
    ordered: bool = False

    @property
    def name(self) -> str:
        return "actions " + (next(iter(self.handlers)) if len(self.handlers) == 1 else f"({len(self.handlers)} names)")


def build_worker_pools(handlers: Iterable[ActionHandlers], *, workers: int = WORKERS) -> list[WorkerPool]:
    """The worker pools of a node that has these handlers."""
    shared: dict[str, ActionHandlers] = {}
    own: list[WorkerPool] = []
    for group in handlers:
        policy = group.policy
        if policy.concurrency is None and policy.rate_per_s is None and not policy.ordered and policy.attempts > 1:
            shared[group.action] = group
            continue
        own.append(
            WorkerPool(
                {group.action: group},
                policy.concurrency or workers,
                # An action with a single attempt must not be claimed together with one that kills the process.
                batch_max=BATCH_MAX if policy.attempts > 1 else 1,
                rate_per_s=policy.rate_per_s,
                ordered=policy.ordered,
            )
        )
    return ([WorkerPool(shared, workers)] if shared else []) + own


class AdaptiveBatchSize:
    """How many actions a worker claims at once: twice as many after a fast batch, half as many after a slow one.

    Fast handlers share the cost of a transaction, and slow ones do not make others wait behind them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.size = min(16, most)

    def adapt(self, actions: int, seconds: float) -> None:
        """Adapts the size to a finished batch: its number of actions and its duration in seconds."""
        if seconds > SLOW_S:
            self.size = max(1, self.size // 2)
        elif seconds < FAST_S and actions >= self.size:
            self.size = min(self._most, self.size * 2)


class TokenBucket:
    """Limits a rate. Tokens arrive evenly; the bucket holds at most those of one second."""

    def __init__(self, per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._clock = clock
        self._tokens = max(1.0, per_s)
        self._refilled_at = clock()

    def take(self, most: int) -> int:
        """Takes the whole tokens in the bucket, at most `most`; returns how many."""
        now = self._clock()
        self._tokens = min(max(1.0, self._per_s), self._tokens + (now - self._refilled_at) * self._per_s)
        self._refilled_at = now
        count = min(most, int(self._tokens))
        self._tokens -= count
        return count

    def give_back(self, tokens: int) -> None:
        """Returns unused tokens to the bucket."""
        self._tokens += tokens

    def wait_s(self) -> float:
        """Seconds until there is a whole token."""
        return max(0.0, 1 - self._tokens) / self._per_s
