"""Relays: create, alter, drop, list, and read from files. The truth is the table headrace.relay."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import msgspec
from psycopg.rows import class_row

from headrace.consume import Seek, seek_consumer
from headrace.core import JSON, InvalidRelay, UnknownRelay, encode
from headrace.db import Connection, map_database_errors, query
from headrace.definitions import DefinitionKind, StoredDefinition, load_definitions, state_row
from headrace.definitions.schemas import RelayFields, check_relay_definition
from headrace.lang.condition import parse
from headrace.relays.mapping import Format, check_mapping
from headrace.relays.targets import check_options
from headrace.relays.targets.options import check_references

BATCH = 100


@dataclass(frozen=True, kw_only=True)
class Relay:
    """Delivers the events of a topic for which the condition is true to another system."""

    name: str
    topic: str
    target: str
    """The kind of system: webhook, postgres, nats, redis, rabbitmq, rabbitmq-stream, kafka, or one of another package."""
    options: Mapping[str, JSON] = field(default_factory=dict)
    """Where and how; a secret is a reference, `env:NAME` or `file:name`."""
    condition: str = "true"
    format: Format = "stored"
    mapping: Mapping[str, JSON] | None = None
    """The fields of a message, for the format `template`."""
    start: Literal["earliest", "latest"] = "latest"
    """Where a new relay starts."""
    attempts: int | None = None
    """How often an event is tried; None: until the target takes it."""
    backoff_s: float = 1.0
    backoff_max_s: float = 300.0
    when_exhausted: Literal["stop", "dead_letter"] = "dead_letter"
    """After the last attempt, and for an event that the target refuses: `stop` keeps the partition waiting for `resume`."""
    key_order: Literal["hold", "skip"] = "hold"
    """Do later events of its key wait behind a dead letter?"""
    batch: int = BATCH
    """How many events are delivered together at most."""
    concurrency: int = 1
    """How many partitions a node delivers at the same time."""
    active: bool = True

    @property
    def consumer(self) -> str:
        """The name of the consumer that has the relay's cursors."""
        return f"relay.{self.name}"


@dataclass(frozen=True)
class RelayState:
    """A relay with its status (pending, valid, invalid, disabled), its error, and whether it is paused."""

    relay: Relay
    relay_id: int
    namespace: str
    source: str
    version: int
    status: str
    error: str | None
    written_at: datetime
    written_by: str
    consumer: str
    paused: bool
    pause_reason: str | None


@dataclass(frozen=True)
class RelayVersion:
    """A version of a relay. One that was dropped and created again has a new `relay_id`; `dropped` marks the drop."""

    relay_id: int
    version: int
    topic: str
    condition: str
    target: str
    options: Mapping[str, JSON]
    format: str
    mapping: Mapping[str, JSON] | None
    active: bool
    dropped: bool
    written_at: datetime
    written_by: str


def check_relay(relay: Relay) -> None:
    """Raises ConditionError or InvalidRelay where a relay is wrong; connects to nothing."""
    parse(relay.condition)
    check_mapping(relay.format, relay.mapping)
    if problems := [*check_references(relay.options), *check_options(relay.target, relay.options)]:
        raise InvalidRelay(f"relay {relay.name}, target {relay.target}: {'; '.join(problems)}")


def _check(conn: Connection, relay: Relay, namespace: str | None) -> None:
    """Checks a relay by itself, and against the schemas of its event types."""
    check_relay(relay)
    fields = RelayFields(relay.condition, relay.mapping)
    check_relay_definition(conn, f"relay {relay.name}", relay.topic, fields, namespace=namespace)


def create_relay(conn: Connection, relay: Relay, *, namespace: str | None = None, source: str = "sql") -> int:
    """Creates a relay and returns its id. Raises ConditionError, InvalidRelay and SchemaFindings before anything is written,
    RelayExists, UnknownTopic."""
    _check(conn, relay, namespace)
    with map_database_errors():
        row = conn.execute(query("relays/create_relay"), _parameters(relay, namespace, source)).fetchone()
    assert row is not None
    return int(row[0])


def alter_relay(conn: Connection, relay: Relay, *, namespace: str | None = None, source: str = "sql") -> None:
    """Gives a relay a new definition; its cursors stay. Raises ConditionError, InvalidRelay and SchemaFindings before anything is
    written, UnknownRelay, and Conflict for another topic."""
    _check(conn, relay, namespace)
    with map_database_errors():
        changed = conn.execute(query("relays/alter_relay"), _parameters(relay, namespace, source)).rowcount
    if not changed:
        raise _unknown(conn, relay.name, namespace)


def drop_relay(conn: Connection, name: str, *, namespace: str | None = None) -> None:
    """Deletes a relay with its cursors and dead letters; its versions stay on record. Raises UnknownRelay."""
    with map_database_errors():
        dropped = conn.execute(query("relays/drop_relay"), {"relay": name, "namespace": namespace}).rowcount
    if not dropped:
        raise _unknown(conn, name, namespace)


def list_relays(
    conn: Connection, *, topic: str | None = None, name: str | None = None, namespace: str | None = None
) -> list[RelayState]:
    """The relays of a namespace with their state, by name: all, those of a topic, or one."""
    with map_database_errors(), conn.cursor(row_factory=state_row(Relay, _state)) as cursor:
        return cursor.execute(query("relays/relays"), {"topic": topic, "relay": name, "namespace": namespace}).fetchall()


def get_relay(conn: Connection, name: str, *, namespace: str | None = None) -> RelayState:
    """One relay with its state. Raises UnknownRelay."""
    for state in list_relays(conn, name=name, namespace=namespace):
        return state
    raise _unknown(conn, name, namespace)


def list_relay_versions(conn: Connection, name: str, *, namespace: str | None = None) -> list[RelayVersion]:
    """All versions of a relay, oldest first, also of a dropped one. Raises UnknownRelay if there never was one."""
    with map_database_errors(), conn.cursor(row_factory=class_row(RelayVersion)) as cursor:
        versions = cursor.execute(query("relays/versions"), {"relay": name, "namespace": namespace}).fetchall()
    if not versions:
        raise UnknownRelay(f"there never was a relay {name!r}; see: headrace relay list")
    return versions


def seek_relay(conn: Connection, name: str, target: str, *, preview: bool = False, namespace: str | None = None) -> list[Seek]:
    """Moves a relay to 'earliest', 'latest', a position (the next one delivered) or a time; `preview` moves nothing."""
    state = get_relay(conn, name, namespace=namespace)
    return seek_consumer(conn, state.relay.topic, state.consumer, target, preview=preview, namespace=namespace)


def _state(relay: dict[str, Any], rest: dict[str, Any]) -> RelayState:
    return RelayState(relay=Relay(**relay), **rest)


def _parameters(relay: Relay, namespace: str | None, source: str) -> dict[str, str | int | float | bool | None]:
    texts = {"options": encode(relay.options), "mapping": None if relay.mapping is None else encode(relay.mapping)}
    return {**asdict(relay), **texts, "namespace": namespace, "source": source}


def _unknown(conn: Connection, name: str, namespace: str | None) -> UnknownRelay:
    known = ", ".join(state.relay.name for state in list_relays(conn, namespace=namespace)[:10])
    return UnknownRelay(f"there is no relay {name!r}; known relays: {known or 'none'}")


def _read_object(value: object) -> Mapping[str, JSON] | None:
    """An object of JSON values, from a file."""
    if value is None:
        return None
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise msgspec.ValidationError("expected an object")
    try:
        return msgspec.convert(msgspec.json.decode(msgspec.json.encode(value)), dict[str, Any])
    except (TypeError, ValueError) as error:
        raise msgspec.ValidationError(str(error)) from None


class RelayKind(DefinitionKind[Relay]):
    """Relays as a kind of definition; every shard has all of them, for its own events."""

    noun = "relay"
    type = Relay
    usual_fields = "name, topic, target, options"
    readers: ClassVar[Mapping[str, Callable[[object], object]]] = {"options": _read_object, "mapping": _read_object}

    def check(self, definition: Relay) -> None:
        check_relay(definition)

    def summary(self, definition: Relay) -> str:
        condition = "" if definition.condition == "true" else f", {definition.condition}"
        return f"{definition.topic}{condition} → {definition.target}"

    def list_stored(self, conn: Connection, namespace: str | None) -> list[StoredDefinition[Relay]]:
        return [StoredDefinition(state.relay, state.source) for state in list_relays(conn, namespace=namespace)]

    def create(self, conn: Connection, definition: Relay, *, namespace: str | None, source: str) -> None:
        create_relay(conn, definition, namespace=namespace, source=source)

    def alter(
        self, conn: Connection, before: Relay, after: Relay, *, namespace: str | None, source: str, restart: bool
    ) -> Mapping[str, int]:
        alter_relay(conn, after, namespace=namespace, source=source)
        return {}

    def drop(self, conn: Connection, name: str, *, namespace: str | None) -> None:
        drop_relay(conn, name, namespace=namespace)


RELAYS = RelayKind()


def load_relays(path: Path | str) -> tuple[Relay, ...]:
    """The relays of a file, checked. Raises InvalidDefinitionFile, ConditionError and InvalidRelay."""
    return cast(tuple[Relay, ...], load_definitions(path, (RELAYS,)))
