"""A dead letter by its name on the command line: a number is an action's, `topic/consumer/position` an event's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import typer

from headrace.cli.session import Session


@dataclass(frozen=True)
class EventLetter:
    """Dead letters of a consumer: the one at a position, or all."""

    topic: str
    consumer: str
    position: int | None

    def __str__(self) -> str:
        place = f"{self.topic}/{self.consumer}"
        return place if self.position is None else f"{place}/{self.position}"


@dataclass(frozen=True)
class Letters:
    """What was named."""

    actions: tuple[int, ...]
    events: tuple[EventLetter, ...]


def read_letters(session: Session, names: Sequence[str]) -> Letters:
    """Reads the names of dead letters; a name that is none is wrong usage."""
    actions = tuple(int(name) for name in names if name.isascii() and name.isdigit())
    events = tuple(_event_letter(name) for name in names if not (name.isascii() and name.isdigit()))
    if actions and len(session.targets) > 1:
        raise typer.BadParameter("every shard counts its actions' dead letters by itself; name one shard with --dsn")
    return Letters(actions, events)


def _event_letter(name: str) -> EventLetter:
    topic, consumer, position = [*name.split("/"), "", ""][:3]
    if not topic or not consumer or name.count("/") > 2 or not (position == "" or (position.isascii() and position.isdigit())):
        raise typer.BadParameter(
            f"{name!r} names no dead letter; write its number (an action's), TOPIC/CONSUMER/POSITION (an event's), "
            "or TOPIC/CONSUMER for all of a consumer"
        )
    return EventLetter(topic, consumer, int(position) if position else None)
