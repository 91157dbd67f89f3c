"""Relays: their fields, and what is special to them among the kinds of definitions. The truth is the table headrace.relay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal, cast

from headrace.consume import Seek, seek_consumer
from headrace.core import JSON, InvalidRelay, UnknownRelay
from headrace.db import Connection
from headrace.definitions import DefinitionKind, Field, load_definitions
from headrace.definitions.schemas import RelayFields, check_relay_definition
from headrace.lang.condition import parse
from headrace.relays.mapping import Format, check_mapping
from headrace.relays.targets import check_options
from headrace.relays.targets.options import check_references


@dataclass(frozen=True, kw_only=True)
class Relay:
    """Delivers the events of a topic for which the condition is true to another system."""

    name: Annotated[str, Field("Name of the relay.", example="crm")]
    topic: Annotated[str, Field("Topic of the events.", is_fixed=True)]
    target: Annotated[
        str,
        Field("Kind of the system: webhook, postgres, nats, redis, rabbitmq, rabbitmq-stream, kafka, or one of another package."),
    ]
    options: Annotated[
        Mapping[str, JSON],
        Field(
            "Where and how; a secret is a reference, env:NAME or file:name.",
            hint='JSON. Webhook: {"url": "https://crm.example/hook", "secret": "env:CRM"}.',
            is_json=True,
        ),
    ] = field(default_factory=dict)
    condition: Annotated[
        str,
        Field(
            "Condition on the event.",
            hint="Which events are sent, such as type = 'order.paid' and (object -> 'total')::int > 100.",
            is_long=True,
        ),
    ] = "true"
    format: Annotated[Format, Field("What a message's body is.")] = "stored"
    mapping: Annotated[
        Mapping[str, JSON] | None,
        Field(
            "Fields of a message, for the format template.",
            hint='For example {"id": "$.id", "total": "$.payload.total"}.',
            is_json=True,
            unset="none",
        ),
    ] = None
    start: Annotated[Literal["earliest", "latest"], Field("Where a new relay starts.", title="starts at")] = "latest"
    attempts: Annotated[int | None, Field("How often an event is tried.", unset="until the target takes it", minimum=1)] = None
    backoff_s: Annotated[
        float,
        Field("Seconds until the second attempt; each further pause is longer.", title="first pause"),
    ] = 1.0
    backoff_max_s: Annotated[float, Field("The longest pause between two attempts, in seconds.", title="longest pause")] = 300.0
    when_exhausted: Annotated[
        Literal["stop", "dead_letter"],
        Field(
            "After the last attempt, and for an event that the target refuses: stop keeps the partition waiting for `resume`.",
            title="after the last attempt",
            meanings=("the partition stops", "it becomes a dead letter"),
        ),
    ] = "dead_letter"
    key_order: Annotated[
        Literal["hold", "skip"],
        Field(
            "Do later events of its key wait behind a dead letter?",
            title="later events of its key",
            hint="hold: they wait; skip: they go on.",
            meanings=("wait behind a dead letter", "go on"),
        ),
    ] = "hold"
    batch: Annotated[
        int,
        Field("Events that are delivered together at most.", title="events per delivery", minimum=1, maximum=10_000),
    ] = 100
    concurrency: Annotated[
        int,
        Field("Partitions that a node delivers at the same time.", title="partitions at the same time", minimum=1, maximum=64),
    ] = 1
    active: Annotated[bool, Field("Run the relay.")] = True

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


@dataclass(frozen=True, kw_only=True)
class RelayVersion(Relay):
    """A version of a relay. One that was dropped and created again has a new `relay_id`; `dropped` marks the drop."""

    relay_id: int
    version: int
    dropped: bool
    written_at: datetime
    written_by: str


def check_relay(relay: Relay) -> None:
    """Raises ConditionError or InvalidRelay where a relay is wrong; connects to nothing."""
    parse(relay.condition)
    check_mapping(relay.format, relay.mapping)
    if problems := [*check_references(relay.options), *check_options(relay.target, relay.options)]:
        raise InvalidRelay(f"relay {relay.name}, target {relay.target}: {'; '.join(problems)}")


class RelayKind(DefinitionKind[Relay, RelayState, RelayVersion]):
    """Relays as a kind of definition; every shard has all of them, for its own events."""

    noun = "relay"
    definition_type = Relay
    state_type = RelayState
    version_type = RelayVersion
    unknown = UnknownRelay
    usual_fields = "name, topic, target, options"

    def check(self, definition: Relay) -> None:
        check_relay(definition)

    def check_in(self, conn: Connection, definition: Relay, namespace: str | None) -> None:
        """Checks a relay by itself, and against the schemas of its event types."""
        self.check(definition)
        fields = RelayFields(definition.condition, definition.mapping)
        check_relay_definition(conn, f"relay {definition.name}", definition.topic, fields, namespace=namespace)

    def summary(self, definition: Relay) -> str:
        condition = "" if definition.condition == "true" else f", {definition.condition}"
        return f"{definition.topic}{condition} → {definition.target}"


RELAYS = RelayKind()

create_relay = RELAYS.create
alter_relay = RELAYS.alter
drop_relay = RELAYS.drop
list_relays = RELAYS.list_all
get_relay = RELAYS.get
list_relay_versions = RELAYS.versions


def seek_relay(conn: Connection, name: str, target: str, *, preview: bool = False, namespace: str | None = None) -> list[Seek]:
    """Moves a relay to 'earliest', 'latest', a position (the next one delivered) or a time; `preview` moves nothing."""
    state = RELAYS.get(conn, name, namespace=namespace)
    return seek_consumer(conn, state.relay.topic, state.consumer, target, preview=preview, namespace=namespace)


def load_relays(path: Path | str) -> tuple[Relay, ...]:
    """The relays of a file, checked. Raises InvalidDefinitionFile, ConditionError and InvalidRelay."""
    return cast(tuple[Relay, ...], load_definitions(path, (RELAYS,)))
