"""Finds feedback: correlators whose own events lead back to them.

A token that becomes an event feeds every token, of every correlator on that topic, that events of its type can influence. Rules
end in actions, and what a handler publishes is up to its code, so they close no loop that could be found here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from headrace.lang.ecl import Budget, Table, from_json, types_read

FEEDBACK_STEPS_MAX = 100_000
"""Steps for the exact analysis of one correlator, about 0.1 s. Where they end, more event types count as read by its tokens."""

CorrelatorRow: TypeAlias = tuple[str, str, str, Mapping[str, Mapping[str, object]]]


@dataclass(frozen=True)
class Link:
    """A token that becomes an event, and the events of its correlator's topic that can lead to it."""

    correlator: str
    token: str
    reads_topic: str
    reads_types: frozenset[str]
    reads_any: bool
    writes_topic: str
    writes_type: str

    def reads(self, topic: str, type_: str) -> bool:
        return topic == self.reads_topic and (self.reads_any or type_ in self.reads_types)

    def __str__(self) -> str:
        return f"{self.correlator} pushes {self.token}, event {self.writes_type} on topic {self.writes_topic}"


def links_of(
    correlator: str, topic: str, table: Table, outputs: Mapping[str, Mapping[str, object]], *, budget: Budget | None = None
) -> list[Link]:
    """The tokens of a correlator that become events. Raises StateLimitExceeded if a budget is given and exceeded."""
    event_outputs = {token: output for token, output in outputs.items() if "event" in output and token in table.tokens}
    if not event_outputs:
        return []
    own = Budget(FEEDBACK_STEPS_MAX if budget is None else min(FEEDBACK_STEPS_MAX, budget.left))
    known = types_read(table, budget=own)
    if budget is not None:
        budget.spend(own.spent)
    return [
        Link(
            correlator,
            token,
            topic,
            frozenset(known[token].types) if token in known else frozenset(),
            token in known and known[token].any_type,
            str(output["topic"]),
            str(output["event"]),
        )
        for token, output in event_outputs.items()
    ]


def links_in(rows: Iterable[CorrelatorRow], *, budget: Budget | None = None) -> list[Link]:
    """The links in rows of the query correlators/other_correlators."""
    return [
        link
        for correlator, topic, compiled, outputs in rows
        for link in links_of(correlator, topic, from_json(compiled), outputs, budget=budget)
    ]


def feedback(own: Sequence[Link], others: Sequence[Link]) -> str | None:
    """The shortest loop through one of this correlator's links, in words; None when there is none."""
    every = [*own, *others]
    for link in own:
        paths: list[list[Link]] = [[link]]
        visited = {link}
        for path in paths:
            last = path[-1]
            if link.reads(last.writes_topic, last.writes_type):
                steps = "; ".join(str(step) for step in path)
                return f"it feeds itself: {steps}, which leads to {link.token} again; change an output, or allow feedback"
            for following in every:
                if following not in visited and following.reads(last.writes_topic, last.writes_type):
                    visited.add(following)
                    paths.append([*path, following])
    return None
