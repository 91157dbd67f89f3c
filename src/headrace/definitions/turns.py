"""Turns of what waits to be compiled: what one namespace has waiting delays no other by more than one turn. Running work takes turns
by headrace.core.NamespaceTurns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


class TooLong(Exception):
    """Something takes longer than others in the line can be made to wait. `work`, if it is known, is what takes long: once it was done
    beside the line, the next attempt is short. Otherwise another transaction holds a lock."""

    def __init__(self, work: Callable[[], Awaitable[None]] | None = None) -> None:
        super().__init__()
        self.work = work


def rounds_by_namespace(waiting: Iterable[T], namespace_of: Callable[[T], str]) -> list[list[T]]:
    """What waits, in rounds: the first has the first of each namespace, the second the second of those that have more, and so on."""
    rounds: list[list[T]] = []
    counts: Counter[str] = Counter()
    for item in waiting:
        number = counts[namespace_of(item)]
        counts[namespace_of(item)] += 1
        if number == len(rounds):
            rounds.append([])
        rounds[number].append(item)
    return rounds
