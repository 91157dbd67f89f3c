"""Dead letters: actions and events that could not be handled, and what to do with them. One API for both kinds.

An id is what users type on the command line: a number for an action (`17`), `TOPIC/CONSUMER/POSITION` for an event
(`orders/billing/4711`). `TOPIC/CONSUMER` stands for all dead letters of a consumer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, LiteralString, Self, TypeAlias
from uuid import UUID

from headrace.core import JSON, Invalid, Payload, UnknownDeadLetter, encode
from headrace.db import Connection, fetch_rows, fetch_value, query

Kind: TypeAlias = Literal["action", "event"]

_REDRIVE_ACTIONS = "select headrace.redrive_actions(%(ids)s, %(action)s, %(error)s, p_namespace => %(namespace)s)"
_REDRIVE_EVENTS = "select headrace.redrive(%s, %s, %s, %s)"
_DISCARD_ACTIONS = """select headrace.discard_actions(
    %(ids)s, %(action)s, %(error)s, p_redriven => %(redriven)s, p_namespace => %(namespace)s)"""
_DISCARD_EVENTS = "select headrace.discard(%s, %s, %s, %s)"


@dataclass(frozen=True)
class DeadLetterId:
    """The parts of an id: the number of an action's dead letter, or the topic, consumer and position of an event's."""

    number: int | None = None
    topic: str = ""
    consumer: str = ""
    position: int | None = None
    """None: all dead letters of the consumer."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads an id; raises Invalid."""
        if _is_number(text):
            return cls(number=int(text))
        topic, consumer, position = [*text.split("/"), "", ""][:3]
        if not topic or not consumer or text.count("/") > 2 or not (position == "" or _is_number(position)):
            raise Invalid(
                f"{text!r} is not the id of a dead letter; write a number (an action), TOPIC/CONSUMER/POSITION (an event), "
                "or TOPIC/CONSUMER (all events of a consumer)"
            )
        return cls(topic=topic, consumer=consumer, position=int(position) if position else None)

    @property
    def kind(self) -> Kind:
        return "event" if self.number is None else "action"


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """An action or event that could not be handled."""

    kind: Kind
    id: str
    namespace: str
    source: str
    """`queue` for an action, `topic/consumer` for an event."""
    original_id: UUID | None
    """The id of the action or of the event."""
    name: str | None
    """The name of the action or the type of the event."""
    key: str | None
    payload: JSON
    """What a redrive delivers."""
    edited: bool
    state: str
    """`dead`; `behind` (an event waits for an earlier one of its key); `redrive` (marked); `redriven`; `discarded`."""
    reason: str
    error: str | None
    error_group: str | None
    """What errors of the same kind have in common."""
    traceback: str | None
    attempts: int
    buried_at: datetime
    redriven_at: datetime | None
    """When an action went back to the queue."""
    original_payload: JSON = None
    """What `payload` was before an edit."""
    envelope: JSON = None
    """The original action."""
    partition: int | None = None
    position: int | None = None
    headers: JSON = None
    """The headers of the event."""


@dataclass(frozen=True)
class DeadLetterGroup:
    """Dead letters of one action, or of one consumer, with the same reason and the same kind of error."""

    kind: Kind
    source: str
    name: str | None
    """The name of the action; None for events."""
    reason: str
    error_group: str | None
    dead: int
    """How many there are; at most 100 000 of all groups together are counted."""
    is_more: bool
    """There are more than `dead`."""
    first_at: datetime
    last_at: datetime
    example_id: str


def list_dead_letters(
    conn: Connection,
    *,
    kind: Kind | None = None,
    action: str | None = None,
    error: str | None = None,
    consumer: str | None = None,
    action_ids: Sequence[UUID] | None = None,
    ended: bool = False,
    limit: int | None = 100,
    namespace: str | None = None,
) -> list[DeadLetter]:
    """Dead letters: at most `limit` actions, oldest first, then at most `limit` events, by position.

    `action`, `error` and `action_ids` select actions, `consumer` (`TOPIC` or `TOPIC/CONSUMER`) selects events; an unknown consumer
    raises. With `ended` also those that are redriven or discarded."""
    letters: list[DeadLetter] = []
    if consumer is None and kind != "event":
        own: dict[str, object] = {"ids": None, "action": action, "error": error}
        own["actions"] = None if action_ids is None else list(action_ids)
        letters += _read(conn, "dead_actions", **own, ended=ended, limit=limit, namespace=namespace)
    if action is None and error is None and action_ids is None and kind != "action":
        topic, _, name = (consumer or "").partition("/")
        _check_consumer(conn, topic, name, namespace)
        where = {"topic": topic or None, "consumer": name or None, "position": None}
        letters += _read(conn, "dead_events", **where, ended=ended, limit=limit, namespace=namespace)
    return letters


def get_dead_letter(conn: Connection, letter_id: str, *, namespace: str | None = None) -> DeadLetter:
    """One dead letter, open or ended; raises UnknownDeadLetter."""
    letter = DeadLetterId.parse(letter_id)
    if letter.number is not None:
        where: dict[str, object] = {"ids": [letter.number], "action": None, "error": None, "actions": None}
        letters = _read(conn, "dead_actions", **where, ended=True, limit=None, namespace=namespace)
    elif letter.position is None:
        raise Invalid(f"{letter_id} names a consumer; add the position: {letter_id}/POSITION")
    else:
        _check_consumer(conn, letter.topic, letter.consumer, namespace)
        where = {"topic": letter.topic, "consumer": letter.consumer, "position": letter.position}
        letters = _read(conn, "dead_events", **where, ended=True, limit=None, namespace=namespace)
    if not letters:
        raise UnknownDeadLetter(f"there is no dead letter {letter_id}; see: headrace dead-letter list")
    return letters[0]


def group_dead_letters(conn: Connection, *, namespace: str | None = None) -> list[DeadLetterGroup]:
    """Open dead letters counted by source, reason and kind of error: actions, then events, the largest groups first."""
    return fetch_rows(conn, DeadLetterGroup, query("actions/dead_letter_groups"), {"namespace": namespace})


def edit_dead_letter(conn: Connection, letter_id: str, payload: Payload, *, namespace: str | None = None) -> None:
    """Changes the payload that a redrive delivers. The original payload is kept, and the log with the event never changes."""
    letter = DeadLetterId.parse(letter_id)
    if letter.number is not None:
        fetch_value(conn, "select headrace.edit_dead_letter(%s, %s::jsonb, %s)", (letter.number, encode(payload), namespace))
        return
    if letter.position is None:
        raise Invalid(f"{letter_id} names a consumer; add the position: {letter_id}/POSITION")
    event = (letter.topic, letter.consumer, letter.position)
    fetch_value(conn, "select headrace.edit_dead_event(%s, %s, %s, %s::jsonb, %s)", (*event, encode(payload), namespace))


def redrive(
    conn: Connection,
    ids: Sequence[str] | None = None,
    *,
    action: str | None = None,
    error: str | None = None,
    namespace: str | None = None,
) -> int:
    """Has dead letters handled again; returns how many. Without ids: all actions, or those of a name or of a kind of error.

    An action goes back to the queue, and the original is kept. An event is delivered again with those that wait behind it, in
    order."""
    parameters: dict[str, object] = {"action": action, "error": error, "namespace": namespace}
    return _change(conn, ids, _REDRIVE_ACTIONS, _REDRIVE_EVENTS, parameters)


def discard(
    conn: Connection,
    ids: Sequence[str] | None = None,
    *,
    action: str | None = None,
    error: str | None = None,
    redriven: bool = False,
    namespace: str | None = None,
) -> int:
    """Gives dead letters up; returns how many. Without ids: all actions, or those of a name or of a kind of error.

    Actions are deleted for good; with `redriven`, the originals kept by a redrive. Events stay on record, and the events
    that wait behind them are handled."""
    parameters: dict[str, object] = {"action": action, "error": error, "redriven": redriven, "namespace": namespace}
    return _change(conn, ids, _DISCARD_ACTIONS, _DISCARD_EVENTS, parameters)


def _change(
    conn: Connection,
    ids: Sequence[str] | None,
    change_actions: LiteralString,
    change_events: LiteralString,
    parameters: dict[str, object],
) -> int:
    letters = None if ids is None else [DeadLetterId.parse(letter_id) for letter_id in ids]
    numbers = None if letters is None else [letter.number for letter in letters if letter.number is not None]
    statements: list[tuple[LiteralString, dict[str, object] | tuple[object, ...]]] = []
    if numbers is None or numbers:
        statements.append((change_actions, parameters | {"ids": numbers}))
    for letter in letters or ():
        if letter.number is None:
            statements.append((change_events, (letter.topic, letter.consumer, letter.position, parameters["namespace"])))
    return sum(fetch_value(conn, statement, values) for statement, values in statements)


def _read(conn: Connection, name: str, **parameters: object) -> list[DeadLetter]:
    return fetch_rows(conn, DeadLetter, query(f"actions/{name}"), parameters)


def _check_consumer(conn: Connection, topic: str, consumer: str, namespace: str | None) -> None:
    """Raises UnknownTopic or UnknownConsumer."""
    if consumer:
        fetch_value(conn, "select headrace_internal.consumer_id(%s, %s, %s)", (topic, consumer, namespace))
    elif topic:
        fetch_value(conn, "select headrace.topic_id(%s, %s)", (topic, namespace))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
