"""Claims: which events of which partitions a worker holds, as headrace.claim_events returns them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import starmap
from operator import attrgetter
from typing import Any

from headrace.core import ERASED_HEADER, LoggedEvent, RawJSON, decode
from headrace.drivers import EventRows


@dataclass(frozen=True)
class Claim:
    """The events of one partition after `position` up to `upto`, held by this transaction."""

    partition: int
    """-1: the cursor over the whole topic."""
    position: int
    upto: int
    events: int
    attempts: int = 0
    """How often the first of them has failed."""
    end: int | None = None
    """Where the cursor goes when they are handled, if that is behind `upto`: the events between do not match the condition."""


class ClaimedBatch:
    """All that one call of headrace.claim_events returned. The claims can be read even if an event cannot be."""

    def __init__(self, rows: EventRows) -> None:
        self._rows = rows
        self.claims: list[Claim] = []
        self._spans: list[tuple[int, int]] = []
        self.is_partial = False
        """More events may be due than were claimed."""
        self.is_held = False
        """Events are due, but other workers hold their partitions."""
        self.has_suspect = False
        """An event that may have killed its process was left out: it is to be handled alone."""
        self._cut_at: int | None = None
        self.interruption: Exception | None = None
        """An error that is not the handler's, and that cut the batch; to be raised when what is before it is committed."""
        held: list[int] = []
        end = len(rows)
        while end > 0:
            # The row of a claim comes behind its events.
            last = end - 1
            [(position, partition, _, _, _, _, payload, *_)] = rows.load(last, end)
            details: Any = decode(bytes(payload)) if isinstance(payload, RawJSON) else payload
            end = last - details["events"]
            self.is_partial |= details["partial"]
            if end == last:
                self.is_held |= details.get("locked", False)
                self.has_suspect |= details.get("alone", False)
                continue
            upto, attempts = rows.position(last - 1), details["attempts"]
            self.claims.append(Claim(partition, position, upto, details["events"], attempts, details.get("upto")))
            self._spans.append((end, last))
            held += details["held"] or []
        self.held: Set[int] = frozenset(held)
        """Positions of events that are dead letters or wait behind one of their key."""

    def cut_before(self, position: int, interruption: Exception | None = None) -> None:
        """Leaves the events from this position on for another batch."""
        self._cut_at = position
        self.interruption = interruption
        self.is_partial = True

    @property
    def is_cut(self) -> bool:
        return self._cut_at is not None

    @property
    def size(self) -> int:
        """How many events were claimed."""
        return sum(claim.events for claim in self.claims)

    @cached_property
    def events(self) -> Sequence[LoggedEvent]:
        """The events to handle, by position, without erased ones; raises what decoding them raises."""
        events: list[LoggedEvent] = []
        for start, end in self._spans:
            events += starmap(LoggedEvent, self._rows.load(start, end))
        if len(self._spans) > 1:
            events.sort(key=attrgetter("position"))
        # Nothing is left of an erased event that a handler could work on.
        events = [event for event in events if not _is_erased(event.headers)]
        return [event for event in events if event.position not in self.held] if self.held else events

    def ends(self) -> dict[int, int]:
        """Where the cursor of each partition goes if all events are handled."""
        if self._cut_at is not None:
            return self.ends_before(self._cut_at)
        return {claim.partition: claim.end or claim.upto for claim in self.claims}

    def ends_before(self, position: int) -> dict[int, int]:
        """Where the cursors go if only the events before a position are handled; only those that move."""
        ends: dict[int, int] = {}
        for claim, (start, end) in zip(self.claims, self._spans, strict=True):
            passed = [self._rows.position(index) for index in range(start, end) if self._rows.position(index) < position]
            if passed:
                ends[claim.partition] = passed[-1]
        return ends

    def claim_of(self, event: LoggedEvent) -> Claim:
        """The claim that an event belongs to."""
        return next(claim for claim in self.claims if claim.partition in (event.partition, -1))


_ERASED = f'"{ERASED_HEADER}"'.encode()


def _is_erased(headers: Mapping[str, object] | RawJSON) -> bool:
    return _ERASED in bytes(headers) if isinstance(headers, RawJSON) else ERASED_HEADER in headers
