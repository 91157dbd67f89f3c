"""Handlers of actions: their description, which of them share workers, how many actions they claim at once, and how fast.

All handlers of an action run in one transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from headrace.actions.action import Action, Claim
from headrace.consume import (
    Delivery,
    HandlerGroup,
    HandlerOptions,
    Numbers,
    call_handlers,
    prepare_handler,
)
from headrace.core import Invalid
from headrace.drivers import HandlerConnection

ActionHandler: TypeAlias = Callable[[Action[Any], Any], Awaitable[None]] | Callable[[Action[Any], Any], None]
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
    batch_size: int | None = None
    """Most actions in one transaction; None: as many as are fast. 1: no call outside the database is repeated because of a
    neighbour."""
    timeout_s: float | None = None
    """How long one call of a handler may take."""
    numbers: Numbers = "float"
    """What JSON numbers with a fraction or exponent become in the payload."""
    bury_invalid: bool = False
    """Move an action whose payload does not fit the handler's type to the dead letters at once."""

    def __post_init__(self) -> None:
        if self.attempts < 1 or not 0 < self.backoff_s <= self.backoff_max_s:
            raise Invalid(
                f"attempts {self.attempts}, backoff_s {self.backoff_s}, backoff_max_s {self.backoff_max_s}: "
                "need attempts ≥ 1 and 0 < backoff_s ≤ backoff_max_s"
            )
        if (self.concurrency is not None and self.concurrency < 1) or (self.rate_per_s is not None and self.rate_per_s <= 0):
            raise Invalid(f"concurrency {self.concurrency}, rate_per_s {self.rate_per_s}: both must be above zero")
        if self.batch_size is not None and not 1 <= self.batch_size <= BATCH_MAX:
            raise Invalid(f"batch_size {self.batch_size}: need 1 to {BATCH_MAX}")
        _ = self.options

    @property
    def options(self) -> HandlerOptions:
        """The options that each handler gets; raises Invalid."""
        return HandlerOptions(timeout_s=self.timeout_s, numbers=self.numbers, bury_invalid=self.bury_invalid)

    @property
    def batch_max(self) -> int:
        # An action with a single attempt must not be claimed together with one that kills the process.
        return 1 if self.attempts == 1 else self.batch_size or BATCH_MAX

    @property
    def is_shared(self) -> bool:
        """Does it share workers with other actions?"""
        return self.concurrency is None and self.rate_per_s is None and not self.ordered and self.attempts > 1


@dataclass(frozen=True, kw_only=True)
class ActionHandlers(HandlerGroup):
    """The handlers of one action, with the policy they share."""

    action: str
    policy: Policy = field(default_factory=Policy)
    raw_payload: bool = False
    """The handlers take the payload as JSON text; set by `prepare_handlers`."""


def prepare_handlers(action: str, functions: Sequence[ActionHandler], policy: Policy, *, session: Any = None) -> ActionHandlers:
    """The handlers of an action, checked and with their options; raises InvalidHandler, or Invalid for a wrong session."""
    delivery = Delivery(owner=f"handler of action {action}", argument=Action)
    prepared = [prepare_handler(function, delivery, policy.options) for function in functions]
    is_raw = any(handler.decode for handler in prepared)
    if is_raw:
        # They share the action, so all of them decode it, each in its own way.
        prepared = [prepare_handler(function, delivery, policy.options, is_raw=True) for function in functions]
    handlers = tuple(handler.function for handler in prepared)
    group = ActionHandlers(
        action=action, handlers=handlers, policy=policy, raw_payload=is_raw, session=session, destination=action
    )
    group.steps  # noqa: B018 - raises for a wrong session
    return group


class _Envelope(msgspec.Struct):
    """Returns the text of the payload in an action's JSON."""

    payload: msgspec.Raw = msgspec.Raw(b"null")


_read_envelope = msgspec.json.Decoder(_Envelope).decode


def _argument(group: ActionHandlers, claim: Claim) -> Action:
    """The action as its handlers take it."""
    if not group.raw_payload or not claim.message:
        return claim.action
    raw: Any = _read_envelope(claim.message).payload
    return msgspec.structs.replace(claim.action, payload=raw)


async def call_action_handlers(
    handlers: Mapping[str, ActionHandlers], claims: Sequence[Claim], conn: HandlerConnection
) -> list[float]:
    """Runs the handlers of every claimed action in order, in the transaction open on the connection; returns their seconds."""
    groups = [handlers[claim.action.action] for claim in claims]
    return await call_handlers([(group, _argument(group, claim)) for group, claim in zip(groups, claims, strict=True)], conn)


@dataclass(frozen=True)
class WorkerPool:
    """Actions that share workers. An action with its own concurrency, rate or order has its own pool; the others share one for each
    batch size."""

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
    shared: dict[int, dict[str, ActionHandlers]] = {}
    own: list[WorkerPool] = []
    for group in handlers:
        policy = group.policy
        if policy.is_shared:
            shared.setdefault(policy.batch_max, {})[group.action] = group
            continue
        own.append(
            WorkerPool(
                {group.action: group},
                policy.concurrency or workers,
                batch_max=policy.batch_max,
                rate_per_s=policy.rate_per_s,
                ordered=policy.ordered,
            )
        )
    return [WorkerPool(groups, workers, batch_max=batch_max) for batch_max, groups in shared.items()] + own


class AdaptiveBatchSize:
    """How many actions a worker claims at once: twice as many after a fast batch, half as many after a slow one.

    Fast handlers share the cost of a transaction, and slow ones do not make others wait behind them."""

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self.size = min(16, size_max)

    def adapt(self, actions: int, seconds: float) -> None:
        """Adapts the size to a finished batch: its number of actions and its duration in seconds."""
        if seconds > SLOW_S:
            self.size = max(1, self.size // 2)
        elif seconds < FAST_S and actions >= self.size:
            self.size = min(self._size_max, self.size * 2)
