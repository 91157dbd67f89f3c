"""Feedback: correlators whose derived events lead back to themselves.

A token that becomes an event feeds every token, of every correlator on that topic, that events of its type can influence. Rules
end in actions, and what a handler publishes is its own code's affair: so they close no loop that could be seen here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from headrace.lang.ecl import StateLimitExceeded, Table, dependencies, from_json


@dataclass(frozen=True)
class Link:
    """A token that becomes an event, and the events of its correlator's topic that can bring it about."""

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


def links_of(correlator: str, topic: str, table: Table, outputs: Mapping[str, Mapping[str, object]]) -> list[Link]:
    """The tokens of a correlator that become events."""
    wanted = {token: output for token, output in outputs.items() if "event" in output and token in table.tokens}
    if not wanted:
        return []
    try:
        found = {one.token: one for one in dependencies(table)}
    except StateLimitExceeded:
        # Too large to look into: any event may matter.
        found = {}
    return [
        Link(
            correlator,
            token,
            topic,
            frozenset(found[token].types) if token in found else frozenset(),
            found[token].any_type if token in found else True,
            str(output["topic"]),
            str(output["event"]),
        )
        for token, output in wanted.items()
    ]


def links_in(rows: Iterable[tuple[str, str, str, Mapping[str, Mapping[str, object]]]]) -> list[Link]:
    """The links of rows of queries/correlators/other_correlators.sql."""
    return [
        link
        for correlator, topic, compiled, outputs in rows
        for link in links_of(correlator, topic, from_json(compiled), outputs)
    ]


def feedback(own: Sequence[Link], others: Sequence[Link]) -> str | None:
    """The shortest loop through one of the links of one's own, in words; None when there is none."""
    every = [*own, *others]
    for link in own:
        ways: list[list[Link]] = [[link]]
        seen = {link}
        for way in ways:
            last = way[-1]
            if link.reads(last.writes_topic, last.writes_type):
                told = "; ".join(str(step) for step in way)
                return f"it feeds itself: {told}, which leads to {link.token} again; change an output, or allow feedback"
            for following in every:
                if following not in seen and following.reads(last.writes_topic, last.writes_type):
                    seen.add(following)
                    ways.append([*way, following])
    return None
