"""Lanes: which actions are worked on together, how fast, and how many at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from headrace.actions.handlers import BATCH_MAX, Handling

WORKERS = 4
QUICK_S = 0.1
SLOW_S = 0.5


@dataclass(frozen=True)
class Lane:
    """Actions with the same workers. One that asks for concurrency, rate or order has a lane of its own; the others share one."""

    handlings: Mapping[str, Handling]
    workers: int
    batch_max: int = BATCH_MAX
    rate_per_s: float | None = None
    ordered: bool = False

    @property
    def name(self) -> str:
        return "actions " + (next(iter(self.handlings)) if len(self.handlings) == 1 else f"({len(self.handlings)} names)")


def lanes(handlings: Iterable[Handling], *, workers: int = WORKERS) -> list[Lane]:
    """The lanes of a node."""
    shared: dict[str, Handling] = {}
    own: list[Lane] = []
    for handling in handlings:
        policy = handling.policy
        if policy.concurrency is None and policy.rate_per_s is None and not policy.ordered and policy.attempts > 1:
            shared[handling.action] = handling
            continue
        own.append(
            Lane(
                {handling.action: handling},
                policy.concurrency or workers,
                # With a single attempt, an action must not be handed out along with one that kills the process.
                batch_max=BATCH_MAX if policy.attempts > 1 else 1,
                rate_per_s=policy.rate_per_s,
                ordered=policy.ordered,
            )
        )
    return ([Lane(shared, workers)] if shared else []) + own


class Pace:
    """How many actions a worker takes at once: twice as many after a quick batch, half after a slow one.

    So short handlers share the cost of a transaction, and long ones do not make others wait behind them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.size = min(16, most)

    def took(self, actions: int, seconds: float) -> None:
        if seconds > SLOW_S:
            self.size = max(1, self.size // 2)
        elif seconds < QUICK_S and actions >= self.size:
            self.size = min(self._most, self.size * 2)


class Bucket:
    """Tokens for a rate: they drip in evenly and a second's worth is kept at most."""

    def __init__(self, per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._clock = clock
        self._tokens = max(1.0, per_s)
        self._seen_at = clock()

    def take(self, most: int) -> int:
        """As many whole tokens as are there, at most so many."""
        now = self._clock()
        self._tokens = min(max(1.0, self._per_s), self._tokens + (now - self._seen_at) * self._per_s)
        self._seen_at = now
        taken = min(most, int(self._tokens))
        self._tokens -= taken
        return taken

    def give_back(self, tokens: int) -> None:
        """What was taken and not used."""
        self._tokens += tokens

    def wait_s(self) -> float:
        """How long until there is a whole token."""
        return max(0.0, 1 - self._tokens) / self._per_s
