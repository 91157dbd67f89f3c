"""Handlers: functions for actions, described first and called later, all of one action in one transaction."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias, cast

from headrace.actions.action import Action, Claim
from headrace.consume import TransactionGuard, sync_view
from headrace.core import Invalid
from headrace.db import AsyncConnection, Connection

ActionHandler: TypeAlias = Callable[[Action, AsyncConnection], Awaitable[None]] | Callable[[Action, Connection], None]
"""A function of an action and the open transaction."""

BATCH_MAX = 500
"""Actions in one transaction; fewer where handlers take long."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """How an action is handled. It holds for all handlers of the action, since they share a transaction."""

    attempts: int = 5
    """How often it is handed out before it is a dead letter."""
    backoff_s: float = 1
    """Pause after the first failure; it doubles with every further one, less a random part of up to a half."""
    backoff_max_s: float = 300
    concurrency: int | None = None
    """How many run side by side on one node; None: it shares the node's workers with other actions."""
    rate_per_s: float | None = None
    """How many begin per second on one node."""
    ordered: bool = False
    """Actions of a key one after the other, in the order they were sent."""

    def __post_init__(self) -> None:
        if self.attempts < 1 or not 0 < self.backoff_s <= self.backoff_max_s:
            raise Invalid(
                f"attempts {self.attempts}, backoff_s {self.backoff_s}, backoff_max_s {self.backoff_max_s}: "
                "need attempts ≥ 1 and 0 < backoff_s ≤ backoff_max_s"
            )
        if (self.concurrency is not None and self.concurrency < 1) or (self.rate_per_s is not None and self.rate_per_s <= 0):
            raise Invalid(f"concurrency {self.concurrency}, rate_per_s {self.rate_per_s}: both must be above zero")


@dataclass(frozen=True, kw_only=True)
class Handling:
    """All that a node does about one action."""

    action: str
    handlers: tuple[ActionHandler, ...]
    policy: Policy = field(default_factory=Policy)

    @cached_property
    def calls(self) -> tuple[tuple[bool, ActionHandler], ...]:
        """Its handlers, each with whether it is an async function."""
        return tuple((inspect.iscoroutinefunction(handler), handler) for handler in self.handlers)

    @cached_property
    def plain(self) -> bool:
        """Are all its handlers plain functions? Then one thread may run many actions in a row."""
        return not any(is_async for is_async, _ in self.calls)


async def call_all(handlings: Mapping[str, Handling], claims: Sequence[Claim], conn: AsyncConnection) -> list[float]:
    """Runs the handlers of every action in order, in the transaction open on the connection; returns each one's seconds."""
    durations: list[float] = []
    kept_open = TransactionGuard(conn)
    at = 0
    while at < len(claims):
        handling = handlings[claims[at].action.action]
        if handling.plain:
            # A hop into a thread costs more than many a handler: a run of plain ones goes in one hop.
            end = at + 1
            while end < len(claims) and handlings[claims[end].action.action].plain:
                end += 1
            durations += await asyncio.to_thread(_call_plain, handlings, claims[at:end], sync_view(conn))
            at = end
        else:
            began = time.perf_counter()
            for is_async, handler in handling.calls:
                with kept_open:
                    if is_async:
                        await cast(Any, handler)(claims[at].action, conn)
                    else:
                        await asyncio.to_thread(cast(Any, handler), claims[at].action, sync_view(conn))
            durations.append(time.perf_counter() - began)
            at += 1
    return durations


def _call_plain(handlings: Mapping[str, Handling], claims: Sequence[Claim], conn: Connection) -> list[float]:
    durations: list[float] = []
    kept_open = TransactionGuard(conn)
    for claim in claims:
        began = time.perf_counter()
        for handler in handlings[claim.action.action].handlers:
            with kept_open:
                cast(Any, handler)(claim.action, conn)
        durations.append(time.perf_counter() - began)
    return durations
